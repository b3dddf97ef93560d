//! Tests the export as a program uses it: from `tracing` spans and lines to requests at a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use millrace_observe::otlp::{
    self, Export, ExportSettings, QUEUE_ITEMS, SPANS, TelemetryFilter, TelemetryLayer, request_span,
};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prometheus::Registry;
use prost::Message;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{EnvFilter, registry};

/// The longest time for any answer.
const LIMIT: Duration = Duration::from_secs(30);

struct Received {
    path: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

/// Starts a server that passes on its requests and answers with a status.
fn server(status: &'static str) -> (SocketAddr, Receiver<Received>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = sync_channel(64);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || serve(&stream, status, &sender));
        }
    });
    (address, received)
}

fn serve(mut stream: &TcpStream, status: &str, sender: &SyncSender<Received>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut headers, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            headers.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let _ = sender.try_send(Received { path, headers, body });
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

fn tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

fn start(
    address: SocketAddr,
    headers: Vec<(String, std::path::PathBuf)>,
) -> (Export, TelemetryLayer) {
    otlp::start_export(ExportSettings {
        endpoint: format!("http://{address}/"),
        headers,
        tls: tls(),
        resource: vec![("service.name".to_owned(), "test".to_owned())],
        traces_per_second: 10,
        traces_percent: 100,
        logs: true,
    })
    .unwrap()
}

fn count(export: &Export, what: &str, result: &str) -> u64 {
    let registry = Registry::new();
    export.register(&registry).unwrap();
    let families = registry.gather();
    let metrics = families.iter().flat_map(|family| family.get_metric());
    let of = metrics.filter(|metric| {
        let labels: Vec<_> = metric.get_label().iter().map(|label| label.value()).collect();
        labels == [result, what]
    });
    of.map(|metric| metric.get_counter().get_value() as u64).sum()
}

/// Scenario: a trace with a request below it and a warning inside; a foreign span; a line that the
/// log's filter excludes. Guarantee: the server gets the configured header, two spans of one trace,
/// one below the other, with the line, and nothing else.
#[test]
fn spans_and_lines_arrive_in_their_trace() {
    let (address, received) = server("200 OK");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "secret\n").unwrap();
    let (export, collected) = start(address, vec![("x-key".to_owned(), file)]);
    let sift = TelemetryFilter::new(EnvFilter::new("info"));
    let subscriber = registry().with(collected.with_filter(sift));
    let trace = tracing::subscriber::with_default(subscriber, || {
        let trace = export.tracer().begin_trace(|trace_id| {
            tracing::debug_span!(
                target: SPANS, parent: None, "work", trace_id, otel.name = "work of x",
                otel.status_code = tracing::field::Empty, error = tracing::field::Empty, n = 3,
            )
        });
        trace.span().in_scope(|| {
            let _other = tracing::info_span!("another's").entered();
            let _asking = request_span("database").entered();
            tracing::warn!(tries = 2, "slow");
            tracing::debug!("left out");
        });
        trace.record_result(Some("it broke"));
        trace.id.unwrap()
    });
    export.shutdown(LIMIT);
    let first = received.recv_timeout(LIMIT).unwrap();
    assert_eq!(first.path, "/v1/traces");
    assert!(first.headers.contains(&"x-key: secret".to_owned()), "{:?}", first.headers);
    let read = ExportTraceServiceRequest::decode(&*first.body).unwrap();
    let spans = &read.resource_spans[0].scope_spans[0].spans;
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["database", "work of x"]);
    let id = trace.as_u128().to_be_bytes();
    assert!(spans.iter().all(|span| span.trace_id == id));
    assert_eq!(spans[0].parent_span_id, spans[1].span_id);
    assert!(spans[1].parent_span_id.is_empty() && spans[1].status.as_ref().unwrap().code == 2);
    let attributes: Vec<_> = spans[1].attributes.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(attributes, ["n", "error"]);
    let second = received.recv_timeout(LIMIT).unwrap();
    assert_eq!(second.path, "/v1/logs");
    let read = ExportLogsServiceRequest::decode(&*second.body).unwrap();
    let [line] = &read.resource_logs[0].scope_logs[0].log_records[..] else { panic!("{read:?}") };
    assert_eq!((&line.trace_id, &line.span_id), (&id.to_vec(), &spans[0].span_id));
    assert!(received.try_recv().is_err());
}

/// Scenario: a server refuses permanently. Guarantee: it gets one request, and the refused items
/// are counted.
#[test]
fn what_a_server_refuses_is_counted() {
    let (address, received) = server("401 Unauthorized");
    let (export, collected) = start(address, Vec::new());
    let subscriber =
        registry().with(collected.with_filter(TelemetryFilter::new(EnvFilter::new("info"))));
    tracing::subscriber::with_default(subscriber, || tracing::info!("a"));
    received.recv_timeout(LIMIT).unwrap();
    while count(&export, "log", "refused") == 0 {
        thread::yield_now();
    }
    export.shutdown(LIMIT);
    assert!(received.try_recv().is_err());
}

/// Scenario: a server accepts connections and never answers, and there are far more lines than the
/// queue holds. Guarantee: no caller waits for it, not even at the end; the excess is counted.
#[test]
fn nobody_waits_for_a_server_that_hangs() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (export, collected) = start(listener.local_addr().unwrap(), Vec::new());
    let subscriber =
        registry().with(collected.with_filter(TelemetryFilter::new(EnvFilter::new("info"))));
    let lines = 4 * QUEUE_ITEMS;
    tracing::subscriber::with_default(subscriber, || {
        for line in 0..lines {
            tracing::info!(line, "said");
        }
    });
    // At most two batches have left the queue.
    let dropped = count(&export, "log", "queue_full");
    assert!(dropped as usize >= lines - QUEUE_ITEMS - 1024 - 1, "{dropped}");
    export.shutdown(Duration::from_secs(4));
}
