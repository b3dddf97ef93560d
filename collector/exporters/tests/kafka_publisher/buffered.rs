//! The publisher with a buffer on disk: brokers that go and come, restarts, a full buffer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{ByteSize, DiskBuffer, KafkaExporter};
use millrace_exporters::kafka::{BufferedParts, BufferedPublisher};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{Delivered, Delivery, Publish, Refused, Request};
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::limits::Limits;
use millrace_wire::{Signal, otlp};
use rdkafka::message::Message;

use super::{Mock, connection, mock, names, only_traces, read, spans, wait_until};

struct Rig {
    publisher: BufferedPublisher,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    readiness: Readiness,
}

impl Rig {
    fn start(mock: &Mock, folder: &Path, max_bytes: ByteSize) -> Self {
        Self::with(mock, folder, max_bytes, false)
    }

    fn with(mock: &Mock, folder: &Path, max_bytes: ByteSize, drain: bool) -> Self {
        let settings = KafkaExporter {
            connection: connection(mock),
            topics: only_traces("otlp_traces"),
            delivery_timeout_seconds: 5,
            ..KafkaExporter::default()
        };
        let buffer = DiskBuffer { path: folder.join("buffer"), max_bytes, drain };
        let budget = Budget::new(64 << 20);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let readiness = Readiness::default();
        let parts = BufferedParts {
            budget: budget.clone(),
            telemetry: Arc::clone(&telemetry),
            part: readiness.part("kafka"),
            drain: Drain::new(Duration::from_secs(5)),
        };
        let publisher = BufferedPublisher::start(&settings, &buffer, parts).unwrap();
        Self { publisher, budget, telemetry, readiness }
    }

    fn publish(&self, name: &str) -> Result<Delivery, Refused> {
        let bytes = spans([name.to_owned()]);
        let reservation = self.budget.try_reserve(bytes.len() as u64).unwrap();
        let checked = checked(&bytes);
        let request = Request { signal: Signal::Traces, bytes: &bytes, checked, reservation };
        self.publisher.publish(request)
    }

    fn metric(&self, line: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0)
    }
}

fn checked(bytes: &[u8]) -> otlp::Checked {
    otlp::check(Signal::Traces, bytes, &Limits::default()).unwrap()
}

/// Scenario: no broker; requests come; the process is gone without a word; brokers come; more
/// requests. Guarantee: clients were answered, what they gave is in Kafka in order once brokers are
/// there, nothing stays on disk or in the sums, and what comes then goes straight to Kafka.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_came_without_kafka_is_sent_after_a_restart() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    for index in 0..50 {
        let delivery = rig.publish(&format!("span-{index:02}")).unwrap();
        assert_eq!(delivery.await, Ok(Delivered::default()));
    }
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 50);
    assert_eq!(rig.budget.used_bytes(), 0, "what is on disk takes no memory");
    assert!(!rig.readiness.is_ready(), "settings that never reached kafka may be wrong");
    drop(rig);

    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 50);
    wait_until("readiness without kafka", || rig.readiness.is_ready());
    mock.broker_up(1).unwrap();
    wait_until("the buffer to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 50
    });
    wait_until("the buffer to be empty", || {
        rig.metric("millrace_buffer_records") == 0
            && rig.metric("millrace_records_buffered{signal=\"traces\"}") == 0
    });
    let last = rig.publish("last").unwrap();
    assert_eq!(last.await, Ok(Delivered::default()));
    assert!(rig.publisher.flush(Duration::from_secs(5)));
    let messages = rig.metric("millrace_produce_seconds_count") as usize;
    let payloads = read(&mock, "otlp_traces", messages, |m| m.payload().unwrap().to_vec());
    let stored: Vec<String> = payloads.iter().flat_map(|payload| names(payload)).collect();
    let mut wanted: Vec<String> = (0..50).map(|index| format!("span-{index:02}")).collect();
    wanted.push("last".to_owned());
    assert_eq!(stored, wanted);
    drop(rig);
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 0, "sent, and gone");
}

/// Scenario: a buffer that ends with its process, with records in it, and the process stops: once
/// while brokers come back, once while they stay away. Guarantee: it sends what is on disk before
/// it ends; where it can't it says within its time that something is not safe.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_buffer_that_ends_with_its_process_is_sent_first() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(&mock, folder.path(), ByteSize::mib(16), true);
    for index in 0..20 {
        let delivery = rig.publish(&format!("span-{index:02}")).unwrap();
        assert_eq!(delivery.await, Ok(Delivered::default()));
    }
    assert!(!rig.publisher.flush(Duration::from_millis(400)), "nothing could be sent");
    drop(rig);

    let rig = Rig::with(&mock, folder.path(), ByteSize::mib(16), true);
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 20);
    mock.broker_up(1).unwrap();
    assert!(rig.publisher.flush(Duration::from_secs(30)));
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 20);
}

/// Scenario: no broker, and a small buffer that fills. Guarantee: clients are told to come back, and
/// the edge says that it isn't ready and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_tells_clients_to_come_back() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::kib(128));
    let name = "x".repeat(10_000);
    let mut taken = 0;
    let refused = loop {
        match rig.publish(&name).unwrap().await {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::Full);
    assert!((10..14).contains(&taken), "{taken}");
    wait_until("the reason", || {
        rig.readiness.reasons().iter().any(|reason| reason.contains("the buffer is full"))
    });
    let refused = "millrace_records_refused_total{reason=\"full\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 1);
    mock.broker_up(1).unwrap();
    wait_until("readiness", || rig.readiness.is_ready());
    wait_until("room", || rig.metric("millrace_buffer_records") == 0);
}
