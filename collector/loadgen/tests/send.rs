//! Sends to servers on loopback that are not ours: gRPC by tonic and the official generated
//! service, HTTP by hyper. The tests check what arrives, what is sent again, and what the state
//! records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use millrace_loadgen::{
    LoadPlan, LoadTarget, OtlpProtocol, RequestCompression, SendError, SendOptions, SendProgress,
    SendState, send_load,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

/// A server's action on one arrival of a request, by how often that request came before.
#[derive(Clone, Copy)]
enum Deed {
    Take,
    /// RESOURCE_EXHAUSTED with RetryInfo, or 429 with Retry-After.
    Busy,
    /// UNAVAILABLE, or 503.
    Away,
    /// INVALID_ARGUMENT, or 400.
    Refuse,
    /// Accepts it and cuts the connection before answering (HTTP only).
    TakeAndCut,
}

/// Spans received, each with its count, and how often each request came.
#[derive(Default)]
struct Seen {
    spans: HashMap<Vec<u8>, u32>,
    arrivals: HashMap<Vec<u8>, u32>,
}

#[derive(Clone)]
struct Server {
    deeds: &'static [Deed],
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    fn new(deeds: &'static [Deed]) -> Self {
        Self { deeds, seen: Arc::default() }
    }

    /// Returns the action for a request; accepted spans are counted.
    fn judge(&self, request: &ExportTraceServiceRequest) -> Deed {
        let mut seen = self.seen.lock().unwrap();
        let spans =
            request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
        let ids: Vec<_> = spans.map(|span| span.span_id.clone()).collect();
        let arrival = seen.arrivals.entry(ids[0].clone()).or_default();
        let deed = self.deeds[(*arrival as usize).min(self.deeds.len() - 1)];
        *arrival += 1;
        if matches!(deed, Deed::Take | Deed::TakeAndCut) {
            for id in ids {
                *seen.spans.entry(id).or_default() += 1;
            }
        }
        deed
    }

    fn spans(&self) -> (usize, u32) {
        let seen = self.seen.lock().unwrap();
        (seen.spans.len(), seen.spans.values().copied().max().unwrap_or(0))
    }

    fn arrivals(&self) -> u32 {
        self.seen.lock().unwrap().arrivals.values().sum()
    }
}

#[tonic::async_trait]
impl TraceService for Server {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        match self.judge(request.get_ref()) {
            Deed::Take => Ok(Response::new(ExportTraceServiceResponse::default())),
            Deed::Busy => Err(Status::with_details(
                tonic::Code::ResourceExhausted,
                "full",
                Bytes::from(retry_info()),
            )),
            Deed::Away => Err(Status::unavailable("away")),
            Deed::Refuse => Err(Status::invalid_argument("malformed")),
            Deed::TakeAndCut => panic!("HTTP only"),
        }
    }
}

/// Returns a `google.rpc.Status` with a `RetryInfo` of 1 ms.
fn retry_info() -> Vec<u8> {
    let url = b"type.googleapis.com/google.rpc.RetryInfo";
    let info = [0x0A, 0x04, 0x10, 0xC0, 0x84, 0x3D]; // retry_delay { nanos: 1_000_000 }
    let mut any = vec![0x0A, url.len() as u8];
    any.extend_from_slice(url);
    any.extend_from_slice(&[0x12, info.len() as u8]);
    any.extend_from_slice(&info);
    let mut status = vec![0x08, 0x08, 0x1A, any.len() as u8];
    status.extend(any);
    status
}

/// A listener's task, ended with the test.
struct Running {
    endpoint: String,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn grpc(server: Server) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let service = TraceServiceServer::new(server)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd);
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let task = tokio::spawn(async move {
        let served =
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
        served.await.unwrap();
    });
    Running { endpoint, task }
}

