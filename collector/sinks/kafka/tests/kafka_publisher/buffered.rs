//! The publisher with a buffer on disk: brokers that go down and return, restarts, a full buffer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{ByteSize, DiskBuffer, KafkaExporter, TopicName, Topics};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::{CancelOutcome, Cancellation, Canceller};
use millrace_pipeline::component::{RouteOptions, RunningExporter as _};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_sink_kafka::{BufferedParts, BufferedPublisher};
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};
use rdkafka::message::Message;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{Mock, connection, mock, names, only_traces, read, spans, wait_until, watermark};

struct Rig {
    publisher: Arc<BufferedPublisher>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    readiness: Readiness,
}

impl Rig {
    fn start(mock: &Mock, folder: &Path, max_bytes: ByteSize) -> Self {
        Self::with(mock, folder, max_bytes, false)
    }

    fn with(mock: &Mock, folder: &Path, max_bytes: ByteSize, drain: bool) -> Self {
        Self::changed(mock, folder, max_bytes, drain, |_| {})
    }

    fn changed(
        mock: &Mock,
        folder: &Path,
        max_bytes: ByteSize,
        drain: bool,
        change: impl FnOnce(&mut KafkaExporter),
    ) -> Self {
        Self::routed(mock, folder, max_bytes, drain, (&[], change))
    }

    fn routed(
        mock: &Mock,
        folder: &Path,
        max_bytes: ByteSize,
        drain: bool,
        (routes, change): (&[RouteOptions], impl FnOnce(&mut KafkaExporter)),
    ) -> Self {
        let mut settings = KafkaExporter {
            connection: connection(mock),
            topics: only_traces("otlp_traces"),
            delivery_timeout_seconds: 5,
            ..KafkaExporter::default()
        };
        change(&mut settings);
        let buffer = DiskBuffer { path: folder.join("buffer"), max_bytes, drain };
        Self::budgeted(&settings, routes, &buffer, Budget::new(64 << 20))
    }

    fn budgeted(
        settings: &KafkaExporter,
        routes: &[RouteOptions],
        buffer: &DiskBuffer,
        budget: Budget,
    ) -> Self {
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let readiness = Readiness::default();
        let parts = BufferedParts {
            budget: budget.clone(),
            telemetry: Arc::clone(&telemetry),
            part: readiness.add_part("kafka"),
            drain: Drain::new(Duration::from_secs(5)),
        };
        let publisher = BufferedPublisher::start(settings, routes, buffer, parts).unwrap();
        let publisher = Arc::new(publisher);
        Self { publisher, budget, telemetry, readiness }
    }

    fn publish(&self, name: &str) -> Result<PendingDelivery, PublishError> {
        self.publish_as(Signal::Traces, name)
    }

    /// Spans under another signal's name also work: nothing here decodes them.
    fn publish_as(&self, signal: Signal, name: &str) -> Result<PendingDelivery, PublishError> {
        self.publish_for(Cancellation::default(), signal, name)
    }

    fn publish_for(
        &self,
        cancellation: Cancellation,
        signal: Signal,
        name: &str,
    ) -> Result<PendingDelivery, PublishError> {
        let bytes = spans([name.to_owned()]);
        let reservation = self.budget.try_reserve(bytes.len() as u64).unwrap();
        let (checked, bytes) = (checked(&bytes), &bytes);
        let request =
            PublishRequest { signal, bytes, checked, reservation, cancellation, client: None };
        self.publisher.publish(request)
    }

    fn metric(&self, line: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0)
    }
}

fn checked(bytes: &[u8]) -> otlp::RequestOutline {
    otlp::check_request(Signal::Traces, bytes, &WireLimits::default()).unwrap()
}

