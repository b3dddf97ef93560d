//! Compares OTLP in JSON with the reference library: the protocol's own examples, random requests,
//! and invalid text.

use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;
use millrace_wire::otlp::json::{JsonError, JsonErrorKind, transcode_groups, transcode_request};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use proptest::prelude::*;
use prost::Message;
use serde::de::DeserializeOwned;

use crate::json_text;
use crate::requests;

const LIMIT_BYTES: usize = 64 << 20;

fn transcoded(signal: Signal, json: &str) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    transcode_request(signal, json.as_bytes(), LIMIT_BYTES, &mut out).map(|()| out)
}

/// Transcodes a text, checks the result, and reads it by the reference library.
fn read<M: Message + Default>(signal: Signal, json: &str) -> M {
    let bytes = transcoded(signal, json).unwrap();
    check_request(signal, &bytes, &WireLimits::default()).unwrap();
    M::decode(bytes.as_slice()).unwrap()
}

fn same_as_reference<M>(signal: Signal, json: &str)
where
    M: Message + Default + PartialEq + std::fmt::Debug + DeserializeOwned,
{
    let reference: M = serde_json::from_str(json).unwrap();
    assert_ne!(reference, M::default());
    assert_eq!(read::<M>(signal, json), reference);
}

/// The protocol's own examples are read as by the reference library.
#[test]
fn the_protocols_examples_are_read_like_the_reference_reads_them() {
    same_as_reference::<ExportTraceServiceRequest>(
        Signal::Traces,
        include_str!("data/otlp/trace.json"),
    );
    same_as_reference::<ExportLogsServiceRequest>(
        Signal::Logs,
        include_str!("data/otlp/logs.json"),
    );
    same_as_reference::<ExportLogsServiceRequest>(
        Signal::Logs,
        include_str!("data/otlp/events.json"),
    );
    same_as_reference::<ExportMetricsServiceRequest>(
        Signal::Metrics,
        include_str!("data/otlp/metrics.json"),
    );
}

/// A list of each example's groups is read as within its request; a request isn't accepted as a
/// list, nor a list as a request, nor a list with trailing data.
#[test]
fn a_list_of_groups_is_read_like_its_request() {
    for (signal, key, example) in [
        (Signal::Traces, "resourceSpans", include_str!("data/otlp/trace.json")),
        (Signal::Logs, "resourceLogs", include_str!("data/otlp/logs.json")),
        (Signal::Metrics, "resourceMetrics", include_str!("data/otlp/metrics.json")),
    ] {
        let request: serde_json::Value = serde_json::from_str(example).unwrap();
        let list = request[key].to_string();
        let groups = |text: &str| {
            let mut out = Vec::new();
            transcode_groups(signal, text.as_bytes(), LIMIT_BYTES, &mut out).map(|()| out)
        };
        // Both get the same order of keys.
        assert_eq!(groups(&list).unwrap(), transcoded(signal, &request.to_string()).unwrap());
        assert!(groups("[]").unwrap().is_empty());
        assert!(groups(example).is_err());
        assert!(transcoded(signal, &list).is_err());
        assert!(matches!(groups(&format!("{list}]")).unwrap_err().kind(), JsonErrorKind::Trailing));
    }
}

/// Every truncation of an example, and every example with one byte changed, gives a result; a
/// truncation never passes.
#[test]
fn broken_examples_are_answered_not_feared() {
    let example = include_str!("data/otlp/metrics.json").trim_end();
    let mut out = Vec::new();
    for end in 0..example.len() {
        let cut = &example.as_bytes()[..end];
        let error = transcode_request(Signal::Metrics, cut, LIMIT_BYTES, &mut out).unwrap_err();
        assert!(error.offset() <= end, "{error}");
    }
    let mut changed = example.as_bytes().to_vec();
    for at in 0..changed.len() {
        let before = changed[at];
        for byte in [b'"', b'{', b']', b'9', b'\\', 0xff] {
            changed[at] = byte;
            if transcode_request(Signal::Metrics, &changed, LIMIT_BYTES, &mut out).is_ok() {
                check_request(Signal::Metrics, &out, &WireLimits::default()).unwrap();
            }
        }
        changed[at] = before;
    }
}

