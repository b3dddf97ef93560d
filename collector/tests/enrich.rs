//! Pods' metadata on clients' records, by the program: with a service account, and a scripted API
//! server behind TLS. The account is mounted for the collector alone, where the kubelet would mount
//! it, so this needs the right to mount in a namespace.

use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_certificates::Authority;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::command::{Running, Settings, edge, request};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a pod has its account.
const MOUNTED: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// Starts a program in a separate mount namespace, under the process id that the shell had.
const SCRIPT: &str = "mount -t tmpfs none /run && mkdir -p \"$0\" && cp \"$1\"/* \"$0\" && \
                      shift && exec \"$@\"";

/// A scripted API server, which is away until it has events, and the account for it.
struct ApiServer {
    account: TempDir,
    port: u16,
    events: watch::Sender<Vec<String>>,
    requests: Arc<Mutex<Vec<String>>>,
    runtime: Runtime,
}

impl ApiServer {
    fn start() -> Self {
        let authority = Authority::new("kubernetes");
        let account = tempfile::tempdir().unwrap();
        std::fs::write(account.path().join("ca.crt"), authority.pem()).unwrap();
        std::fs::write(account.path().join("token"), "token").unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (events, receiver) = watch::channel(Vec::new());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let tls = TlsAcceptor::from(authority.sign("127.0.0.1").server());
        runtime.spawn(serve(listener, tls, receiver, Arc::clone(&requests)));
        Self { account, port, events, requests, runtime }
    }

    /// Sends an event of a pod to the watch.
    fn send(&self, kind: &str, name: &str, address: &str) {
        let event = json!({"type": kind, "object": {
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                         "resourceVersion": "7", "labels": {"app": "cart"}},
            "spec": {"nodeName": "n1", "containers": [{"image": "cart:1"}]},
            "status": {"phase": "Running", "podIP": address}}});
        self.events.send_modify(|events| events.push(format!("{event}\n")));
    }

    /// Returns how the collector is started so that it finds the account.
    fn command(&self, settings: &Settings) -> Command {
        let mut command = Command::new("unshare");
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", SCRIPT, MOUNTED]).arg(self.account.path());
        command.arg(env!("CARGO_BIN_EXE_millrace-collector"));
        command.args(["run", "--config"]).arg(settings.path());
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        command.env("KUBERNETES_SERVICE_PORT", self.port.to_string());
        command.env("NODE_NAME", "n1");
        command
    }
}

/// Answers each request with all events so far and later ones, or 503 while there are none.
async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    events: watch::Receiver<Vec<String>>,
    requests: Arc<Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, mut events) = (tls.clone(), events.clone());
        let requests = Arc::clone(&requests);
        tokio::spawn(async move {
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                head.push(byte);
            }
            requests.lock().unwrap().push(String::from_utf8(head).unwrap());
            if events.borrow().is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n").await;
            let mut sent = 0;
            loop {
                let next: Vec<String> = events.borrow_and_update()[sent..].to_vec();
                sent += next.len();
                for event in next {
                    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                    let _ = stream.write_all(chunk.as_bytes()).await;
                }
                let _ = stream.flush().await;
                if events.changed().await.is_err() {
                    return;
                }
            }
        });
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..Default::default() }
}

/// A request of one span, whose resource claims to be another pod's.
fn forged() -> ExportTraceServiceRequest {
    let spans = vec![Span { name: "x".to_owned(), ..Default::default() }];
    let attributes = vec![attribute("service.name", "cart"), attribute("k8s.pod.name", "forged")];
    let group = ResourceSpans {
        resource: Some(Resource { attributes, ..Default::default() }),
        scope_spans: vec![ScopeSpans { spans, ..Default::default() }],
        ..Default::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![group] }
}

