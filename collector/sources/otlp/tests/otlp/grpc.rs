//! gRPC: tonic's own clients, and calls that no client library would make.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_pipeline::publish::{DeliveryReceipt, PublishError};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use crate::otlp::rig::{Rig, Script, bomb, gzip, trace_bytes, traces};

async fn client(rig: &Rig) -> TraceServiceClient<Channel> {
    TraceServiceClient::connect(format!("http://{}", rig.grpc)).await.unwrap()
}

/// Makes one call with any headers and body. Returns status, headers with trailers, and body.
pub(crate) async fn call(
    rig: &Rig,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (StatusCode, HeaderMap, Bytes) {
    let stream = TcpStream::connect(rig.grpc).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{}{path}", rig.grpc)).header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let (head, body) = response.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let mut headers = head.headers;
    if let Some(trailers) = body.trailers() {
        headers.extend(trailers.clone());
    }
    (head.status, headers, body.to_bytes())
}

pub(crate) const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
pub(crate) const GRPC: (&str, &str) = ("content-type", "application/grpc");

pub(crate) fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[flag], &length[..], message].concat()
}

/// Makes a call with one message. Returns its gRPC status and message.
pub(crate) async fn traces_call(
    rig: &Rig,
    encoding: Option<&str>,
    flag: u8,
    message: &[u8],
) -> (u32, String) {
    let mut headers = vec![GRPC];
    headers.extend(encoding.map(|encoding| ("grpc-encoding", encoding)));
    let (status, headers, _) = call(rig, TRACES, &headers, framed(flag, message)).await;
    assert_eq!(status, StatusCode::OK);
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    (text("grpc-status").parse().unwrap(), text("grpc-message").to_owned())
}

/// Scenario: tonic's clients for traces and logs, plain and in both compressions. Guarantee: each
/// request arrives as plain protobuf with its records counted.
#[tokio::test]
async fn tonic_clients_export_in_every_compression() {
    let rig = Rig::start().await;
    let plain = client(&rig).await;
    let gzip = plain.clone().send_compressed(CompressionEncoding::Gzip);
    let zstd = plain.clone().send_compressed(CompressionEncoding::Zstd);
    for (spans, mut client) in [(1, plain), (20, gzip), (3000, zstd)] {
        let response = client.export(traces(spans)).await.unwrap().into_inner();
        assert_eq!(response.partial_success, None);
        let (signal, bytes, records) = rig.taken().pop().unwrap();
        assert_eq!((signal, records), (Signal::Traces, spans as u64));
        assert_eq!(bytes, trace_bytes(spans));
    }
    let logs = ScopeLogs { log_records: vec![LogRecord::default(); 7], ..ScopeLogs::default() };
    let logs = ResourceLogs { scope_logs: vec![logs], ..ResourceLogs::default() };
    let mut client = LogsServiceClient::connect(format!("http://{}", rig.grpc)).await.unwrap();
    client.export(ExportLogsServiceRequest { resource_logs: vec![logs] }).await.unwrap();
    assert_eq!(rig.taken().pop().unwrap().2, 7);
    assert_eq!(rig.metric("millrace_records_in_total{signal=\"traces\"}"), 3021);
    assert_eq!(rig.metric("millrace_records_in_total{signal=\"logs\"}"), 7);
    rig.end().await;
}

/// Scenario: every kind of temporary failure. Guarantee: a code that OTLP clients retry on, with a
/// delay they can read; never INTERNAL or UNKNOWN.
#[tokio::test]
async fn passing_trouble_answers_retryable_codes_with_a_delay() {
    let rig = Rig::start().await;
    let mut client = client(&rig).await;
    let away = PublishError::Unavailable("away".to_owned());
    let cases = [
        (Script::Refuse(PublishError::Full), Code::ResourceExhausted, "full"),
        (Script::Refuse(away.clone()), Code::Unavailable, "unavailable"),
        (Script::Refuse(PublishError::Draining), Code::Unavailable, "draining"),
        (Script::Fail(away), Code::Unavailable, ""),
        (Script::Fail(PublishError::Full), Code::ResourceExhausted, ""),
    ];
    for (script, code, counted) in cases {
        rig.script(script);
        let status = client.export(traces(5)).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        let details = String::from_utf8_lossy(status.details()).into_owned();
        assert!(details.contains("google.rpc.RetryInfo"), "{details}");
        if !counted.is_empty() {
            assert_eq!(rig.refused(counted, "traces"), 5, "{counted}");
        }
    }
    rig.end().await;
}

