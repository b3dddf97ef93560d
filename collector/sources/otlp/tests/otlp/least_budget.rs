//! The longest request in a budget that just holds it.

use http::StatusCode;
use millrace_config::{ByteSize, OtlpLimits};
use millrace_source_otlp::idle_bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use crate::otlp::grpc::traces_call;
use crate::otlp::http::{PROTOBUF, post};
use crate::otlp::rig::{Rig, Script, gzip};

/// The longest request here.
const LONGEST: usize = 2 << 20;

/// The publisher's memory, as quarters of a request: one message for the client library, and spans
/// sorted by trace.
const PUBLISHERS: [u64; 2] = [5, 12];

/// Returns names that compress to about half, of `bytes` in total.
fn names(bytes: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut letter = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"0123456789abcdef"[(state >> 60) as usize])
    };
    (0..bytes / 1024).map(|_| (0..1000).map(|_| letter()).collect()).collect()
}

/// Returns a request with `out_of_range` spans of 1970, which are excluded.
fn protobuf(out_of_range: usize) -> Vec<u8> {
    let span = |(index, name)| Span {
        name,
        start_time_unix_nano: u64::from(index < out_of_range),
        ..Span::default()
    };
    let spans = names(LONGEST).into_iter().enumerate().map(span).collect();
    let scope = ScopeSpans { spans, ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec()
}

/// Returns JSON that is hardly longer than its protobuf.
fn json() -> Vec<u8> {
    let spans = names(LONGEST).into_iter().map(|name| format!("{{\"name\":\"{name}\"}}"));
    let spans = spans.collect::<Vec<_>>().join(",");
    format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{spans}]}}]}}]}}").into_bytes()
}

fn limits() -> OtlpLimits {
    let longest = ByteSize::bytes(LONGEST as u64);
    OtlpLimits {
        grpc_message_bytes: longest,
        http_body_bytes: longest,
        concurrent_streams: 10,
        ..OtlpLimits::default()
    }
}

/// Returns the minimum budget, in steps of 64 KiB, in which a request has this many quarters of its
/// length.
fn least_budget(quarters: u64) -> u64 {
    let holds = |budget_bytes: &u64| {
        *budget_bytes >= LONGEST as u64 * quarters / 4 + idle_bytes(*budget_bytes, &limits(), 2)
    };
    (1..).map(|steps| steps << 16).find(holds).unwrap()
}

/// Scenario: the minimum budget that the configuration's check accepts, and the longest request in
/// each format and compression, with and without a record to exclude, over HTTP and gRPC, to
/// publishers that join requests and that sort them by trace; each several times, so that workers
/// retain their buffers. Guarantee: it is accepted, never answered with a delay; only these buffers
/// stay in the budget.
#[tokio::test]
async fn the_longest_request_always_fits_into_an_idle_edge() {
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let json_type = ("content-type", "application/json");
    for quarters in PUBLISHERS {
        let budget_bytes = least_budget(4 + quarters);
        let rig = Rig::with(budget_bytes, |settings| settings.limits = limits()).await;
        rig.script(Script::Copy(quarters));
        let bodies = [(PROTOBUF, protobuf(0)), (PROTOBUF, protobuf(1)), (json_type, json())];
        for (kind, body) in bodies {
            assert!((LONGEST / 100 * 95..=LONGEST).contains(&body.len()), "{}", body.len());
            let compressed =
                [(None, body.clone()), (Some("gzip"), gzip(&body)), (Some("zstd"), zstd(&body))];
            for (encoding, bytes) in compressed {
                for attempt in 0..4 {
                    let mut headers = vec![kind];
                    headers.extend(encoding.map(|encoding| ("content-encoding", encoding)));
                    let (status, _, answer) = post(&rig, &headers, bytes.clone()).await;
                    let answer = String::from_utf8_lossy(&answer);
                    assert_eq!(
                        status,
                        StatusCode::OK,
                        "{kind:?} {encoding:?} {quarters} quarters, try {attempt}: {answer}"
                    );
                    if kind == PROTOBUF {
                        let flag = u8::from(encoding.is_some());
                        let (code, message) = traces_call(&rig, encoding, flag, &bytes).await;
                        assert_eq!(code, 0, "{encoding:?} {quarters} quarters: {message}");
                    }
                }
            }
        }
        assert_eq!(rig.refused("full", "traces"), 0);
        // 3 compressions, 4 attempts, HTTP and gRPC.
        assert_eq!(rig.refused("time_out_of_range", "traces"), 24);
        rig.end().await;
    }
}
