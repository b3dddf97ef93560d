//! Tests of the output of `otlp/encode.rs`, read by the reference library.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Theirs;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Status;
use prost::Message;

use super::super::ids::TraceId;
use super::super::is_own_telemetry;
use super::super::item::{SpanContext, SpanKind};
use super::*;

fn resource() -> Vec<(String, String)> {
    vec![("service.name".to_owned(), "x".to_owned())]
}

fn pair(name: &str, value: Theirs) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn marked() -> Vec<KeyValue> {
    vec![
        pair(OWN_ATTRIBUTE, Theirs::BoolValue(true)),
        pair("service.name", Theirs::StringValue("x".to_owned())),
    ]
}

fn place() -> SpanContext {
    SpanContext { trace: TraceId::new(0xab), span: 7 }
}

fn done() -> EndedSpan {
    EndedSpan {
        context: place(),
        parent: Some(9),
        name: "insert".to_owned(),
        kind: SpanKind::Client,
        start_unix_nanos: 1_000,
        end_unix_nanos: 2_000,
        failed: true,
        attributes: vec![
            Attribute { name: "a", value: ItemValue::Int(-3) },
            Attribute { name: "b", value: ItemValue::Bool(true) },
            Attribute { name: "c", value: ItemValue::Double(0.5) },
            Attribute { name: "d", value: ItemValue::Text("é".repeat(300)) },
        ],
    }
}

/// Scenario: a span with a parent, a failure and an attribute of each type. Guarantee: the
/// reference library reads the same, in one group of one resource and one scope.
#[test]
fn a_span_reads_back() {
    let request = encode_spans(&resource(), &[done(), done()]);
    let read = ExportTraceServiceRequest::decode(&*request).unwrap();
    let [group] = &read.resource_spans[..] else { panic!("{read:?}") };
    assert_eq!(group.resource.as_ref().unwrap().attributes, marked());
    let [scope] = &group.scope_spans[..] else { panic!("{group:?}") };
    assert_eq!(scope.scope.as_ref().unwrap().name, "millrace");
    let [span, _] = &scope.spans[..] else { panic!("{scope:?}") };
    assert_eq!(span.trace_id, 0xab_u128.to_be_bytes());
    assert_eq!(span.span_id, 7_u64.to_be_bytes());
    assert_eq!(span.parent_span_id, 9_u64.to_be_bytes());
    assert_eq!((span.name.as_str(), span.kind), ("insert", 3));
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (1_000, 2_000));
    assert_eq!(span.status, Some(Status { code: 2, ..Status::default() }));
    let wanted = [
        pair("a", Theirs::IntValue(-3)),
        pair("b", Theirs::BoolValue(true)),
        pair("c", Theirs::DoubleValue(0.5)),
        pair("d", Theirs::StringValue("é".repeat(300))),
    ];
    assert_eq!(span.attributes, wanted);
}

/// Scenario: a log line inside a span. Guarantee: the reference library reads the same.
#[test]
fn a_line_reads_back() {
    let line = LogLine {
        unix_nanos: 5,
        severity: Level::WARN,
        text: "not stored yet".to_owned(),
        attributes: vec![Attribute { name: "tries", value: ItemValue::Int(2) }],
        context: Some(place()),
    };
    let read = ExportLogsServiceRequest::decode(&*encode_logs(&resource(), &[line])).unwrap();
    let record = &read.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (5, 5));
    assert_eq!((record.severity_number, record.severity_text.as_str()), (13, "WARN"));
    let text = Theirs::StringValue("not stored yet".to_owned());
    assert_eq!(record.body, Some(AnyValue { value: Some(text) }));
    assert_eq!(record.attributes, [pair("tries", Theirs::IntValue(2))]);
    assert_eq!(record.trace_id, 0xab_u128.to_be_bytes());
    assert_eq!(record.span_id, 7_u64.to_be_bytes());
}

/// Scenario: own requests, alone and joined; joined with another program's; another program's
/// alone; an empty one; a truncated one. Guarantee: only requests with nothing but own telemetry
/// are recognised.
#[test]
fn own_requests_are_recognised() {
    let own = encode_spans(&resource(), &[done()]);
    let mut other = ExportTraceServiceRequest::decode(&*own).unwrap();
    other.resource_spans[0].resource.as_mut().unwrap().attributes.remove(0);
    let other = other.encode_to_vec();
    assert!(is_own_telemetry(&own) && is_own_telemetry(&[&own[..], &own].concat()));
    let rewritten = ExportTraceServiceRequest::decode(&*own).unwrap().encode_to_vec();
    assert!(is_own_telemetry(&rewritten), "the mark survives who decodes and encodes");
    for request in [[&own[..], &other].concat(), other, own[..own.len() - 1].to_vec(), vec![]] {
        assert!(!is_own_telemetry(&request));
    }
}