/// Scenario: no broker; requests arrive; the process is killed; brokers return; more requests.
/// Guarantee: clients were answered, their records are in Kafka in order once brokers are up,
/// nothing stays on disk or in the sums, and later requests go directly to Kafka.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_came_without_kafka_is_sent_after_a_restart() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    for index in 0..50 {
        let delivery = rig.publish(&format!("span-{index:02}")).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 50);
    assert_eq!(rig.budget.used_bytes(), 0, "what is on disk takes no memory");
    assert!(!rig.readiness.is_ready(), "settings that never reached kafka may be wrong");
    drop(rig);

    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 50);
    wait_until("readiness without kafka", || rig.readiness.is_ready());
    mock.broker_up(1).unwrap();
    wait_until("the buffer to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 50
    });
    wait_until("the buffer to be empty", || {
        rig.metric("millrace_buffer_records") == 0
            && rig.metric("millrace_records_in_flight{signal=\"traces\"}") == 0
    });
    let last = rig.publish("last").unwrap();
    assert_eq!(last.await, Ok(DeliveryReceipt::default()));
    assert!(rig.publisher.flush(Duration::from_secs(5)));
    let messages = rig.metric("millrace_produce_duration_seconds_count") as usize;
    let payloads = read(&mock, "otlp_traces", messages, |m| m.payload().unwrap().to_vec());
    let stored: Vec<String> = payloads.iter().flat_map(|payload| names(payload)).collect();
    let mut wanted: Vec<String> = (0..50).map(|index| format!("span-{index:02}")).collect();
    wanted.push("last".to_owned());
    assert_eq!(stored, wanted);
    drop(rig);
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0, "sent, and gone");
}

/// Scenario: a buffer that ends with its process, with records in it, and the process stops: once
/// while brokers return, once while they stay down. Guarantee: it sends the records on disk before
/// it ends; if it can't it reports within its time that some are not safe.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_buffer_that_ends_with_its_process_is_sent_first() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(&mock, folder.path(), ByteSize::mib(16), true);
    for index in 0..20 {
        let delivery = rig.publish(&format!("span-{index:02}")).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    assert!(!rig.publisher.flush(Duration::from_millis(400)), "nothing could be sent");
    drop(rig);

    let rig = Rig::with(&mock, folder.path(), ByteSize::mib(16), true);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 20);
    mock.broker_up(1).unwrap();
    assert!(rig.publisher.flush(Duration::from_secs(30)));
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 20);
}

/// Scenario: no broker, and a small buffer that fills. Guarantee: clients get a retryable answer,
/// and the edge reports that it isn't ready and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_tells_clients_to_come_back() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Half of it is reserved.
    let rig = Rig::start(&mock, folder.path(), ByteSize::kib(256));
    let name = "x".repeat(10_000);
    let mut taken = 0;
    let refused = loop {
        match rig.publish(&name).unwrap().await {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, PublishError::Full);
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

/// Scenario: the traces' topic has no leader, the logs' topic has one; later the traces' topic has
/// one too. Guarantee: clients of both are answered with success, the logs go directly to Kafka,
/// the traces by the disk; the edge stays ready and names the topic. Slow: messages must stall for
/// 5 s before the topic is noticed, and its records on disk are sent after a backoff.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_topic_that_takes_nothing_is_buffered_alone() {
    let mock = mock();
    super::without_leader_hints(&mock);
    mock.create_topic("otlp_logs", 1, 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::changed(&mock, folder.path(), ByteSize::mib(16), false, |settings| {
        settings.topics = Topics {
            logs: Some(TopicName::new("otlp_logs").unwrap()),
            ..only_traces("otlp_traces")
        };
    });
    wait_until("kafka to be reached", || rig.readiness.is_ready());
    assert_eq!(rig.publish("before").unwrap().await, Ok(DeliveryReceipt::default()));
    mock.partition_leader("otlp_traces", 0, None).unwrap();
    wait_until("the topic's name", || {
        rig.readiness.warnings().iter().any(|note| note.contains("otlp_traces"))
    });
    assert!(rig.readiness.is_ready());
    for _ in 0..10 {
        let traces = rig.publish("kept on disk").unwrap();
        assert_eq!(traces.await, Ok(DeliveryReceipt::default()));
        let logs = rig.publish_as(Signal::Logs, "sent").unwrap();
        assert_eq!(logs.await, Ok(DeliveryReceipt::default()));
    }
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"logs\"}"), 10);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 1);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 10);
    mock.partition_leader("otlp_traces", 0, Some(1)).unwrap();
    wait_until("the buffer to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 11
            && rig.metric("millrace_buffer_records") == 0
            && rig.readiness.warnings().is_empty()
    });
}