async fn http(server: Server) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let server = server.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |request| reply(server.clone(), request));
                // An error from `reply` cuts the connection, as intended.
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(socket), answer).await;
            });
        }
    });
    Running { endpoint, task }
}

#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

async fn reply(
    server: Server,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Cut> {
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    assert!(!request.headers().contains_key("content-encoding"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answer = |status: u16| {
        let response = hyper::Response::builder().status(status).header("retry-after", "0");
        Ok(response.body(Full::new(Bytes::new())).unwrap())
    };
    match server.judge(&ExportTraceServiceRequest::decode(body).unwrap()) {
        Deed::Take => answer(200),
        Deed::Busy => answer(429),
        Deed::Away => answer(503),
        Deed::Refuse => answer(400),
        Deed::TakeAndCut => Err(Cut),
    }
}

fn plan(count: u64) -> LoadPlan {
    LoadPlan {
        records_per_resource: 10,
        resources_per_request: 5,
        ..LoadPlan::lean_spans(11, count, 1_700_000_000_000_000_000)
    }
}

async fn send_to(
    at: &str,
    protocol: OtlpProtocol,
    options: &SendOptions,
) -> (SendState, Arc<SendProgress>) {
    let progress = Arc::new(SendProgress::default());
    let target = LoadTarget::new(at, protocol).unwrap();
    let acked = send_load(&plan(1_020), &target, options, &progress).await.unwrap();
    (acked, progress)
}

/// Scenario: every compression, over gRPC, to an independent server. Guarantee: every span arrives
/// once, and all are acknowledged.
#[tokio::test]
async fn an_official_server_takes_every_span_once() {
    for compression in
        [RequestCompression::None, RequestCompression::Gzip, RequestCompression::Zstd]
    {
        let server = Server::new(&[Deed::Take]);
        let running = grpc(server.clone()).await;
        let options = SendOptions { compression, ..SendOptions::default() };
        let (acked, progress) = send_to(&running.endpoint, OtlpProtocol::Grpc, &options).await;
        assert!(acked.is_complete(), "{compression:?}");
        assert_eq!((acked.acked_records(), progress.acked_records()), (1_020, 1_020));
        assert_eq!(server.spans(), (1_020, 1), "{compression:?}");
        assert!(acked.resent.is_empty() && acked.refused.is_empty());
    }
}

/// Scenario: over HTTP. Guarantee: every span arrives once, and all are acknowledged.
#[tokio::test]
async fn an_http_server_takes_every_span_once() {
    let server = Server::new(&[Deed::Take]);
    let running = http(server.clone()).await;
    let (acked, _) = send_to(&running.endpoint, OtlpProtocol::Http, &SendOptions::default()).await;
    assert!(acked.is_complete());
    assert_eq!(server.spans(), (1_020, 1));
}

/// Scenario: the server first answers each request with a delay. Guarantee: it is sent again after
/// the wait; as the server reported that it accepted nothing, only the pipeline can cause a later
/// copy.
#[tokio::test]
async fn a_busy_server_is_asked_again_and_nothing_counts_as_resent() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let server = Server::new(&[Deed::Busy, Deed::Take]);
        let running = match protocol {
            OtlpProtocol::Grpc => grpc(server.clone()).await,
            OtlpProtocol::Http => http(server.clone()).await,
        };
        let (acked, progress) = send_to(&running.endpoint, protocol, &SendOptions::default()).await;
        assert!(acked.is_complete(), "{protocol:?}");
        assert!(acked.resent.is_empty(), "{protocol:?}");
        assert_eq!(progress.retries(), acked.plan.request_count(), "{protocol:?}");
    }
}

/// Scenario: each request first meets UNAVAILABLE or 503. Guarantee: sent again, and recorded as
/// possibly accepted twice.
#[tokio::test]
async fn an_unclear_answer_is_remembered() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let server = Server::new(&[Deed::Away, Deed::Take]);
        let running = match protocol {
            OtlpProtocol::Grpc => grpc(server.clone()).await,
            OtlpProtocol::Http => http(server.clone()).await,
        };
        let (acked, _) = send_to(&running.endpoint, protocol, &SendOptions::default()).await;
        assert!(acked.is_complete(), "{protocol:?}");
        assert_eq!(acked.resent.len(), acked.plan.request_count(), "{protocol:?}");
    }
}

