//! HTTP with JSON bodies: converted to protobuf, and answered in JSON.

use http::StatusCode;
use millrace_pipeline::publish::{DeliveryReceipt, PublishError};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::{Value, json};

use crate::otlp::http::{GZIP, post, send};
use crate::otlp::rig::{Rig, Script, bomb, gzip};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns a traces request in JSON, with each span named by its number.
fn traces(spans: usize) -> String {
    let span = |index: usize| {
        json!({
            "traceId": "5B8EFFF798038103D269B633813FC60C",
            "spanId": format!("{index:016x}"),
            "name": format!("span {index}"),
            "startTimeUnixNano": "1544712660000000000",
            "kind": 2,
        })
    };
    let spans: Vec<Value> = (0..spans).map(span).collect();
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] }).to_string()
}

/// Starts a receiver that accepts the old times of these requests.
async fn of_any_times() -> Rig {
    Rig::with(256 << 20, |settings| settings.record_times.past_days = 36_500).await
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// Scenario: JSON bodies of each signal, plain and compressed. Guarantee: the protobuf of the same
/// records is passed on and counted; the answer is JSON.
#[tokio::test]
async fn json_bodies_are_handed_on_as_protobuf() {
    let rig = of_any_times().await;
    let body = traces(300).into_bytes();
    let zstd = zstd::bulk::compress(&body, 3).unwrap();
    let bodies = [
        (vec![JSON], body.clone()),
        (vec![("content-type", "application/json; charset=utf-8"), GZIP], gzip(&body)),
        (vec![JSON, ("content-encoding", "zstd")], zstd),
        (vec![JSON, ("content-encoding", "identity")], body),
    ];
    for (headers, sent) in bodies {
        let (status, headers, answer) = post(&rig, &headers, sent).await;
        assert_eq!((status, &answer[..]), (StatusCode::OK, &b"{}"[..]));
        assert_eq!(headers["content-type"], "application/json");
        let (signal, bytes, records) = rig.taken().pop().unwrap();
        assert_eq!((signal, records), (Signal::Traces, 300));
        let request = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        assert_eq!((spans.len(), spans[299].name.as_str()), (300, "span 299"));
        assert_eq!((spans[7].kind, spans[7].start_time_unix_nano), (2, 1_544_712_660_000_000_000));
    }
    let logs = include_str!("../../../../core/wire/tests/data/otlp/logs.json");
    let (status, ..) = send(&rig, "POST", "/v1/logs", &[JSON], logs.into()).await;
    assert_eq!(status, StatusCode::OK);
    let (signal, bytes, records) = rig.taken().pop().unwrap();
    assert_eq!((signal, records), (Signal::Logs, 1));
    ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap();
    assert_eq!(send(&rig, "POST", "/v1/logs", &[JSON], b"{}".to_vec()).await.0, StatusCode::OK);
    rig.end().await;
}

/// Scenario: JSON that a retry can't fix. Guarantee: 400 with the byte and the field, 413 for a
/// body too long in any of its three forms; answers in JSON, counted.
#[tokio::test]
async fn refusals_of_json_are_json_and_say_where() {
    let rig = Rig::with(64 << 20, |settings| {
        settings.limits.http_body_bytes = millrace_config::ByteSize::kib(512);
    })
    .await;
    let good = traces(3);
    let cut = good.as_bytes()[..good.len() - 3].to_vec();
    let wrong = good.replace("\"kind\":2", "\"kind\":\"SERVER\"").into_bytes();
    // The longest accepted request: its text is near the limit, its protobuf under it.
    let links = vec![r#"{"flags":0}"#; 40_000].join(",");
    let scope = format!(r#"{{"spans":[{{"links":[{links}]}}]}}"#);
    let long = format!(r#"{{"resource_spans":[{{"scopeSpans":[{scope}]}}]}}"#);
    assert!(long.len() < 512 * 1024);
    type Case<'a> = (&'a [(&'a str, &'a str)], Vec<u8>, u16, &'a str);
    let cases: [Case<'_>; 6] = [
        (&[JSON], cut, 400, "the text ends where"),
        (&[JSON], wrong, 400, "in resource_spans.scope_spans.spans.kind"),
        (&[JSON, GZIP], b"{}".to_vec(), 400, "not valid gzip"),
        (&[JSON], vec![b' '; 512 * 1024 + 1], 413, "exceeds 524288 bytes"),
        (&[JSON, GZIP], bomb(8 << 20), 413, "exceeds 524288 bytes when decompressed"),
        (&[JSON], vec![0xff; 3], 400, "not valid utf-8 at byte 0"),
    ];
    let refused = cases.len() as u64;
    for (headers, body, expected, text) in cases {
        let (status, headers, body) = post(&rig, headers, body).await;
        assert_eq!(status.as_u16(), expected, "{text}");
        assert_eq!(headers["content-type"], "application/json");
        assert!(!headers.contains_key("retry-after"));
        let status = parsed(&body);
        assert_eq!(status["code"], json!(3));
        assert!(status["message"].as_str().unwrap().contains(text), "{status}");
    }
    assert_eq!(rig.metric("millrace_records_in_total{signal=\"traces\"}"), refused);
    let (status, ..) = post(&rig, &[JSON], long.into_bytes()).await;
    assert_eq!(status, StatusCode::OK);
    rig.end().await;
}

/// Scenario: temporary failures and a partial success of JSON requests. Guarantee: the same
/// statuses and delays as for protobuf, with bodies in JSON.
#[tokio::test]
async fn passing_trouble_and_partial_success_are_told_in_json() {
    let rig = of_any_times().await;
    let away = PublishError::Unavailable("away".to_owned());
    for (script, expected, code) in [
        (Script::Refuse(PublishError::Full), StatusCode::TOO_MANY_REQUESTS, 8),
        (Script::Fail(away), StatusCode::SERVICE_UNAVAILABLE, 14),
    ] {
        rig.script(script);
        let (status, headers, body) = post(&rig, &[JSON], traces(1).into_bytes()).await;
        assert_eq!((status, &parsed(&body)["code"]), (expected, &json!(code)));
        assert!(headers.contains_key("retry-after"));
    }
    rig.script(Script::Deliver(DeliveryReceipt::with_rejected(4)));
    let (status, _, body) = post(&rig, &[JSON], traces(5).into_bytes()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(parsed(&body)["partialSuccess"]["rejectedSpans"], json!("4"));
    rig.end().await;
}