/// Scenario: a broker stops answering while more requests are in flight than the client library may
/// have, and their clients wait only a few seconds. Guarantee: requests that still wait for Kafka
/// are written to disk before their clients' deadlines, and answered with success; only those with
/// the library may be stored and arrive again. Once the broker answers, everything on disk is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_kafka_goes_to_the_disk_in_its_clients_time() {
    let mock = mock();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::changed(&mock, folder.path(), ByteSize::mib(16), false, |settings| {
        settings.linger_millis = 0;
    });
    wait_until("kafka to be reached", || rig.readiness.is_ready());
    mock.broker_round_trip_time(1, Duration::from_secs(30)).unwrap();
    // Within the time in which the topic still counts as healthy.
    let patience = Duration::from_secs(4);
    let requests: Vec<(Canceller, PendingDelivery)> = (0..50)
        .map(|index| {
            let canceller = Canceller::new(Instant::now() + patience);
            let name = format!("span {index}");
            let cancellation = canceller.cancellation();
            (canceller, rig.publish_for(cancellation, Signal::Traces, &name).unwrap())
        })
        .collect();
    let (mut safe, mut unknown) = (0, 0);
    let deadline = tokio::time::Instant::now() + patience;
    for (canceller, delivery) in requests {
        match tokio::time::timeout_at(deadline, delivery).await {
            Ok(result) => {
                assert_eq!(result, Ok(DeliveryReceipt::default()));
                safe += 1;
            }
            Err(_) => {
                assert_eq!(canceller.cancel(), CancelOutcome::MayBeStored);
                unknown += 1;
            }
        }
    }
    assert!((1..=16).contains(&unknown), "{unknown} of 50 were with the library, {safe} are safe");
    assert_eq!(rig.metric("millrace_buffer_records"), safe);
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    wait_until("the buffer to be sent", || {
        rig.metric("millrace_buffer_records") == 0
            && rig.metric("millrace_records_in_flight{signal=\"traces\"}") == 0
    });
    wait_until("the budget to be free", || rig.budget.used_bytes() == 0);
}

/// Scenario: after a restart one request on disk is longer than a message may be; then the settings
/// accept it again. Guarantee: all others are sent, that one is set aside, counted and named, and
/// sent after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_is_too_long_holds_nothing_up() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let start = |max_message_bytes| {
        Rig::changed(&mock, folder.path(), ByteSize::mib(16), false, |settings| {
            settings.max_message_bytes = max_message_bytes;
        })
    };
    let rig = start(ByteSize::kib(64));
    let long = "x".repeat(30_000);
    for name in ["first", &long, "last"] {
        assert_eq!(rig.publish(name).unwrap().await, Ok(DeliveryReceipt::default()));
    }
    drop(rig);
    mock.broker_up(1).unwrap();
    let rig = start(ByteSize::kib(16));
    wait_until("the others to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 2
            && rig.metric("millrace_buffer_rejected_records") == 1
    });
    wait_until("a note", || rig.readiness.warnings().iter().any(|note| note.contains("set aside")));
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 1);
    drop(rig);
    let rig = start(ByteSize::kib(64));
    wait_until("the long one to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 1
            && rig.metric("millrace_buffer_records") == 0
    });
    assert_eq!(rig.metric("millrace_buffer_rejected_records"), 0);
}

/// Scenario: after a restart with less memory one request on disk never fits in the budget; then
/// there is more memory again. Guarantee: all others are sent, that one is set aside and counted,
/// and sent after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_never_fits_in_memory_holds_nothing_up() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = KafkaExporter {
        connection: connection(&mock),
        topics: only_traces("otlp_traces"),
        delivery_timeout_seconds: 5,
        ..KafkaExporter::default()
    };
    let path = folder.path().join("buffer");
    let buffer = DiskBuffer { path, max_bytes: ByteSize::mib(16), drain: false };
    let start = |bytes| Rig::budgeted(&settings, &[], &buffer, Budget::new(bytes));
    let rig = start(1 << 20);
    let long = "x".repeat(30_000);
    for name in ["first", &long, "last"] {
        assert_eq!(rig.publish(name).unwrap().await, Ok(DeliveryReceipt::default()));
    }
    drop(rig);
    mock.broker_up(1).unwrap();
    // The second has room for the request, and not for the message that is made of it.
    for bytes in [16 << 10, 34 << 10] {
        let rig = start(bytes);
        wait_until("the long one to be set aside", || {
            rig.metric("millrace_buffer_rejected_records") == 1
                && rig.metric("millrace_records_in_flight{signal=\"traces\"}") == 1
        });
    }
    let rig = start(1 << 20);
    wait_until("the long one to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 1
            && rig.metric("millrace_buffer_records") == 0
    });
    assert_eq!(rig.metric("millrace_buffer_rejected_records"), 0);
}