/// Scenario: the server accepts a request and the connection is cut before the answer. Guarantee:
/// sent again and recorded as resent: the client causes the copies.
#[tokio::test]
async fn a_lost_answer_makes_a_copy_that_is_remembered() {
    let server = Server::new(&[Deed::TakeAndCut, Deed::Take]);
    let running = http(server.clone()).await;
    let (acked, _) = send_to(&running.endpoint, OtlpProtocol::Http, &SendOptions::default()).await;
    assert!(acked.is_complete());
    assert_eq!(server.spans(), (1_020, 2));
    assert_eq!(acked.resent.len(), acked.plan.request_count());
}

/// Scenario: the server refuses permanently. Guarantee: never sent again, not acknowledged,
/// counted.
#[tokio::test]
async fn a_refusal_is_final() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let server = Server::new(&[Deed::Refuse]);
        let running = match protocol {
            OtlpProtocol::Grpc => grpc(server.clone()).await,
            OtlpProtocol::Http => http(server.clone()).await,
        };
        let (acked, progress) = send_to(&running.endpoint, protocol, &SendOptions::default()).await;
        assert_eq!(acked.acked_records(), 0);
        assert_eq!(acked.refused.len(), acked.plan.request_count());
        assert_eq!((progress.refused_records(), progress.retries()), (1_020, 0));
        assert_eq!(u64::from(server.arrivals()), acked.plan.request_count());
        assert!(progress.take_trouble().is_some());
    }
}

/// Scenario: no server listens, and time runs out. Guarantee: sending ends, nothing is
/// acknowledged, and nothing counts as resent, because nothing was ever sent.
#[tokio::test]
async fn an_absent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let options =
        SendOptions { give_up_after: Duration::from_millis(200), ..SendOptions::default() };
    let (acked, progress) = send_to(&endpoint, OtlpProtocol::Grpc, &options).await;
    assert_eq!(acked.acked_records(), 0);
    assert!(acked.resent.is_empty() && acked.refused.is_empty());
    assert_eq!(progress.abandoned_records(), 1_020);
}

/// Scenario: sending is stopped before it begins. Guarantee: it ends with nothing sent.
#[tokio::test]
async fn a_stopped_send_begins_no_request() {
    let server = Server::new(&[Deed::Take]);
    let running = grpc(server.clone()).await;
    let progress = Arc::new(SendProgress::default());
    progress.stop();
    let target = LoadTarget::new(&running.endpoint, OtlpProtocol::Grpc).unwrap();
    let acked = send_load(&plan(1_020), &target, &SendOptions::default(), &progress).await.unwrap();
    assert!(acked.attempted.is_empty());
    assert_eq!(server.arrivals(), 0);
}

/// Scenario: invalid figures. Guarantee: refused before anything is sent.
#[tokio::test]
async fn impossible_options_are_refused() {
    let target = LoadTarget::new("http://127.0.0.1:1", OtlpProtocol::Grpc).unwrap();
    let progress = Arc::new(SendProgress::default());
    for options in [
        SendOptions { connections: 0, ..SendOptions::default() },
        SendOptions { in_flight: 2_000, ..SendOptions::default() },
        SendOptions { rate: Some(0), ..SendOptions::default() },
    ] {
        let refused = send_load(&plan(10), &target, &options, &progress).await;
        assert!(matches!(refused, Err(SendError::Option { .. })));
    }
    let none = send_load(&plan(0), &target, &SendOptions::default(), &progress).await;
    assert!(matches!(none, Err(SendError::Plan(_))));
}
