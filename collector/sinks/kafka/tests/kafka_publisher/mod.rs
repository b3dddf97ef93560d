//! The publisher and the dead letters against librdkafka's own mock brokers, over real sockets.
//!
//! These tests don't cover real brokers' timing and replication; the end-to-end tests do.

mod brokers;
mod buffered;
mod by_trace;
mod cancelled;
mod dead_letters;
mod overdue;
mod producing;
mod too_long;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{
    Acknowledge, BootstrapServer, ByteSize, Compression, KafkaConnection, KafkaExporter,
    PartitionBy, TopicName, Topics,
};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::component::RunningExporter as _;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_sink_kafka::KafkaPublisher;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::RequestOutline;
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};

/// A time limit longer than any wait here, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a slow broker takes for an answer: longer than any client waits.
const SLOW: Duration = Duration::from_secs(30);

type Mock = MockCluster<'static, DefaultProducerContext>;

fn mock() -> Mock {
    let mock = MockCluster::new(1).unwrap();
    for topic in ["otlp_traces", "otlp_traces_dead_letter"] {
        mock.create_topic(topic, 1, 1).unwrap();
    }
    mock
}

/// Works around partitions without a leader: librdkafka's mock ends with a memory fault when it
/// should name the leader in an answer to a newer request.
fn without_leader_hints(mock: &Mock) {
    mock.apiversion(RDKafkaApiKey::Produce, Some(0), Some(9)).unwrap();
}

fn connection(mock: &Mock) -> KafkaConnection {
    let servers = mock.bootstrap_servers();
    let servers = servers.split(',').map(|server| BootstrapServer::new(server).unwrap());
    KafkaConnection { bootstrap_servers: servers.collect(), ..KafkaConnection::default() }
}

fn only_traces(topic: &str) -> Topics {
    Topics { traces: Some(TopicName::new(topic).unwrap()), ..Topics::default() }
}

struct Rig {
    publisher: KafkaPublisher,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    readiness: Readiness,
    drain: Drain,
}

impl Rig {
    fn start(mock: &Mock, change: impl FnOnce(&mut KafkaExporter)) -> Self {
        let mut settings = KafkaExporter {
            connection: connection(mock),
            topics: only_traces("otlp_traces"),
            compression: Compression::Zstd,
            max_message_bytes: ByteSize::kib(16),
            linger_millis: 5,
            partition_by: PartitionBy::Any,
            acknowledge: Acknowledge::AfterKafka,
            delivery_timeout_seconds: 20,
            buffer: None,
        };
        change(&mut settings);
        let budget = Budget::new(64 << 20);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let readiness = Readiness::default();
        let drain = Drain::new(Duration::from_secs(5));
        let part = readiness.add_part("kafka");
        let publisher = KafkaPublisher::start(&settings, &[], &telemetry, part, &drain).unwrap();
        Self { publisher, budget, telemetry, readiness, drain }
    }

    fn ready(mock: &Mock, change: impl FnOnce(&mut KafkaExporter)) -> Self {
        let rig = Self::start(mock, change);
        wait_until("kafka to be reached", || rig.readiness.is_ready());
        rig
    }

    fn publish(&self, bytes: &[u8], records: u64) -> Result<PendingDelivery, PublishError> {
        self.publish_for(Cancellation::default(), bytes, records)
    }

    fn publish_for(
        &self,
        cancellation: Cancellation,
        bytes: &[u8],
        records: u64,
    ) -> Result<PendingDelivery, PublishError> {
        let reservation = self.budget.try_reserve(bytes.len() as u64).unwrap();
        let found = otlp::outline_request(Signal::Traces, bytes, &WireLimits::default());
        let checked = found.unwrap_or_else(|_| RequestOutline::unjoinable(records));
        assert_eq!(checked.records, records);
        let signal = Signal::Traces;
        self.publisher.publish(PublishRequest {
            signal,
            bytes,
            checked,
            reservation,
            cancellation,
            client: None,
        })
    }

    fn metric(&self, line: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0)
    }
}

/// The time between two checks of a condition: a thread that spins would take a processor from the
/// work that it waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls a condition that another thread causes; fails after [`PATIENCE`].
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn spans(names: impl IntoIterator<Item = String>) -> Vec<u8> {
    let spans = names.into_iter().map(|name| Span { name, ..Span::default() }).collect();
    let scope = ScopeSpans { spans, ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec()
}

fn names(payload: &[u8]) -> Vec<String> {
    let request = ExportTraceServiceRequest::decode(payload).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).map(|span| span.name).collect()
}

/// Returns how many messages the traces' one partition has had.
fn stored(mock: &Mock) -> i64 {
    watermark(mock, "otlp_traces") as i64
}