/// Scenario: a buffer is full of requests that are all longer than a message may be since a
/// restart; then the settings accept them again. Guarantee: all of them are set aside although the
/// buffer is full, and are sent after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_of_requests_that_are_too_long_empties() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let start = |max_message_bytes| {
        Rig::changed(&mock, folder.path(), ByteSize::kib(256), false, |settings| {
            settings.max_message_bytes = max_message_bytes;
        })
    };
    let rig = start(ByteSize::kib(64));
    let long = "x".repeat(30_000);
    let mut taken = 0;
    while rig.publish(&long).unwrap().await.is_ok() {
        taken += 1;
    }
    assert!(taken > 2, "more than one in a segment: {taken}");
    drop(rig);
    mock.broker_up(1).unwrap();
    let rig = start(ByteSize::kib(16));
    wait_until("all to be set aside", || rig.metric("millrace_buffer_rejected_records") == taken);
    drop(rig);
    let rig = start(ByteSize::kib(64));
    wait_until("the long ones to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == taken
            && rig.metric("millrace_buffer_records") == 0
    });
    assert_eq!(rig.metric("millrace_buffer_rejected_records"), 0);
}

/// Scenario: Kafka repeatedly refuses a request from the disk for its content. Guarantee: it is set
/// aside, and later requests are sent. Slow: a request is refused five times, with a wait after
/// each that doubles.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_kafka_never_takes_is_set_aside() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    assert_eq!(rig.publish("poison").unwrap().await, Ok(DeliveryReceipt::default()));
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP;
    mock.request_errors(RDKafkaApiKey::Produce, &[refused; 5]);
    mock.broker_up(1).unwrap();
    wait_until("it to be set aside", || rig.metric("millrace_buffer_rejected_records") == 1);
    let last = rig.publish("last").unwrap();
    assert_eq!(last.await, Ok(DeliveryReceipt::default()));
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 1);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 1);
}

/// Publishes a span to a rig's only route.
fn publish_routed(rig: &Rig, name: &str) -> Result<PendingDelivery, PublishError> {
    let bytes = spans([name.to_owned()]);
    let reservation = rig.budget.try_reserve(bytes.len() as u64).unwrap();
    let [route] = Arc::clone(&rig.publisher).route_publishers().try_into().ok().unwrap();
    assert!(route.accepts_signal(Signal::Traces) && !route.accepts_signal(Signal::Logs));
    let (signal, checked) = (Signal::Traces, checked(&bytes));
    let cancellation = Cancellation::default();
    let client = None;
    let bytes = bytes.as_slice();
    route.publish(PublishRequest { signal, bytes, checked, reservation, cancellation, client })
}

fn routed_to(topic: &str) -> [RouteOptions; 1] {
    [RouteOptions { signal: Signal::Traces, topic: TopicName::new(topic).unwrap() }]
}

