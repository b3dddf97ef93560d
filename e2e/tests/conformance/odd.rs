//! Log records with one odd value each, and in what their rows may differ.
#![allow(dead_code)]

use anyhow::{Result, bail};
use millrace_e2e::lab::Variant;
use millrace_schema::Table;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;

use super::rows::{self, Row};

/// A difference: the case, what ours is, what theirs is.
pub(crate) type Difference = (String, String, String);

/// 2026-01-01, in nanoseconds since 1970.
const START_NANOS: u64 = 1_767_225_600_000_000_000;

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn text(text: &str) -> AnyValue {
    any(Any::StringValue(text.to_owned()))
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn array(values: Vec<AnyValue>) -> AnyValue {
    any(Any::ArrayValue(ArrayValue { values }))
}

fn list(values: Vec<KeyValue>) -> AnyValue {
    any(Any::KvlistValue(KeyValueList { values }))
}

/// Each case with its attributes; values stand in the body too.
fn cases() -> Vec<(&'static str, Vec<KeyValue>)> {
    let int = |number| any(Any::IntValue(number));
    let double = |number| any(Any::DoubleValue(number));
    let values = [
        ("double whole", double(4.0)),
        ("double tiny", double(1e-7)),
        ("double huge", double(1e21)),
        ("double", double(0.1)),
        ("text date", text("2026-01-01")),
        ("text time", text("2026-01-01 12:00:00")),
        ("text number", text("42")),
        ("text markup", text("<a>&b \"c\" \\ \u{1} ü")),
        ("int largest", int(i64::MAX)),
        ("empty value", AnyValue { value: None }),
        ("empty text", text("")),
        ("empty array", array(Vec::new())),
        ("empty list", list(Vec::new())),
        ("array mixed", array(vec![text("a"), int(1)])),
        ("array int and double", array(vec![int(1), double(0.5)])),
        ("array of lists", array(vec![list(vec![pair("x", int(1))])])),
        ("array of arrays", array(vec![array(vec![int(1)])])),
        ("list unsorted", list(vec![pair("b", text("<&>")), pair("a", int(1))])),
        ("bytes", any(Any::BytesValue(vec![0xFB, 0xFF]))),
    ];
    let mut cases: Vec<_> =
        values.into_iter().map(|(name, value)| (name, vec![pair("a.v", value)])).collect();
    cases.push(("key twice", vec![pair("k", text("1")), pair("k", text("2"))]));
    cases.push(("key clash", vec![pair("p", text("1")), pair("p.q", text("2"))]));
    cases.push(("key empty", vec![pair("", text("1"))]));
    cases
}

/// All cases, one record each.
pub(crate) fn request() -> Vec<u8> {
    let record = |(at, (name, attributes)): (u64, (&str, Vec<KeyValue>))| LogRecord {
        time_unix_nano: START_NANOS + at * 1_000,
        severity_text: name.to_owned(),
        body: attributes.first().and_then(|attribute| attribute.value.clone()),
        attributes,
        ..LogRecord::default()
    };
    let log_records = (0..).zip(cases()).map(record).collect();
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

/// How many there are.
pub(crate) fn count() -> usize {
    cases().len()
}

/// The cases whose rows differ, of rows in the order of the cases.
pub(crate) fn differing(table: &Table, ours: &[Row], theirs: &[Row]) -> Result<Vec<Difference>> {
    if (ours.len(), theirs.len()) != (count(), count()) {
        bail!("{} and {} rows of {}", ours.len(), theirs.len(), count());
    }
    let names = rows::names(table);
    let shown = |row: &Row| {
        let cell = |name: &str| {
            let at = names.iter().position(|other| other == name);
            at.and_then(|at| row.get(at)).map_or("", String::as_str)
        };
        let (body, attributes) = (cell("Body"), cell("LogAttributes"));
        let shown = format!("{body} | {attributes} {}", cell("LogAttributes (types)"));
        (cell("SeverityText").to_owned(), shown)
    };
    let both = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
    let named = both.map(|(ours, theirs)| {
        let ((name, ours), (_, theirs)) = (shown(ours), shown(theirs));
        (name, ours, theirs)
    });
    Ok(named.collect())
}

/// The differences there may be. The server picks the types of arrays that it reads as text by what
/// else a batch holds under the path: here `Array(Dynamic)` for all.
pub(crate) fn differences(variant: Variant) -> Vec<Difference> {
    let listed: &[[&str; 3]] = match variant {
        Variant::Json => &[
            [
                "double whole",
                r#"4 | {"a":{"v":4}} {'a.v':'Float64'}"#,
                r#"4 | {"a":{"v":4}} {'a.v':'Int64'}"#,
            ],
            [
                "text date",
                r#"2026-01-01 | {"a":{"v":"2026-01-01"}} {'a.v':'String'}"#,
                r#"2026-01-01 | {"a":{"v":"2026-01-01"}} {'a.v':'Date'}"#,
            ],
            [
                "text time",
                r#"2026-01-01 12:00:00 | {"a":{"v":"2026-01-01 12:00:00"}} {'a.v':'String'}"#,
                r#"2026-01-01 12:00:00 | {"a":{"v":"2026-01-01 12:00:00"}} {'a.v':'DateTime'}"#,
            ],
            [
                "array of lists",
                r#"[{"x":1}] | {"a":{"v":["{\"x\":1}"]}} {'a.v':'Array(Dynamic)'}"#,
                r#"[{"x":1}] | {"a":{"v":[{"x":1}]}} {'a.v':'Array(Dynamic)'}"#,
            ],
            [
                "array of arrays",
                r#"[[1]] | {"a":{"v":["[1]"]}} {'a.v':'Array(Dynamic)'}"#,
                r#"[[1]] | {"a":{"v":[[1]]}} {'a.v':'Array(Dynamic)'}"#,
            ],
            [
                "list unsorted",
                concat!(
                    r#"{"b":"<&>","a":1} | {"a":{"v":{"a":1,"b":"<&>"}}} "#,
                    "{'a.v.a':'Int64','a.v.b':'String'}",
                ),
                concat!(
                    r#"{"a":1,"b":"<&>"} | {"a":{"v":{"a":1,"b":"<&>"}}} "#,
                    "{'a.v.a':'Int64','a.v.b':'String'}",
                ),
            ],
        ],
        Variant::Map => &[[
            "list unsorted",
            r#"{"b":"<&>","a":1} | [["a.v","{\"b\":\"<&>\",\"a\":1}"]] "#,
            r#"{"a":1,"b":"<&>"} | [["a.v","{\"a\":1,\"b\":\"<&>\"}"]] "#,
        ]],
    };
    let owned = |[name, ours, theirs]: &[&str; 3]| {
        ((*name).to_owned(), (*ours).to_owned(), (*theirs).to_owned())
    };
    listed.iter().map(owned).collect()
}
