//! The collector's own traces and logs, with an edge as a process that sends them to itself, which
//! is the worst that settings can ask for; from clients to librdkafka's mock cluster.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests of a client, one after the other: each gives a trace, and what is sent of that trace
/// would give further ones if it were traced too.
const REQUESTS: usize = 3;

struct World {
    _kafka: MockCluster<'static, DefaultProducerContext>,
    consumer: BaseConsumer,
    _folder: tempfile::TempDir,
    collector: Child,
    http: SocketAddr,
    admin: SocketAddr,
    spans: Vec<Span>,
    lines: Vec<LogRecord>,
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

impl World {
    fn start() -> Self {
        let kafka = MockCluster::new(1).unwrap();
        let mut places = TopicPartitionList::new();
        for topic in ["otlp_traces", "otlp_logs", "otlp_metrics"] {
            kafka.create_topic(topic, 1, 1).unwrap();
            places.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        }
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap_servers())
            .set("group.id", "test")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        consumer.assign(&places).unwrap();
        let (http, admin) = (free(), free());
        let document = format!(
            "admin: {{address: '{admin}'}}\nmemory: {{limitBytes: 512Mi}}\n\
             telemetry:\n  otlp:\n    endpoint: http://{http}\n    tracesPerSecond: 100\n    \
             attributes: {{service.namespace: here}}\n\
             receivers:\n  otlp:\n    grpc: {{enabled: false}}\n    http: {{address: '{http}'}}\n\
             exporters:\n  kafka:\n    connection: {{bootstrapServers: ['{}']}}\n",
            kafka.bootstrap_servers()
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("collector.yaml");
        fs::write(&path, document).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-collector"));
        let collector = command.arg("run").arg("--config").arg(&path).spawn().unwrap();
        let (spans, lines) = (Vec::new(), Vec::new());
        Self { _kafka: kafka, consumer, _folder: folder, collector, http, admin, spans, lines }
    }

    /// Takes what came to Kafka: spans and log records of the collector's own.
    fn poll(&mut self) {
        let Some(message) = self.consumer.poll(Duration::from_millis(50)) else { return };
        let message = message.unwrap();
        let payload = message.payload().unwrap_or_default();
        match message.topic() {
            "otlp_traces" => {
                let request = ExportTraceServiceRequest::decode(payload).unwrap();
                let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
                self.spans.extend(scopes.flat_map(|scope| scope.spans));
            }
            "otlp_logs" => {
                let request = ExportLogsServiceRequest::decode(payload).unwrap();
                let own = request.resource_logs.into_iter().filter(|group| {
                    let resource = group.resource.iter().flat_map(|it| &it.attributes);
                    resource.clone().any(|attribute| attribute.key == "service.namespace")
                });
                let scopes = own.flat_map(|it| it.scope_logs);
                self.lines.extend(scopes.flat_map(|scope| scope.log_records));
            }
            _ => {}
        }
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: not in time; {:?}", self.spans);
            self.poll();
        }
    }

    fn metrics(&self, accept: &str) -> String {
        let head = format!("GET /metrics HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n\r\n");
        ask(self.admin, head.as_bytes())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.collector.kill();
        let _ = self.collector.wait();
    }
}

/// One request and its answer; empty without one.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(request);
        let _ = stream.read_to_string(&mut text);
    }
    text
}

/// A client's request with a log record.
fn request(number: usize) -> Vec<u8> {
    let record = LogRecord { dropped_attributes_count: 1 + number as u32, ..LogRecord::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let body = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Scenario: an edge that sends its own traces and logs to itself gets requests, one after the other
/// as soon as the trace of the one before is in Kafka. Guarantee: one trace for each message of the
/// client, and none for those that carry traces and logs of its own; the lines of its log arrive;
/// nothing was dropped; a bucket of the histogram names the newest trace, for who takes OpenMetrics.
#[test]
fn an_edge_that_sends_its_telemetry_to_itself_does_not_feed_on_it() {
    let mut world = World::start();
    let admin = world.admin;
    world.until("ready", |_| {
        ask(admin, b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").starts_with("HTTP/1.1 200")
    });
    for number in 0..REQUESTS {
        let answer = ask(world.http, &request(number));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        world.until("a trace", |world| world.spans.len() > number);
    }
    world.until("its log", |world| {
        world.lines.iter().any(|line| {
            let text = line.body.as_ref().and_then(|body| body.value.clone());
            text == Some(Value::StringValue("starting".to_owned()))
        })
    });
    assert_eq!(world.spans.len(), REQUESTS, "{:?}", world.spans);
    let newest = world.spans.iter().max_by_key(|span| span.start_time_unix_nano).unwrap();
    assert_eq!((newest.name.as_str(), newest.kind), ("publish otlp_logs", 4));
    assert!(newest.end_time_unix_nano > newest.start_time_unix_nano);
    let id: String = newest.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = world.metrics("application/openmetrics-text; version=1.0.0");
    let mut exemplars = text.lines().filter(|line| line.contains("# {trace_id="));
    assert!(exemplars.any(|line| line.contains(&id)), "{id}: {text}");
    assert!(text.contains("version=1.0.0") && text.trim_end().ends_with("# EOF"));
    let text = world.metrics("text/plain");
    assert!(!text.contains("trace_id") && !text.contains("result=\"queue_full\""), "{text}");
    let sent =
        format!("millrace_own_telemetry_total{{result=\"sent\",what=\"span\"}} {REQUESTS}\n");
    // It is counted once the answer is there, which comes after the records.
    world.until("counted", |world| world.metrics("text/plain").contains(&sent));
}