/// Scenario: spans for the exporter's own topic and for a route's, without brokers and after a
/// restart with them. Guarantee: both are on disk first, and each reaches its own topic, in order;
/// a route has a queue for its signal alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn routed_records_have_their_own_topic_and_buffer() {
    let mock = mock();
    mock.create_topic("audit.traces", 1, 1).unwrap();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let routes = routed_to("audit.traces");
    let start = || Rig::routed(&mock, folder.path(), ByteSize::mib(16), false, (&routes, |_| {}));
    let rig = start();
    for index in 0..10 {
        rig.publish(&format!("own-{index}")).unwrap().await.unwrap();
        publish_routed(&rig, &format!("routed-{index}")).unwrap().await.unwrap();
    }
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 20);
    let queues = std::fs::read_dir(folder.path().join("buffer/routes/audit.traces")).unwrap();
    let mut queues: Vec<_> = queues.map(|queue| queue.unwrap().file_name()).collect();
    queues.sort();
    assert_eq!(queues, ["set-aside", "traces"]);
    drop(rig);
    let rig = start();
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 20);
    mock.broker_up(1).unwrap();
    wait_until("the buffer to be empty", || rig.metric("millrace_buffer_records") == 0);
    // The gauge of the buffers is their last report: records in flight are counted at once.
    wait_until("no record to be in flight", || {
        rig.metric("millrace_records_in_flight{signal=\"traces\"}") == 0
    });
    wait_until("direct delivery", || rig.readiness.is_ready());
    publish_routed(&rig, "routed-last").unwrap().await.unwrap();
    assert!(rig.publisher.flush(Duration::from_secs(5)));
    for (topic, prefix, count) in [("otlp_traces", "own", 10), ("audit.traces", "routed", 11)] {
        let messages = watermark(&mock, topic);
        let payloads = read(&mock, topic, messages, |m| m.payload().unwrap().to_vec());
        let stored: Vec<String> = payloads.iter().flat_map(|payload| names(payload)).collect();
        let mut expected: Vec<String> = (0..10).map(|index| format!("{prefix}-{index}")).collect();
        expected.extend((count == 11).then(|| "routed-last".to_owned()));
        assert_eq!(stored, expected, "{topic}");
    }
}

/// Scenario: records of a route are on disk, and the route is removed, or has another signal; later
/// it is back. Guarantee: they are reported and stay, go to no other topic, and are sent once the
/// route is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn records_of_a_removed_route_stay_on_disk_and_are_reported() {
    let mock = mock();
    mock.create_topic("audit.traces", 1, 1).unwrap();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let routes = routed_to("audit.traces");
    let start = |routes: &[RouteOptions]| {
        Rig::routed(&mock, folder.path(), ByteSize::mib(16), false, (routes, |_| {}))
    };
    let rig = start(&routes);
    publish_routed(&rig, "routed").unwrap().await.unwrap();
    drop(rig);
    mock.broker_up(1).unwrap();
    let other_signal = routes.clone().map(|route| RouteOptions { signal: Signal::Logs, ..route });
    for changed in [&[][..], &other_signal] {
        let rig = start(changed);
        wait_until("a warning", || {
            let warnings = rig.readiness.warnings().join(" ");
            warnings.contains("records of traces for topic audit.traces are on disk (1)")
        });
        rig.publish("own").unwrap().await.unwrap();
        assert!(rig.publisher.flush(Duration::from_secs(5)));
        let buffered = rig.metric("millrace_buffer_records");
        assert_eq!((buffered, watermark(&mock, "audit.traces")), (1, 0));
    }
    let rig = start(&routes);
    wait_until("the buffer to be empty", || rig.metric("millrace_buffer_records") == 0);
    let payloads = read(&mock, "audit.traces", 1, |m| m.payload().unwrap().to_vec());
    assert_eq!(names(&payloads[0]), ["routed"]);
}

/// Scenario: of three requests on disk the bytes of the second go bad. Guarantee: the others are
/// sent, and the lost one is counted and is no longer in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_went_bad_on_disk_is_counted_as_lost() {
    let mock = mock();
    mock.broker_down(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    for name in ["first", "goes bad", "last"] {
        assert_eq!(rig.publish(name).unwrap().await, Ok(DeliveryReceipt::default()));
    }
    drop(rig);
    let damage = |path: std::path::PathBuf| {
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(8).position(|window| window == b"goes bad");
        if let Some(at) = at {
            bytes[at] = b'G';
            std::fs::write(&path, bytes).unwrap();
        }
        at.is_some()
    };
    let files = std::fs::read_dir(folder.path().join("buffer/traces")).unwrap();
    assert_eq!(files.filter(|file| damage(file.as_ref().unwrap().path())).count(), 1);
    mock.broker_up(1).unwrap();
    let rig = Rig::start(&mock, folder.path(), ByteSize::mib(16));
    wait_until("the others to be sent", || {
        rig.metric("millrace_records_out_total{signal=\"traces\"}") == 2
            && rig.metric("millrace_buffer_damaged_records_total") == 1
            && rig.metric("millrace_records_in_flight{signal=\"traces\"}") == 0
            && rig.metric("millrace_buffer_records") == 0
    });
}