/// An error names the byte and the field's path.
#[test]
fn errors_name_the_byte_and_the_field() {
    let say = |json: &str| transcoded(Signal::Traces, json).unwrap_err().to_string();
    assert_eq!(
        say(""),
        "malformed otlp traces in json: the text ends where an object is expected at byte 0"
    );
    assert_eq!(say("[]"), "malformed otlp traces in json: expected an object at byte 0");
    assert_eq!(
        say("{} x"),
        "malformed otlp traces in json: unexpected text after the request at byte 3"
    );
    let inside = |span: &str| {
        let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#);
        let start = json.find(span).unwrap();
        let error = transcoded(Signal::Traces, &json).unwrap_err();
        assert!(error.field_path().starts_with("resource_spans.scope_spans.spans"), "{error}");
        (error.kind().to_string(), error.offset() - start, error.field_path().to_owned())
    };
    let (kind, offset, path) = inside(r#"{"traceId": "00"}"#);
    assert_eq!((kind.as_str(), offset), ("an id must be empty or 32 hex digits", 12));
    assert!(path.ends_with("spans.trace_id"), "{path}");
    for (span, text) in [
        (r#"{"kind": "SERVER"}"#, "SpanKind has no value with this name"),
        (r#"{"name": 7}"#, "expected a string"),
        (r#"{"name": "a"#, "the text ends where the end of a string is expected"),
        (r#"{"startTimeUnixNano": -1}"#, "not an unsigned 64-bit integer"),
        (r#"{"flags": 4294967296}"#, "not a 32-bit integer"),
        (r#"{"events": {}}"#, "expected a list"),
        (r#"{"events": [null]}"#, "expected an object"),
        (r#"{"status": []}"#, "expected an object"),
        (r#"{"attributes": [{"value": {"bytesValue": "?"}}]}"#, "bytes must be base64"),
        (r#"{"attributes": [{"value": {"boolValue": 1}}]}"#, "expected true or false"),
        (r#"{"attributes": [{"value": {"doubleValue": "x"}}]}"#, "not a number"),
        (r#"{"name": "a",}"#, "expected a string"),
        (r#"{"name" "a"}"#, "expected a colon"),
        (r#"{"name": "\q"}"#, "a string holds a character"),
    ] {
        let (kind, ..) = inside(span);
        assert!(kind.starts_with(text), "{span}: {kind}");
    }
}

/// A body that isn't UTF-8 is refused at its first invalid byte.
#[test]
fn text_must_be_utf8() {
    let mut out = Vec::new();
    let error =
        transcode_request(Signal::Logs, b"{\"a\": \"\xff\"}", LIMIT_BYTES, &mut out).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (&JsonErrorKind::Utf8, 7));
}

/// Nesting has the same limit as in protobuf bodies, and far deeper text needs no deeper stack.
#[test]
fn nesting_has_the_limit_of_protobuf_bodies() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"arrayValue":{"values":["#, "]}}");
        let value = open.repeat(depth) + "{}" + &close.repeat(depth);
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}"#)
    };
    let bytes = transcoded(Signal::Logs, &nested(30)).unwrap();
    assert_eq!(check_request(Signal::Logs, &bytes, &WireLimits::default()).unwrap().records, 1);
    for depth in [31, 100_000] {
        let error = transcoded(Signal::Logs, &nested(depth)).unwrap_err();
        assert_eq!(error.kind(), &JsonErrorKind::TooDeep);
    }
}

/// Numbers can take more bytes in protobuf than in JSON; the limit still holds, and memory stays
/// under it.
#[test]
fn the_protobuf_form_has_a_limit_of_its_own() {
    let zeros = vec!["0"; 100_000].join(",");
    let json = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"histogram":{{"dataPoints":[
        {{"bucketCounts":[{zeros}]}}]}}}}]}}]}}]}}"#
    );
    let length = transcoded(Signal::Metrics, &json).unwrap().len();
    assert!(length > 3 * json.len(), "{length}");
    let mut out = Vec::new();
    transcode_request(Signal::Metrics, json.as_bytes(), length, &mut out).unwrap();
    let limit_bytes = length - 1;
    let mut out = Vec::new();
    let error =
        transcode_request(Signal::Metrics, json.as_bytes(), limit_bytes, &mut out).unwrap_err();
    assert_eq!(error.kind(), &JsonErrorKind::TooLong { limit_bytes });
    assert!(out.capacity() <= limit_bytes);
}

/// Leniencies: snake case, enum names, either base64, `null`, lone surrogates.
#[test]
fn what_clients_get_wrong_without_harm_is_read() {
    let json = r#"{"resource_spans": [{"resource": null, "scope_spans": [{"spans": [{
        "trace_id": "", "kind": "SPAN_KIND_CLIENT", "start_time_unix_nano": 1.5e3,
        "name": "\ud800", "status": {"code": "STATUS_CODE_OK"},
        "attributes": [{"key": "b", "value": {"bytesValue": "-_8"}}], "events": null
    }]}]}]}"#;
    let request: ExportTraceServiceRequest = read(Signal::Traces, json);
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.kind, span.start_time_unix_nano, span.name.as_str()), (3, 1500, "\u{fffd}"));
    assert_eq!(span.status.as_ref().unwrap().code, 1);
    let value = span.attributes[0].value.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(value, &Value::BytesValue(vec![0xfb, 0xff]));
    assert!(request.resource_spans[0].resource.is_none());
}

proptest! {
    /// Protobuf to JSON to protobuf gives the same request, for every signal, with unknown keys
    /// everywhere. Compared as text, because a NaN equals nothing.
    #[test]
    fn traces_survive_json(request in requests::traces()) {
        let json = json_text::with_unknown_keys(&json_text::traces(&request)).to_string();
        let back: ExportTraceServiceRequest = read(Signal::Traces, &json);
        prop_assert_eq!(format!("{back:?}"), format!("{request:?}"));
    }

    /// The same for logs.
    #[test]
    fn logs_survive_json(request in requests::logs()) {
        let json = json_text::with_unknown_keys(&json_text::logs(&request)).to_string();
        let back: ExportLogsServiceRequest = read(Signal::Logs, &json);
        prop_assert_eq!(format!("{back:?}"), format!("{request:?}"));
    }

    /// The same for metrics.
    #[test]
    fn metrics_survive_json(request in requests::metrics()) {
        let json = json_text::with_unknown_keys(&json_text::metrics(&request)).to_string();
        let back: ExportMetricsServiceRequest = read(Signal::Metrics, &json);
        prop_assert_eq!(format!("{back:?}"), format!("{request:?}"));
    }

    /// Any text gives a result, and a text that passes is well-formed protobuf.
    #[test]
    fn any_text_ends_in_an_answer(
        text in r#"\{"(resourceLogs|scopeLogs|a)":[\[\]{}":,0-9a-zA-Z\\ -]{0,80}"#
    ) {
        for signal in Signal::ALL {
            if let Ok(bytes) = transcoded(signal, &text) {
                prop_assert!(check_request(signal, &bytes, &WireLimits::default()).is_ok());
            }
        }
    }
}