/// Scenario: a signal without a topic, and a delivery that excluded records. Guarantee: a final
/// answer, and a partial success.
#[tokio::test]
async fn final_answers_are_final() {
    let rig = Rig::start().await;
    let mut metrics = MetricsServiceClient::connect(format!("http://{}", rig.grpc)).await.unwrap();
    let status = metrics.export(ExportMetricsServiceRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("does not accept metrics"), "{status:?}");
    assert_eq!(rig.refused("unconfigured", "metrics"), 1);
    rig.script(Script::Deliver(DeliveryReceipt::with_rejected(2)));
    let response = client(&rig).await.export(traces(5)).await.unwrap().into_inner();
    assert_eq!(response.partial_success.unwrap().rejected_spans, 2);
    rig.end().await;
}

/// Scenario: requests of spans with the present time, none, and those of broken clocks: a year
/// back, three days ahead, and on each of a thousand days. Guarantee: the good spans arrive, byte
/// for byte where none was refused; the others are named in a partial success and counted; a
/// request without good spans is not passed on.
#[tokio::test]
async fn records_of_broken_clocks_are_left_out_and_the_client_is_told() {
    const DAY: u64 = 86_400_000_000_000;
    let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
    let request = |times: &[u64]| {
        let mut request = traces(times.len());
        let spans = &mut request.resource_spans[0].scope_spans[0].spans;
        for (span, time) in spans.iter_mut().zip(times) {
            span.start_time_unix_nano = *time;
        }
        request
    };
    let rig = Rig::start().await;
    let mut client = client(&rig).await;
    let good = [now, 0, now - 29 * DAY, now + DAY];
    let response = client.export(request(&good)).await.unwrap().into_inner();
    assert_eq!(response.partial_success, None);
    assert_eq!(rig.taken().pop().unwrap().1, request(&good).encode_to_vec());

    let thousand = (0..1_000).map(|day| (day + 1) * DAY);
    let bad: Vec<u64> = [now - 365 * DAY, now + 3 * DAY].into_iter().chain(thousand).collect();
    let mixed = [&[now][..], &bad, &[now - DAY]].concat();
    let response = client.export(request(&mixed)).await.unwrap().into_inner();
    let partial = response.partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1_002);
    assert!(partial.error_message.contains("receivers.otlp.recordTimes"), "{partial:?}");
    let (_, bytes, records) = rig.taken().pop().unwrap();
    let taken = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
    let spans = &taken.resource_spans[0].scope_spans[0].spans;
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!((records, names), (2, vec!["span 0", "span 1003"]));

    let response = client.export(request(&bad)).await.unwrap().into_inner();
    assert_eq!(response.partial_success.unwrap().rejected_spans, 1_002);
    assert_eq!(rig.taken().len(), 2);
    assert_eq!(rig.refused("time_out_of_range", "traces"), 2_004);
    assert_eq!(rig.metric("millrace_records_in_total{signal=\"traces\"}"), 4 + 1_004 + 1_002);
    rig.end().await;
}