/// Exports over gRPC, with headers as of a proxy. Returns the gRPC status.
fn export(runtime: &Runtime, address: &str, message: &[u8]) -> String {
    let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat();
    runtime.block_on(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (executor, stream) = (TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(connection);
        let path = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
        let request = Request::post(format!("http://{address}/{path}"))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("x-forwarded-for", "10.0.0.9")
            .header("forwarded", "for=10.0.0.9")
            .header("x-real-ip", "10.0.0.9");
        let request = request.body(Full::new(Bytes::from(framed))).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap();
        let status = head.headers.get("grpc-status");
        let status = status.or_else(|| body.trailers()?.get("grpc-status"));
        status.unwrap().to_str().unwrap().to_owned()
    })
}

/// Returns the resource attributes of the next message in Kafka.
fn next_attributes(consumer: &BaseConsumer) -> Vec<KeyValue> {
    let message = consumer.poll(PATIENCE).expect("a message").unwrap();
    let request = ExportTraceServiceRequest::decode(message.payload().unwrap()).unwrap();
    request.resource_spans.into_iter().next().unwrap().resource.unwrap().attributes
}

fn consumer(servers: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "test");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset("otlp_traces", 0, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    consumer
}

/// Scenario: an edge whose API server is away gets spans over gRPC with a forged pod name and
/// forwarded headers; the server comes back, and the client's address is a pod's; that pod is
/// deleted, and another one gets the address. Guarantee: no record waits: the first is stored as it
/// was sent, and counted with the reason; later ones have the metadata of the pod with the
/// connection's address, the newer one in the end, instead of the forged name.
#[test]
fn an_edge_labels_the_records_of_its_clients() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", 1, 1).unwrap();
    let servers = mock.bootstrap_servers();
    let rules = "processing: [{name: pods, enrich: {podMetadata: {labels: [app]}}}]\n";
    let settings = std::fs::read_to_string(edge(&servers).path()).unwrap();
    let settings = Settings::new(&format!("{rules}{settings}"));
    let api = ApiServer::start();
    let mut edge = Running::start_command(api.command(&settings));
    edge.wait_for_readiness(200, "ok");
    let (admin, grpc) = (edge.admin(), edge.grpc());
    let consumer = consumer(&servers);
    let exported = || {
        assert_eq!(export(&api.runtime, &grpc, &forged().encode_to_vec()), "0");
        next_attributes(&consumer)
    };
    let as_sent = [attribute("service.name", "cart"), attribute("k8s.pod.name", "forged")];
    assert_eq!(exported(), as_sent);
    let (_, metrics) = request(&admin, "GET", "/metrics", &[], b"");
    let line = "millrace_records_unlabeled_total{reason=\"not_synced\",signal=\"traces\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    let until_labeled = |name: &'static str| {
        let uid = format!("uid-{name}");
        let tag = AnyValue { value: Some(Value::StringValue("1".to_owned())) };
        let list = Value::ArrayValue(ArrayValue { values: vec![tag] });
        let tags = AnyValue { value: Some(list) };
        let mut expected: Vec<KeyValue> = [
            ("service.name", "cart"),
            ("k8s.pod.name", name),
            ("k8s.namespace.name", "shop"),
            ("k8s.pod.uid", &uid),
            ("k8s.node.name", "n1"),
            ("k8s.pod.label.app", "cart"),
            ("container.image.name", "cart"),
        ]
        .map(|(key, value)| attribute(key, value))
        .to_vec();
        let key = "container.image.tags".to_owned();
        expected.push(KeyValue { key, value: Some(tags), ..Default::default() });
        let start = Instant::now();
        loop {
            let found = exported();
            if found == expected {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{found:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    api.send("ADDED", "other", "10.0.0.9");
    api.send("ADDED", "cart-1", "127.0.0.1");
    until_labeled("cart-1");
    api.send("DELETED", "cart-1", "127.0.0.1");
    api.send("ADDED", "cart-2", "127.0.0.1");
    until_labeled("cart-2");
    let requests = api.requests.lock().unwrap();
    let last = requests.last().unwrap();
    assert!(last.contains("fieldSelector=status.phase%21%3DSucceeded"), "{last}");
    assert!(last.contains("Bearer token") || last.contains("bearer token"), "{last}");
    drop(requests);
    let (status, log) = edge.end();
    assert_eq!(status.code(), Some(0), "{log}");
}