/// Returns how many messages a topic's one partition has had.
fn watermark(mock: &Mock, topic: &str) -> usize {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", mock.bootstrap_servers()).create().unwrap();
    usize::try_from(consumer.fetch_watermarks(topic, 0, PATIENCE).unwrap().1).unwrap()
}

/// Reads `count` messages of a topic's one partition from its beginning.
fn read<T>(
    mock: &Mock,
    topic: &str,
    count: usize,
    each: impl Fn(&BorrowedMessage<'_>) -> T,
) -> Vec<T> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", mock.bootstrap_servers())
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    let start = Instant::now();
    let mut found = Vec::new();
    while found.len() < count && start.elapsed() < PATIENCE {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            found.push(each(&message.unwrap()));
        }
    }
    assert_eq!(found.len(), count, "messages in {topic}");
    found
}

/// Scenario: requests that arrive together. Guarantee: they share messages under the limit, in
/// order, and each is answered after Kafka has it; nothing stays in the budget.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_share_messages_and_are_answered_after_kafka_has_them() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 200);
    let deliveries: Vec<PendingDelivery> = (0..100)
        .map(|index| {
            rig.publish(&spans([format!("span-{index:03}-{}", "x".repeat(400))]), 1).unwrap()
        })
        .collect();
    for delivery in deliveries {
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    assert_eq!(rig.budget.used_bytes(), 0);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 100);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    // 100 requests of about 420 bytes in messages of at most 16 KiB: three, not a hundred.
    let messages = rig.metric("millrace_produce_duration_seconds_count") as usize;
    assert!((3..=10).contains(&messages), "{messages}");
    let payloads = read(&mock, "otlp_traces", messages, |m| m.payload().unwrap().to_vec());
    assert!(payloads.iter().all(|payload| payload.len() <= 16 * 1024));
    let stored: Vec<String> = payloads.iter().flat_map(|payload| names(payload)).collect();
    let sent: Vec<String> = (0..100).map(|i| format!("span-{i:03}-{}", "x".repeat(400))).collect();
    assert_eq!(stored, sent);
}

/// Scenario: requests that arrive together, each within the limits of one: of 60 days each, some of
/// them the same, and with a resource of 30 kB around 8,000 spans. Guarantee: a joined message is
/// within the limits of one request too, so a gateway accepts it completely; all are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn joined_requests_are_within_the_limits_of_one() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| {
        settings.linger_millis = 500;
        settings.max_message_bytes = ByteSize::kib(800);
    });
    let of = |resource: &str, spans: Vec<Span>| {
        let scope = ScopeSpans { spans, ..ScopeSpans::default() };
        let attributes = vec![KeyValue {
            key: "process.command_line".to_owned(),
            value: Some(AnyValue { value: Some(Value::StringValue(resource.to_owned())) }),
            ..KeyValue::default()
        }];
        let resource = ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec()
    };
    let of_days = |from: u64| {
        let span =
            |day: u64| Span { start_time_unix_nano: day * 86_400_000_000_000, ..Span::default() };
        of("short", (from..from + 60).map(span).collect())
    };
    let mut requests: Vec<(Vec<u8>, u64)> =
        [0, 20, 100, 120, 20, 0].map(|from| (of_days(from), 60)).into();
    requests.extend((0..6).map(|_| (of(&"x".repeat(30_000), vec![Span::default(); 8_000]), 8_000)));
    let sent = requests.iter().map(|(bytes, records)| rig.publish(bytes, *records).unwrap());
    for delivery in sent.collect::<Vec<_>>() {
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    let messages = rig.metric("millrace_produce_duration_seconds_count") as usize;
    assert!((4..12).contains(&messages), "{messages}");
    let payloads = read(&mock, "otlp_traces", messages, |m| m.payload().unwrap().to_vec());
    let stored: u64 = payloads
        .iter()
        .map(|payload| {
            otlp::check_request(Signal::Traces, payload, &WireLimits::default()).unwrap().records
        })
        .sum();
    assert_eq!(stored, 6 * 60 + 6 * 8_000);
}