/// Scenario: calls that are malformed in different respects. Guarantee: INVALID_ARGUMENT with the
/// reason, counted, and the listener continues.
#[tokio::test]
async fn malformed_calls_are_invalid_arguments_and_counted() {
    let rig = Rig::start().await;
    let good = trace_bytes(3);
    let cut = &good[..good.len() - 1];
    let cases: &[(Option<&str>, u8, &[u8], &str)] = &[
        (None, 0, cut, "malformed otlp traces"),
        (None, 0, &[0xff; 40], "malformed otlp traces"),
        (Some("gzip"), 1, b"no gzip at all", "the body is not valid gzip"),
        (Some("zstd"), 1, b"no zstd at all", "the body is not valid zstd"),
        (None, 1, &good, "a message is compressed, but grpc-encoding is missing"),
        (None, 9, &good, "unknown gRPC message flag"),
    ];
    for (encoding, flag, message, expected) in cases {
        let (code, text) = traces_call(&rig, *encoding, *flag, message).await;
        assert_eq!(code, 3, "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let truncated = gzip(&good);
    let (code, text) = traces_call(&rig, Some("gzip"), 1, &truncated[..truncated.len() - 9]).await;
    assert_eq!((code, text.contains("truncated")), (3, true), "{text}");
    let two = [framed(0, &good), framed(0, &good)].concat();
    let (_, headers, _) = call(&rig, TRACES, &[GRPC], two).await;
    assert_eq!(headers["grpc-status"], "3");
    let (_, headers, _) = call(&rig, TRACES, &[GRPC], Vec::new()).await;
    assert_eq!(headers["grpc-status"], "3");
    assert_eq!(rig.refused("malformed", "traces"), 9);
    assert!(rig.taken().is_empty());
    assert_eq!(traces_call(&rig, None, 0, &good).await.0, 0);
    rig.end().await;
}

/// Scenario: messages over the limit: as sent, as declared, and when decompressed. Guarantee: they
/// are refused as too large, and their memory is never allocated.
#[tokio::test]
async fn oversized_messages_and_bombs_are_refused_within_the_limit() {
    let rig = Rig::with(64 << 20, |settings| {
        settings.limits.grpc_message_bytes = millrace_config::ByteSize::kib(256);
    })
    .await;
    let long = traces_call(&rig, None, 0, &vec![0; 256 * 1024 + 1]).await;
    assert_eq!(long.0, 3);
    assert!(long.1.contains("exceeds 262149 bytes"), "{}", long.1);
    let bomb = bomb(256 << 20);
    assert!(bomb.len() < 300_000);
    if bomb.len() <= 256 * 1024 {
        let (code, text) = traces_call(&rig, Some("gzip"), 1, &bomb).await;
        assert_eq!(code, 3);
        assert!(text.contains("exceeds 262144 bytes when decompressed"), "{text}");
    }
    let small = super::rig::bomb(8 << 20);
    let (code, text) = traces_call(&rig, Some("gzip"), 1, &small).await;
    assert_eq!((code, text.contains("when decompressed")), (3, true), "{text}");
    assert!(rig.refused("too_large", "traces") >= 2);
    rig.end().await;
}

/// Scenario: names and types that are not OTLP's. Guarantee: the answer that gRPC prescribes for
/// each.
#[tokio::test]
async fn unknown_methods_types_and_compressions_are_told_apart() {
    let rig = Rig::start().await;
    let body = framed(0, &trace_bytes(1));
    let (_, headers, _) = call(&rig, "/some.Other/Method", &[GRPC], body.clone()).await;
    assert_eq!(headers["grpc-status"], "12");
    let json = ("content-type", "application/json");
    let (status, _, _) = call(&rig, TRACES, &[json], body.clone()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let snappy = ("grpc-encoding", "snappy");
    let (_, headers, _) = call(&rig, TRACES, &[GRPC, snappy], body.clone()).await;
    assert_eq!(headers["grpc-status"], "12");
    assert_eq!(headers["grpc-accept-encoding"], "identity,gzip,zstd");
    let (_, headers, body) =
        call(&rig, TRACES, &[("content-type", "application/grpc+proto")], body).await;
    assert_eq!(headers["grpc-status"], "0");
    assert_eq!(&body[..], [0, 0, 0, 0, 0]);
    rig.end().await;
}

/// Scenario: delivery takes time. Guarantee: the client is answered when it ends, not before.
#[tokio::test]
async fn a_client_is_answered_only_after_the_delivery() {
    let rig = Rig::start().await;
    rig.script(Script::Hold);
    let mut client = client(&rig).await;
    let call = tokio::spawn(async move { client.export(traces(1)).await });
    let (sender, reservation) = rig.held().await;
    assert!(!call.is_finished());
    assert!(rig.budget.used_bytes() >= reservation.bytes());
    sender.finish_with(Ok(DeliveryReceipt::default()));
    call.await.unwrap().unwrap();
    drop(reservation);
    rig.end().await;
}

/// Scenario: delivery takes longer than a request may. Guarantee: the client gets a retryable
/// answer.
#[tokio::test]
async fn a_delivery_that_is_too_late_is_unavailable() {
    let rig = Rig::with(64 << 20, |settings| settings.limits.request_seconds = 1).await;
    rig.script(Script::Hold);
    let status = client(&rig).await.export(traces(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("may be stored"), "{status:?}");
    rig.publisher.held.lock().unwrap().clear();
    rig.end().await;
}

/// Scenario: the drain begins while a request waits for its delivery. Guarantee: the request is
/// answered, no connection is accepted, and the receiver ends well before the deadline.
#[tokio::test]
async fn a_drain_answers_what_is_open_and_accepts_nothing_new() {
    let rig = Rig::start().await;
    rig.script(Script::Hold);
    let mut client = client(&rig).await;
    let call = tokio::spawn(async move { client.export(traces(1)).await });
    let (sender, _reservation) = rig.held().await;
    rig.drain.begin();
    // The listener closes as soon as the accept loop has received the signal.
    let refused = async {
        while TcpStream::connect(rig.grpc).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::otlp::rig::PATIENCE, refused).await.unwrap();
    assert!(!call.is_finished() && !rig.served.is_finished());
    sender.finish_with(Ok(DeliveryReceipt::default()));
    call.await.unwrap().unwrap();
    rig.end().await;
}

/// Scenario: a request without records. Guarantee: it succeeds.
#[tokio::test]
async fn an_empty_request_succeeds() {
    let rig = Rig::start().await;
    client(&rig).await.export(traces(0)).await.unwrap();
    let empty: &[u8] = &ExportLogsServiceRequest::default().encode_to_vec();
    assert!(empty.is_empty());
    assert_eq!(traces_call(&rig, None, 0, empty).await.0, 0);
    rig.end().await;
}
