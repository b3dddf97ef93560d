//! The tables of a real engine, filled from block sets and read back by value. Shared by the tests
//! of the columns crate; each uses a part of it.
#![allow(dead_code, unreachable_pub, missing_docs)]

#[path = "../../../../../collector/core/columns/tests/native/mod.rs"]
pub mod native;
#[path = "../../../../../collector/core/columns/tests/oracle/mod.rs"]
pub mod oracle;

use millrace_columns::{BlockSet, BodyCompression, Options};
use millrace_ddl::{
    ClientOptions, DdlClient, Declared, Layout, MigrateOptions, Secret, Signals, TableName,
    TableOptions, UserCredentials, converge_servers, render,
};
use millrace_schema::{AttributeStorage, Identifier, TableKind, build_table};
use millrace_stack::clickhouse::{Engine, EngineOptions};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use native::Value;
use oracle::{Oracle, Rows};

/// A set of tables in one variant.
pub struct Tables {
    pub engine: Engine,
    pub options: Options,
}

fn name(text: &str) -> Identifier {
    text.parse().unwrap()
}

impl Tables {
    pub fn new(attributes: AttributeStorage) -> Self {
        Self::laid_out(attributes, Layout::default())
    }

    pub fn laid_out(attributes: AttributeStorage, layout: Layout) -> Self {
        let engine = Engine::start(EngineOptions::default()).unwrap();
        let options = TableOptions { attributes, layout, ..TableOptions::default() };
        let declared = Declared::uniform(name("otel"), name("otel"), Signals::ALL, &options);
        let mut client = ClientOptions::new(vec![engine.url().parse().unwrap()]);
        client.credentials = UserCredentials::Password {
            user: engine.user().to_owned(),
            password: Secret::new(engine.password()),
        };
        let client = DdlClient::new(client).unwrap();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(converge_servers(&client, &declared, &MigrateOptions::new("test")))
            .unwrap();
        Self { engine, options: Options { attributes, ..Options::default() } }
    }

    pub fn oracle(&self) -> Oracle {
        let Options { attributes, nested_depth } = self.options;
        Oracle { attributes, nested_depth }
    }

    /// Sends everything in `set`, each insert refused by the engine if it spans two partitions.
    pub fn send(&self, set: &mut BlockSet) {
        self.send_with(set, "");
    }

    /// The same with further parameters of a request.
    pub fn send_with(&self, set: &mut BlockSet, parameters: &str) {
        for insert in set.take_inserts(BodyCompression::Lz4) {
            let definition = build_table(insert.table, self.options.attributes);
            let name = TableName::new(&name("otel"), &name("otel"), insert.table);
            let statement = render::insert_statement(&name, &definition);
            let query = percent(statement.sql());
            let settings = "decompress=1&async_insert=0&max_partitions_per_insert_block=1";
            let path = format!("/?query={query}&{settings}{parameters}");
            let answer = self.engine.request(&path, &[], &insert.body.concat()).unwrap();
            assert_eq!(answer.status, 200, "{}: {}", insert.table, answer.text());
        }
    }

    /// All rows of a table, sorted by value: the engine keeps no order of arrival.
    pub fn stored(&self, kind: TableKind) -> Vec<Vec<Value>> {
        let definition = build_table(kind, self.options.attributes);
        let columns: Vec<String> =
            definition.insert_columns().map(|column| format!("`{}`", column.name)).collect();
        let query = format!(
            "SELECT {} FROM otel.otel_{} SETTINGS \
             output_format_native_use_flattened_dynamic_and_json_serialization = 1 FORMAT Native",
            columns.join(", "),
            kind.suffix(),
        );
        let answer = self.engine.request("/", &[], query.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let blocks = native::blocks(&answer.body).into_iter();
        let mut rows: Vec<_> = blocks.flat_map(|block| block.rows).collect();
        rows.sort();
        rows
    }

    /// The one answer to a query, without the line's end.
    pub fn query(&self, sql: &str) -> String {
        self.engine.query(sql).unwrap()
    }

    /// Checks that the tables hold exactly `expected`.
    pub fn verify(&self, expected: Rows) {
        for kind in TableKind::ALL.into_iter().filter(|kind| *kind != TableKind::TraceIdTs) {
            let of_kind = expected.iter().filter(|((other, _), _)| *other == kind);
            let mut rows: Vec<_> = of_kind.flat_map(|(_, rows)| rows.clone()).collect();
            rows.sort();
            let stored = self.stored(kind);
            assert_eq!(stored.len(), rows.len(), "rows of {kind}");
            for (stored, expected) in stored.iter().zip(&rows) {
                assert_eq!(stored, expected, "a row of {kind}");
            }
        }
    }
}

/// Percent-encodes a URL parameter.
fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// An attribute.
pub fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// A request of one span per set of attributes: named by its position, a nanosecond apart.
pub fn request(sets: Vec<Vec<KeyValue>>) -> ExportTraceServiceRequest {
    let span = |(n, attributes): (usize, Vec<KeyValue>)| Span {
        name: format!("{n:05}"),
        start_time_unix_nano: 1_790_000_000_000_000_000 + n as u64,
        attributes,
        ..Span::default()
    };
    let spans = sets.into_iter().enumerate().map(span).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}
