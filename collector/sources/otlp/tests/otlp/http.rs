//! HTTP: the answers that OTLP prescribes, over HTTP/1.1 and HTTP/2.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_pipeline::publish::{DeliveryReceipt, PublishError};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::net::TcpStream;

use crate::otlp::rig::{Rig, Script, bomb, gzip, trace_bytes};

pub(crate) const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
pub(crate) const GZIP: (&str, &str) = ("content-encoding", "gzip");

fn request(
    method: &str,
    target: String,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(target).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::from(body))).unwrap()
}

pub(crate) async fn send(
    rig: &Rig,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (StatusCode, HeaderMap, Bytes) {
    let stream = TokioIo::new(TcpStream::connect(rig.http).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request(method, path.to_owned(), headers, body)).await;
    let (head, body) = response.unwrap().into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes())
}

pub(crate) async fn post(
    rig: &Rig,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (StatusCode, HeaderMap, Bytes) {
    send(rig, "POST", "/v1/traces", headers, body).await
}

/// Returns the code and message of a `google.rpc.Status`.
fn status_of(body: &[u8]) -> (i32, String) {
    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
    }
    let status = Status::decode(body).unwrap();
    (status.code, status.message)
}

/// Scenario: protobuf bodies, plain and compressed, on HTTP/1.1. Guarantee: 200, an empty protobuf
/// answer, and counted records.
#[tokio::test]
async fn protobuf_bodies_are_taken_in_every_compression() {
    let rig = Rig::start().await;
    let body = trace_bytes(500);
    let zstd = zstd::bulk::compress(&body, 3).unwrap();
    let bodies = [
        (vec![PROTOBUF], body.clone()),
        (vec![PROTOBUF, GZIP], gzip(&body)),
        (vec![PROTOBUF, ("content-encoding", "zstd")], zstd),
    ];
    for (headers, sent) in bodies {
        let (status, headers, answer) = post(&rig, &headers, sent).await;
        assert_eq!((status, answer.len()), (StatusCode::OK, 0));
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(rig.taken().pop().unwrap(), (Signal::Traces, body.clone(), 500));
    }
    assert_eq!(send(&rig, "POST", "/v1/logs", &[PROTOBUF], vec![]).await.0, StatusCode::OK);
    rig.end().await;
}

/// Scenario: HTTP/2 without TLS, recognised from its first bytes. Guarantee: the same service.
#[tokio::test]
async fn http2_is_recognised_by_its_first_bytes() {
    let rig = Rig::start().await;
    let stream = TokioIo::new(TcpStream::connect(rig.http).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let target = format!("http://{}/v1/traces", rig.http);
    let request = request("POST", target, &[PROTOBUF], trace_bytes(2));
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    assert_eq!(rig.taken().pop().unwrap().2, 2);
    drop(sender);
    rig.end().await;
}

/// Scenario: each kind of temporary failure. Guarantee: only 429 or 503, with Retry-After.
#[tokio::test]
async fn passing_trouble_answers_429_or_503_with_a_delay() {
    let rig = Rig::start().await;
    let away = PublishError::Unavailable("away".to_owned());
    let cases = [
        (Script::Refuse(PublishError::Full), StatusCode::TOO_MANY_REQUESTS, 8),
        (Script::Refuse(away.clone()), StatusCode::SERVICE_UNAVAILABLE, 14),
        (Script::Refuse(PublishError::Draining), StatusCode::SERVICE_UNAVAILABLE, 14),
        (Script::Fail(away), StatusCode::SERVICE_UNAVAILABLE, 14),
    ];
    for (script, expected, code) in cases {
        rig.script(script);
        let (status, headers, body) = post(&rig, &[PROTOBUF], trace_bytes(1)).await;
        assert_eq!(status, expected);
        assert_eq!(status_of(&body).0, code);
        let seconds: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=2).contains(&seconds));
    }
    rig.end().await;
}

/// Scenario: requests that a retry can't fix. Guarantee: each has its status and a readable reason,
/// no delay, and is counted.
#[tokio::test]
async fn requests_that_cannot_be_mended_are_refused_for_good() {
    let rig = Rig::with(64 << 20, |settings| {
        settings.limits.http_body_bytes = millrace_config::ByteSize::kib(512);
    })
    .await;
    let good = trace_bytes(1);
    let text = ("content-type", "text/plain");
    let brotli = ("content-encoding", "br");
    let long = vec![0; 512 * 1024 + 1];
    type Case<'a> = (&'a [(&'a str, &'a str)], Vec<u8>, u16, &'a str);
    let cases: [Case<'_>; 8] = [
        (&[PROTOBUF], good[..good.len() - 1].to_vec(), 400, "malformed otlp traces"),
        (&[PROTOBUF, GZIP], b"plain".to_vec(), 400, "not valid gzip"),
        (&[PROTOBUF, GZIP], gzip(&good)[..12].to_vec(), 400, "is truncated"),
        (&[PROTOBUF], long, 413, "exceeds 524288 bytes"),
        (&[PROTOBUF, GZIP], bomb(8 << 20), 413, "exceeds 524288 bytes when decompressed"),
        (&[text], b"{}".to_vec(), 415, "application/x-protobuf or application/json"),
        (&[], good.clone(), 415, "application/x-protobuf"),
        (&[PROTOBUF, brotli], good.clone(), 415, "gzip, zstd or none"),
    ];
    for (headers, body, expected, text) in cases {
        let (status, headers, body) = post(&rig, headers, body).await;
        assert_eq!(status.as_u16(), expected, "{text}");
        assert!(status_of(&body).1.contains(text), "{:?}", status_of(&body));
        assert!(!headers.contains_key("retry-after"));
    }
    assert_eq!(rig.refused("malformed", "traces"), 3);
    assert_eq!(rig.refused("too_large", "traces"), 2);
    assert_eq!(rig.refused("unsupported", "traces"), 3);
    assert_eq!(rig.metric("millrace_records_in_total{signal=\"traces\"}"), 8);
    assert!(rig.taken().is_empty());
    rig.end().await;
}

/// Scenario: unknown paths, methods and signals. Guarantee: 404 and 405; only the signal without a
/// topic counts as a record.
#[tokio::test]
async fn wrong_paths_and_methods_are_told_apart() {
    let rig = Rig::start().await;
    let body = trace_bytes(1);
    let (status, ..) = send(&rig, "POST", "/v1/spans", &[PROTOBUF], body.clone()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, headers, _) = send(&rig, "GET", "/v1/traces", &[], vec![]).await;
    assert_eq!(
        (status, &headers["allow"]),
        (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
    );
    let (status, ..) = send(&rig, "POST", "/v1/metrics", &[PROTOBUF], body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(rig.refused("unconfigured", "metrics"), 1);
    rig.end().await;
}

/// Scenario: a delivery that excluded records. Guarantee: OTLP's partial success.
#[tokio::test]
async fn a_partial_success_is_a_200_that_says_so() {
    let rig = Rig::start().await;
    rig.script(Script::Deliver(DeliveryReceipt::with_rejected(4)));
    let (status, _, body) = post(&rig, &[PROTOBUF], trace_bytes(5)).await;
    assert_eq!(status, StatusCode::OK);
    let answer = ExportTraceServiceResponse::decode(body).unwrap();
    assert_eq!(answer.partial_success.unwrap().rejected_spans, 4);
    rig.end().await;
}
