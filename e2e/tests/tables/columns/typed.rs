//! Blocks that bring a live JSON column's own type, against the engine: what it stores is what it
//! makes of plain JSON by writing and reading it as text.

use millrace_columns::{BlockSet, BodyCompression, TypedColumn};
use millrace_ddl::Layout;
use millrace_schema::{AttributeColumn, AttributeStorage, TableKind, TypedPath};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::tables::columns::tables::{Tables, attribute, request};

fn typed(column: AttributeColumn, path: &str, is_repeating: bool) -> TypedPath {
    TypedPath { column, path: path.parse().unwrap(), is_repeating }
}

/// A host in a dictionary, a status as plain texts, and a path that no record has.
fn tables() -> Tables {
    let typed_paths = vec![
        typed(AttributeColumn::Resource, "host.name", true),
        typed(AttributeColumn::Record, "http.status", false),
        typed(AttributeColumn::Record, "a.missing", true),
        typed(AttributeColumn::Record, "peer", true),
    ];
    Tables::laid_out(AttributeStorage::Json, Layout { typed_paths, ..Layout::default() })
}

/// What a gateway reads in `system.columns`.
fn live(tables: &Tables) -> Vec<TypedColumn> {
    let sql = "SELECT name, type FROM system.columns WHERE database = 'otel' \
               AND table = 'otel_traces' AND type LIKE '%JSON%' FORMAT TSVRaw";
    let rows = tables.query(sql);
    let columns = rows.lines().filter_map(|row| {
        let (name, ty) = row.split_once('\t').unwrap();
        TypedColumn::from_live(TableKind::Traces, name, ty)
    });
    columns.collect()
}

fn list(key: &str, member: &str) -> KeyValue {
    let values = vec![attribute(member, Any::StringValue("in a list".to_owned()))];
    attribute(key, Any::KvlistValue(KeyValueList { values }))
}

/// Sets of attributes whose typed paths have every scalar, a value that replaces another, what a
/// list's member makes, or nothing.
fn sets() -> Vec<Vec<KeyValue>> {
    let text = |key: &str, text: &str| attribute(key, Any::StringValue(text.to_owned()));
    let values = [
        Any::StringValue("200".to_owned()),
        Any::StringValue(String::new()),
        Any::StringValue("\u{e4} \"quoted\"\n".to_owned()),
        Any::IntValue(404),
        Any::IntValue(i64::MIN),
        Any::DoubleValue(0.25),
        Any::DoubleValue(-3.0),
        Any::BoolValue(true),
        Any::BoolValue(false),
        Any::BytesValue(vec![1, 2, 3]),
    ];
    let mut sets: Vec<Vec<KeyValue>> = Vec::new();
    for value in values {
        sets.push(vec![attribute("http.status", value.clone()), text("other", "kept")]);
        sets.push(vec![text("other", "alone"), attribute("peer", value)]);
    }
    sets.push(Vec::new());
    sets.push(vec![text("peer", "first"), attribute("peer", Any::IntValue(2)), text("z", "")]);
    sets.push(vec![list("http", "status")]);
    sets
}

/// Three resources: two hosts, and one without a host.
fn message(sets: &[Vec<KeyValue>]) -> Vec<u8> {
    let mut all = request(Vec::new());
    all.resource_spans.clear();
    for host in [Some("a"), None, Some("b")] {
        let mut one = request(sets.to_vec());
        let host = host.map(|host| attribute("host.name", Any::StringValue(host.to_owned())));
        let attributes = host.into_iter().collect();
        one.resource_spans[0].resource = Some(Resource { attributes, ..Resource::default() });
        all.resource_spans.append(&mut one.resource_spans);
    }
    all.encode_to_vec()
}

fn rows(tables: &Tables) -> Vec<String> {
    let sql = "SELECT SpanName, ResourceAttributes, SpanAttributes, \
               ResourceAttributes.`host.name` AS host, SpanAttributes.`http.status` AS status, \
               SpanAttributes.peer AS peer, SpanAttributes.`a.missing` AS missing \
               FROM otel.otel_traces FORMAT JSONEachRow";
    let mut rows: Vec<String> = tables.query(sql).lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Scenario: the same spans written as plain JSON and with the live types, in an insert of four
/// blocks; in two of them a typed path has an array or a list, so they are written as plain JSON.
/// Guarantee: the engine takes all, and holds the same in both tables, in typed paths and beside
/// them. Slow: two engines start.
#[test]
fn live_types_store_what_plain_json_does() {
    let (plain, own) = (tables(), tables());
    let live = live(&own);
    assert_eq!(live.len(), 2, "{live:?}");
    let array = ArrayValue { values: vec![AnyValue { value: Some(Any::IntValue(1)) }] };
    let arrays = vec![vec![attribute("peer", Any::ArrayValue(array))]];
    let lists = vec![vec![list("peer", "name")]];
    for (tables, typed) in [(&plain, &[] as &[TypedColumn]), (&own, &live)] {
        let mut set = BlockSet::new(Signal::Traces, &tables.options);
        set.set_typed(typed);
        for sets in [&sets(), &arrays, &lists, &sets()] {
            set.append(&message(sets)).unwrap();
            set.seal_blocks(BodyCompression::Lz4);
        }
        tables.send(&mut set);
    }
    let (plain, own) = (rows(&plain), rows(&own));
    assert_eq!(plain.len(), 3 * (2 * sets().len() + 2));
    for (own, plain) in own.iter().zip(&plain) {
        assert_eq!(own, plain);
    }
    assert_eq!(own.len(), plain.len());
    assert!(own.iter().any(|row| row.contains(r#""host":"b","status":"404","peer":"#)), "{own:?}");
}