/// Scenario: a request longer than a message may be, with one record that no message can hold.
/// Guarantee: it is cut at records, all others are stored, and the client learns of the one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_oversized_request_is_cut_and_an_oversized_record_is_reported() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    let mut sent: Vec<String> = (0..100).map(|i| format!("{i:03}-{}", "y".repeat(1000))).collect();
    sent.insert(50, "z".repeat(20_000));
    let delivery = rig.publish(&spans(sent.clone()), 101).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::with_rejected(1)));
    sent.remove(50);
    let messages = rig.metric("millrace_produce_duration_seconds_count") as usize;
    let payloads = read(&mock, "otlp_traces", messages, |m| m.payload().unwrap().to_vec());
    assert!(payloads.iter().all(|payload| payload.len() <= 16 * 1024));
    let mut stored: Vec<String> = payloads.iter().flat_map(|payload| names(payload)).collect();
    stored.sort();
    assert_eq!(stored, sent);
    let refused = "millrace_records_refused_total{reason=\"too_large\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 1);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 100);
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: the broker refuses a few times with temporary errors. Guarantee: the client library
/// retries and the client is answered once, with success; the message is stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn passing_errors_are_tried_again_without_a_second_copy() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    mock.request_errors(
        RDKafkaApiKey::Produce,
        &[
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        ],
    );
    let delivery = rig.publish(&spans(["one".to_owned()]), 1).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    let stored = read(&mock, "otlp_traces", 1, |m| names(m.payload().unwrap()));
    assert_eq!(stored, [["one".to_owned()]]);
}

/// Scenario: the broker refuses for a permanent reason. Guarantee: the client still gets a
/// retryable answer, because the fault is not in its records; the failure is counted by class.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_by_kafka_is_never_the_clients_fault() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    mock.request_errors(RDKafkaApiKey::Produce, &[refused; 5]);
    let delivery = rig.publish(&spans(["one".to_owned()]), 1).unwrap();
    assert!(matches!(delivery.await, Err(PublishError::Unavailable(_))));
    assert_eq!(rig.metric("millrace_produce_failures_total{class=\"denied\"}"), 1);
    let refused = "millrace_records_refused_total{reason=\"unavailable\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 1);
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: Kafka is down from the start, then comes up. Guarantee: not ready with a reason,
/// requests refused with a retryable answer; ready and served when it is up.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_are_refused_while_kafka_is_away() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let rig = Rig::start(&mock, |_| {});
    wait_until("a reason", || rig.readiness.reasons()[0].contains("cannot reach Kafka"));
    let refused = rig.publish(&spans(["one".to_owned()]), 1).unwrap_err();
    assert!(matches!(refused, PublishError::Unavailable(_)));
    assert_eq!(rig.budget.used_bytes(), 0);
    mock.broker_up(1).unwrap();
    wait_until("kafka to be reached", || rig.readiness.is_ready());
    let delivery = rig.publish(&spans(["one".to_owned()]), 1).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
}

/// Scenario: a topic that nobody created. Guarantee: not ready, the reason names it and what to do,
/// and the query did not create it.
#[test]
fn a_missing_topic_is_named_and_not_created() {
    let mock = mock();
    mock.topic_error("absent", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let rig = Rig::start(&mock, |settings| settings.topics = only_traces("absent"));
    wait_until("a reason", || rig.readiness.reasons()[0].contains("absent"));
    let reason = rig.readiness.reasons().remove(0);
    assert!(reason.contains("create the topic or correct its name"), "{reason}");
}

/// Scenario: a drain with messages open and in flight. Guarantee: flush sends them at once, waits
/// for Kafka, and accepts nothing afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_flush_delivers_what_is_open_and_takes_nothing_more() {
    let mock = mock();
    // Far more than a flush takes on a busy machine, so that the two can't be confused.
    let linger = Duration::from_secs(60);
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 60_000);
    let delivery = rig.publish(&spans(["open".to_owned()]), 1).unwrap();
    rig.drain.begin();
    let start = Instant::now();
    assert!(rig.publisher.flush(Duration::from_secs(50)));
    assert!(start.elapsed() < linger, "the open message waited its time out");
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    assert_eq!(rig.publish(&spans(["late".to_owned()]), 1).unwrap_err(), PublishError::Draining);
}

/// Scenario: Kafka is down at the drain. Guarantee: flush reports that at its deadline, and when
/// the publisher is dropped the client gets a retryable answer, with an unknown outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_be_flushed_is_given_back_to_its_client() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    mock.broker_down(1).unwrap();
    let delivery = rig.publish(&spans(["stuck".to_owned()]), 1).unwrap();
    assert!(!rig.publisher.flush(Duration::from_millis(300)));
    let budget = rig.budget.clone();
    drop(rig);
    assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))));
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: answers after buffering. Guarantee: the client is answered while Kafka is still down,
/// and the records are delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn buffered_requests_are_answered_at_once_and_delivered_later() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.acknowledge = Acknowledge::AfterBuffering);
    mock.broker_down(1).unwrap();
    let delivery = rig.publish(&spans(["early".to_owned()]), 1).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    assert!(rig.budget.used_bytes() > 0);
    mock.broker_up(1).unwrap();
    let stored = read(&mock, "otlp_traces", 1, |m| names(m.payload().unwrap()));
    assert_eq!(stored, [["early".to_owned()]]);
    wait_until("the budget to be free", || rig.budget.used_bytes() == 0);
}
