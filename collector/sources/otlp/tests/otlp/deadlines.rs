//! Deliveries that take longer than clients wait: when each client is answered, and with which
//! code.

use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use tokio::net::TcpStream;

use crate::otlp::grpc::{GRPC, TRACES, call, framed};
use crate::otlp::http::{PROTOBUF, post};
use crate::otlp::rig::{PATIENCE, Rig, Script, trace_bytes};

/// Starts a receiver that answers clients without a timeout after a second.
async fn rig(script: Script) -> Rig {
    let rig = Rig::with(64 << 20, |settings| settings.limits.answer_seconds = 1).await;
    rig.script(script);
    rig
}

/// Makes a call with or without a `grpc-timeout`. Returns its code and message, and how long it
/// took.
async fn traces_call(rig: &Rig, timeout: Option<&str>) -> (String, String, HeaderMap, Duration) {
    let mut headers = vec![GRPC];
    headers.extend(timeout.map(|timeout| ("grpc-timeout", timeout)));
    let start = Instant::now();
    let (_, headers, _) = call(rig, TRACES, &headers, framed(0, &trace_bytes(1))).await;
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    (text("grpc-status"), text("grpc-message"), headers.clone(), start.elapsed())
}

/// Scenario: a publisher that doesn't answer, and an HTTP client. Guarantee: 503 with a delay at
/// the answer time, stating whether the records may be stored.
#[tokio::test]
async fn an_http_client_is_answered_in_the_answer_time() {
    let cases = [(Script::Queue, "were not accepted"), (Script::Hold, "may be stored")];
    for (script, message) in cases {
        let rig = rig(script).await;
        let start = Instant::now();
        let (status, headers, body) = post(&rig, &[PROTOBUF], trace_bytes(1)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(headers.contains_key("retry-after"));
        assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(message), "{body}");
        rig.publisher.held.lock().unwrap().clear();
        rig.end().await;
    }
}

/// Scenario: gRPC clients with timeouts below and above the answer time, with an invalid one and
/// with none. Guarantee: UNAVAILABLE with a delay, a margin before each gives up, and after the
/// answer time if the timeout is unknown.
#[tokio::test]
async fn a_grpc_client_is_answered_before_it_gives_up() {
    let cases = [
        (Some("500m"), 400..500),
        (Some("2S"), 1800..20_000),
        (Some("soon"), 1000..20_000),
        (None, 1000..20_000),
    ];
    let rig = rig(Script::Queue).await;
    for (timeout, expected) in cases {
        let mut tries = 0;
        // A busy machine may take longer than a client's last tenth.
        let (code, message, headers, took) = loop {
            let answer = traces_call(&rig, timeout).await;
            tries += 1;
            if answer.3.as_millis() < expected.end || tries == 5 {
                break answer;
            }
        };
        assert_eq!(code, "14", "{message}");
        assert!(expected.contains(&took.as_millis()), "{timeout:?}: {took:?}");
        assert!(message.contains("were not accepted"), "{message}");
        assert!(headers.contains_key("grpc-status-details-bin"));
    }
    rig.publisher.held.lock().unwrap().clear();
    rig.end().await;
}

/// Scenario: a client closes its connection while its request waits. Guarantee: the publisher
/// learns that the client is gone, and may not send the request.
#[tokio::test]
async fn a_client_that_is_gone_is_not_waited_for() {
    let rig = Rig::start().await;
    rig.script(Script::Queue);
    let mut stream = TcpStream::connect(rig.http).await.unwrap();
    let body = trace_bytes(1);
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    tokio::io::AsyncWriteExt::write_all(&mut stream, &[head.as_bytes(), &body].concat())
        .await
        .unwrap();
    let _held = rig.held().await;
    let cancellation = rig.publisher.cancellations.lock().unwrap().pop().unwrap();
    assert!(!cancellation.is_cancelled());
    drop(stream);
    let cancelled = async {
        while !cancellation.is_cancelled() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, cancelled).await.expect("the request to be cancelled");
    assert!(!cancellation.begin_send());
    rig.end().await;
}
