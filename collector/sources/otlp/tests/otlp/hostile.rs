//! Hostile requests: far too long, too deep, or costly to decode. Each is refused as stated, its
//! memory is freed, and small requests are served at the same time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_config::ByteSize;
use millrace_wire::protobuf::put_varint;
use tokio::net::TcpStream;

use crate::otlp::grpc::traces_call;
use crate::otlp::http::{GZIP, PROTOBUF, post};
use crate::otlp::rig::{Rig, bomb, gzip, trace_bytes};

/// Returns `value` as field `number` of a message.
fn wrapped(number: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 12);
    put_varint(&mut out, number << 3 | 2);
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

/// Returns a span with an attribute value nested `depth` lists deep.
fn nested(depth: usize) -> Vec<u8> {
    // AnyValue.array_value.values, repeatedly.
    let value = (0..depth).fold(Vec::new(), |inner, _| wrapped(5, &wrapped(1, &inner)));
    let span = wrapped(9, &wrapped(2, &value));
    wrapped(1, &wrapped(2, &wrapped(2, &span)))
}

/// Scenario: a message of 100 MB, declared and sent, over gRPC and HTTP. Guarantee: it is refused
/// by its declared length without allocating it, and the listener continues.
#[tokio::test]
async fn messages_of_100_megabytes_are_refused_unread() {
    let rig = Rig::start().await;
    let long = Bytes::from(vec![0; 100 << 20]);
    let stream = TokioIo::new(TcpStream::connect(rig.http).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{}/v1/traces", rig.http))
        .header(PROTOBUF.0, PROTOBUF.1)
        .body(Full::new(long))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let (code, text) = traces_call(&rig, None, 0, &vec![0; 100 << 20]).await;
    assert_eq!((code, text.contains("send smaller batches")), (3, true), "{text}");
    assert_eq!(rig.refused("too_large", "traces"), 2);
    // Two connections are open, and none of their data is retained.
    assert!(rig.budget.used_bytes() < 4 << 20, "{}", rig.budget.used_bytes());
    assert_eq!(traces_call(&rig, None, 0, &trace_bytes(1)).await.0, 0);
    drop(sender);
    rig.end_with_nothing_held().await;
}

/// Scenario: bombs of 1 GiB in both compressions. Guarantee: they are refused as too large; the
/// budget never holds more than the limit, and all but the retained buffers is freed.
#[tokio::test]
async fn bombs_of_a_gigabyte_take_no_more_than_the_limit() {
    let rig = Rig::with(64 << 20, |settings| {
        settings.limits.http_body_bytes = ByteSize::mib(2);
        settings.limits.grpc_message_bytes = ByteSize::mib(2);
    })
    .await;
    let gzip = bomb(1 << 30);
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let chunk = vec![0; 1 << 20];
    for _ in 0..1 << 10 {
        std::io::Write::write_all(&mut zstd, &chunk).unwrap();
    }
    let zstd = zstd.finish().unwrap();
    for (encoding, bomb) in [("gzip", gzip), ("zstd", zstd)] {
        let (code, text) = traces_call(&rig, Some(encoding), 1, &bomb).await;
        assert_eq!((code, text.contains("when decompressed")), (3, true), "{text}");
        let headers = [PROTOBUF, ("content-encoding", encoding)];
        let (status, ..) = post(&rig, &headers, bomb).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(rig.refused("too_large", "traces"), 4);
    let budget = rig.budget.clone();
    // All connections have ended by then.
    rig.end().await;
    // Two workers retain at most their share of the budget.
    assert!(budget.used_bytes() <= (64 << 20) / 16, "{}", budget.used_bytes());
}

/// Scenario: values nested at the limit, past it, and ten thousand times past it. Guarantee:
/// accepted at the limit, refused beyond, and no stack overflows.
#[tokio::test]
async fn deep_values_are_refused_at_the_limit() {
    let rig = Rig::start().await;
    assert_eq!(traces_call(&rig, None, 0, &nested(30)).await.0, 0);
    for depth in [31, 1000] {
        let (code, text) = traces_call(&rig, None, 0, &nested(depth)).await;
        assert_eq!((code, text.contains("nested too deeply")), (3, true), "{text}");
    }
    let open = r#"{"arrayValue":{"values":["#;
    let json = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"value":{}"#,
        open.repeat(300_000)
    );
    let (status, ..) = crate::otlp::http::send(
        &rig,
        "POST",
        "/v1/logs",
        &[("content-type", "application/json")],
        json.into(),
    )
    .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(rig.refused("malformed", "traces"), 2);
    assert_eq!(rig.refused("malformed", "logs"), 1);
    rig.end().await;
}

/// Scenario: many large requests that are slow to decompress, alongside small ones on the same
/// listener. Guarantee: the sockets are still served, and a small request doesn't wait until the
/// large ones end.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_requests_do_not_stall_small_ones() {
    let rig = Rig::start().await;
    let large = gzip(&trace_bytes(1_200_000));
    let address = rig.http;
    // The sockets have only one thread, so a large request processed there would delay all others.
    let start = Instant::now();
    let large = tokio::spawn(async move {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("/v1/traces")
            .header("host", "localhost")
            .header(PROTOBUF.0, PROTOBUF.1)
            .header(GZIP.0, GZIP.1)
            .body(Full::new(Bytes::from(large)))
            .unwrap();
        let status = sender.send_request(request).await.unwrap().status();
        (status, start.elapsed())
    });
    let small = gzip(&trace_bytes(1));
    let (mut served, mut longest) = (0, Duration::ZERO);
    while !large.is_finished() {
        let start = Instant::now();
        let (status, ..) = post(&rig, &[PROTOBUF, GZIP], small.clone()).await;
        assert_eq!(status, StatusCode::OK);
        longest = longest.max(start.elapsed());
        served += 1;
    }
    let (status, took) = large.await.unwrap();
    assert_eq!(status, StatusCode::OK);
    assert!(served >= 2, "{served} small requests in {took:?}");
    assert!(longest < took, "a small request took {longest:?}, the large one {took:?}");
    rig.end().await;
}
