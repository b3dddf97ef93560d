//! The operator's own traces and conditions as metrics: what a reconcile leaves for who is on call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Config};
use millrace_observe::otlp::{SPANS, TelemetryFilter};
use millrace_observe::text::MetricsFormat;
use millrace_operator::args::Args;
use millrace_operator::controllers::edge::EdgePools;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tracing::Instrument;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{EnvFilter, registry};

use crate::reconcilers::pools::edge::{POOL, world};

const LIMIT: Duration = Duration::from_secs(30);

/// A server that says 404 to each request, as the API server says it, and passes on what came by
/// POST.
fn server() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = sync_channel(64);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || while answer(&stream, &sender).is_some() {});
        }
    });
    (address, received)
}

fn answer(mut stream: &TcpStream, sender: &SyncSender<Vec<u8>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).ok().filter(|read| *read > 0)? > 2 {
        head.push_str(&line.to_ascii_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let is_posted = head.starts_with("post");
    if is_posted {
        sender.try_send(body).unwrap();
    }
    let status = if is_posted { "200 OK" } else { "404 Not Found" };
    let text = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "none", "metadata": {}})
    .to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
    .ok()
}

fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Scenario: with an endpoint on the command line a pool is reconciled, and the Kubernetes client is used in another trace. Guarantee: each reconcile is a
/// trace that says of which object and how it ended; a request of the client is below its trace; the
/// bucket of the reconcile's time names the trace.
#[tokio::test]
async fn a_reconcile_is_a_trace_with_the_requests_below_it() {
    let (address, received) = server();
    let endpoint = format!("--otlp-endpoint=http://{address}");
    let args = Args::parse_from([
        "millrace-operator",
        "--collector-image-repository=r/c",
        &endpoint,
        "--otlp-logs=false",
    ]);
    let (export, collected) = args.export.start_export("pod-1").unwrap().unwrap();
    let mut world = world();
    let context = Arc::get_mut(&mut world.context).unwrap();
    context.metrics = context.metrics.clone().with_export(&export).unwrap();
    let sift = TelemetryFilter::new(EnvFilter::new("info"));
    let subscriber = registry().with(collected.with_filter(sift));
    let scope = tracing::subscriber::set_default(subscriber);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let trace = export.tracer().begin_trace(
        |trace_id| tracing::debug_span!(target: SPANS, parent: None, "other", trace_id),
    );
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap()));
    let api: Api<ConfigMap> = Api::namespaced(client.unwrap(), "telemetry");
    let found = api.get_opt("none").instrument(trace.span()).await.unwrap();
    assert!(found.is_none());
    let other = trace.id.unwrap().as_u128().to_be_bytes();
    drop((trace, scope));
    let text = world.context.metrics.render(MetricsFormat::OpenMetrics).unwrap();
    tokio::task::spawn_blocking(move || export.shutdown(LIMIT)).await.unwrap();
    let request = ExportTraceServiceRequest::decode(&*received.recv_timeout(LIMIT).unwrap());
    let request = request.unwrap();
    let spans = &request.resource_spans[0].scope_spans[0].spans;
    let reconcile = spans.iter().find(|span| span.name == "reconcile EdgePool").unwrap();
    assert_eq!(attribute(reconcile, "object"), Some("prod"));
    assert_eq!(attribute(reconcile, "namespace"), Some("telemetry"));
    assert_eq!(attribute(reconcile, "result"), Some("ok"));
    let below = spans.iter().filter(|span| span.trace_id == other).collect::<Vec<_>>();
    let asked = below.iter().find(|span| span.kind == 3).unwrap_or_else(|| panic!("{below:?}"));
    assert!(attribute(asked, "http.url").unwrap().ends_with("/configmaps/none"));
    let id: String = reconcile.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let exemplar = format!("# {{trace_id=\"{id}\"}}");
    let bucket = text.lines().find(|line| line.contains(&exemplar)).unwrap();
    let start = "millrace_operator_reconcile_duration_seconds_bucket{kind=\"EdgePool\",le=";
    assert!(bucket.starts_with(start), "{bucket}");
}

/// Scenario: a pool whose pods aren't there yet. Guarantee: a series for each of its conditions, with
/// status and reason.
#[tokio::test]
async fn conditions_of_a_pool_are_series() {
    let world = world();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let (status, reason, _) = world.condition(POOL, "Ready").unwrap();
    let text = world.context.metrics.render(MetricsFormat::Prometheus).unwrap();
    let series = format!(
        "millrace_operator_condition{{condition=\"Ready\",kind=\"EdgePool\",object=\"prod\",\
         object_namespace=\"telemetry\",reason=\"{reason}\",status=\"{status}\"}} 1"
    );
    assert!(text.lines().any(|line| line == series), "{series}\n{text}");
}

/// Scenario: a pool that sends its own traces and logs, with a header and an authority from Secrets,
/// and an attribute in place of the pool's. Guarantee: the collector's settings say so, with paths of
/// files for secrets.
#[tokio::test]
async fn own_telemetry_reaches_the_collectors_settings() {
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["telemetry"] = json!({"otlp": {
            "endpoint": "https://collector.monitoring:4318",
            "headers": [{"name": "x-key",
                "valueSecret": {"name": "kafka-user", "key": "password"}}],
            "tls": {"ca": {"secretName": "kafka-user", "key": "username"}},
            "tracesPerSecond": 7,
            "attributes": {"service.namespace": "shop"},
        }});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let path = world.server.paths().into_iter().find(|path| path.contains("/configmaps/")).unwrap();
    let config = world.server.get(&path).unwrap();
    let text = config["data"]["collector.yaml"].as_str().unwrap();
    let own = millrace_config::Config::load(text).unwrap().own_telemetry.unwrap();
    assert_eq!(own.endpoint.to_string(), "https://collector.monitoring:4318/");
    let header = own.headers["x-key"].path().to_str();
    assert_eq!(header, Some("/etc/millrace/secrets/kafka-user/password"));
    assert!(own.tls.unwrap().ca_file.is_some());
    assert_eq!((own.traces_per_second, own.traces_percent, own.logs), (7, 100, true));
    assert_eq!(own.attributes["service.namespace"], "shop");
    assert_eq!(own.attributes["millrace.pool"], "prod");
}
