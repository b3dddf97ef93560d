//! The Kafka source against librdkafka's mock cluster and a sink in memory: what is stored, what is
//! committed and when, and what happens when the sink, a message or the group misbehaves.
#![allow(clippy::panic, missing_docs)]

mod blocked;
mod brokers;
mod commit_latency;
mod damaged;
mod divided;
mod fake_sink;
mod limits;
mod odd_topics;
mod record_times;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_sink::{BROKEN, FakeSink, Mode, POISON, Seen};
use millrace_config::{Batch, BootstrapServer, ByteSize, KafkaReceiver, TopicName, Topics};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{DeadLetterSink, Sink};
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_kafka::{
    DeliveryMode, KafkaSource, SourceParts, SourceSettings, UncommittedPartition, UncommittedReason,
};
use millrace_wire::Signal;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const TOPIC: &str = "otlp_traces";
const LOGS: &str = "otlp_logs";
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a handover that this broker may disturb is tried.
const HAND_OVERS: u32 = 4;

/// Waits until a condition holds; fails the test when it doesn't in time.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Kafka {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
}

impl Kafka {
    fn new(partitions: i32) -> Self {
        Self::with_brokers(1, partitions)
    }

    fn with_brokers(brokers: i32, partitions: i32) -> Self {
        // RUST_LOG=debug shows what the workers do, when a test fails.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let cluster = MockCluster::new(brokers).unwrap();
        cluster.create_topic(TOPIC, partitions, 1).unwrap();
        cluster.create_topic(LOGS, 1, 1).unwrap();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("linger.ms", "0")
            .set("message.max.bytes", "16000000")
            .create()
            .unwrap();
        Self { cluster, producer }
    }

    fn send(&self, partition: i32, messages: impl IntoIterator<Item = String>) {
        self.send_to(TOPIC, partition, messages);
    }

    fn send_to(&self, topic: &str, partition: i32, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            let record = BaseRecord::<(), _>::to(topic).partition(partition).payload(&message);
            self.producer.send(record).unwrap();
            self.producer.poll(Duration::ZERO);
        }
        self.producer.flush(PATIENCE).unwrap();
    }

    /// Returns the group's committed offset of a partition.
    fn committed(&self, partition: i32) -> Option<i64> {
        self.committed_in(TOPIC, partition)
    }

    fn committed_in(&self, topic: &str, partition: i32) -> Option<i64> {
        let asker: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.cluster.bootstrap_servers())
            .set("group.id", "millrace-gateway")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let answer = asker.committed_offsets(list, PATIENCE).unwrap();
        match answer.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }
}

struct Options {
    workers: u16,
    budget_bytes: u64,
    max_rows: u32,
    max_age_millis: u32,
    delivery: DeliveryMode,
    instance: Option<&'static str>,
    drain_seconds: u64,
    session_seconds: u32,
    /// The brokers' address, if not the direct one.
    servers: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            budget_bytes: 64 << 20,
            max_rows: 10,
            max_age_millis: 50,
            delivery: DeliveryMode::AtLeastOnce,
            instance: None,
            drain_seconds: 20,
            session_seconds: 6,
            servers: None,
        }
    }
}

struct Running {
    source: KafkaSource,
    drain: Drain,
    readiness: Readiness,
    telemetry: Arc<Telemetry>,
    budget: Budget,
}

impl Running {
    fn start(kafka: &Kafka, sink: &Arc<FakeSink>, options: Options) -> Self {
        let mut receiver = KafkaReceiver {
            topics: Topics {
                traces: Some(TopicName::new(TOPIC).unwrap()),
                logs: Some(TopicName::new(LOGS).unwrap()),
                metrics: None,
            },
            workers: NonZeroU16::new(options.workers),
            fetch_queue_bytes: ByteSize::mib(1),
            session_timeout_seconds: options.session_seconds,
            ..KafkaReceiver::default()
        };
        let servers = options.servers.unwrap_or_else(|| kafka.cluster.bootstrap_servers());
        receiver.connection.bootstrap_servers =
            servers.split(',').map(|server| BootstrapServer::new(server).unwrap()).collect();
        let batch = Batch {
            max_rows: options.max_rows,
            max_age_millis: options.max_age_millis,
            ..Batch::default()
        };
        let settings = SourceSettings::new(
            &receiver,
            &batch,
            options.instance.map(str::to_owned),
            NonZeroU16::MIN,
            options.delivery,
        )
        .unwrap();
        let budget = Budget::new(options.budget_bytes);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "test", "system").unwrap());
        let drain = Drain::new(Duration::from_secs(options.drain_seconds));
        let readiness = Readiness::default();
        let parts = SourceParts {
            sink: Arc::clone(sink) as Arc<dyn Sink>,
            dead_letters: Arc::clone(sink) as Arc<dyn DeadLetterSink>,
            budget: budget.clone(),
            telemetry: Arc::clone(&telemetry),
            readiness: readiness.clone(),
            drain: drain.clone(),
        };
        let source = KafkaSource::start(settings, parts).unwrap();
        Self { source, drain, readiness, telemetry, budget }
    }

    fn metric(&self, line: &str) -> f64 {
        let text = self.telemetry.render().unwrap();
        let found = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }

    fn stop(self) {
        self.drain.begin();
        assert_eq!(self.source.join(), [], "everything taken is safe");
        assert_eq!(self.budget.used_bytes(), 0, "everything reserved is given back");
    }
}

fn messages(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i:05}")).collect()
}

/// Scenario: messages on four partitions, two workers. Guarantee: each is stored once, the last
/// offset of each partition is committed, the source is ready, the counters agree.
#[test]
fn everything_is_stored_once_and_committed() {
    let kafka = Kafka::new(4);
    let sink = FakeSink::new(Mode::Store);
    let mut sent = Vec::new();
    for partition in 0..4 {
        let batch = messages(&format!("p{partition}-"), 95);
        kafka.send(partition, batch.clone());
        sent.extend(batch);
    }
    let running = Running::start(&kafka, &sink, Options { workers: 2, ..Options::default() });
    eventually("all stored", || sink.messages().len() >= sent.len());
    assert_eq!(sink.messages(), sent);
    for partition in 0..4 {
        eventually("committed", || kafka.committed(partition) == Some(95));
    }
    eventually("ready", || running.readiness.is_ready());
    assert_eq!(running.metric("millrace_records_in_total{signal=\"traces\"}"), 380.0);
    assert_eq!(running.metric("millrace_records_out_total{signal=\"traces\"}"), 380.0);
    assert_eq!(running.metric("millrace_records_in_flight{signal=\"traces\"}"), 0.0);
    running.stop();
}

/// Scenario: the sink accepts inserts and doesn't answer, then does. Guarantee: nothing is
/// committed before, everything after.
#[test]
fn nothing_is_committed_before_the_sink_has_answered() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Hold);
    kafka.send(0, messages("m", 30));
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("three inserts", || sink.held().len() == 3);
    // Check for several commit intervals: a commit would have arrived by now.
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        assert_eq!(kafka.committed(0), None);
    }
    sink.set(Mode::Store);
    eventually("committed", || kafka.committed(0) == Some(30));
    running.stop();
}

/// Scenario: two messages that aren't OTLP among good ones, the dead-letter topic slow. Guarantee:
/// the neighbours are stored in the meantime, the commit waits for the dead letters, and those
/// carry bytes, offset and reason.
#[test]
fn a_broken_message_becomes_a_dead_letter_before_it_is_committed() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    sink.hold_letters(true);
    let mut sent = messages("m", 20);
    sent[3] = format!("{BROKEN}-a");
    sent[17] = format!("{BROKEN}-b");
    kafka.send(0, sent);
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("neighbours stored", || sink.messages().len() == 18);
    eventually("letters sent", || sink.held_letters() == 2);
    assert_eq!(kafka.committed(0), None);
    sink.hold_letters(false);
    eventually("committed", || kafka.committed(0) == Some(20));
    let letters = sink.letters();
    assert_eq!((letters[0].offset, letters[1].offset), (3, 17));
    assert_eq!(letters[0].payload, format!("{BROKEN}-a").into_bytes());
    assert_eq!(letters[0].rejection.reason, "truncated");
    assert_eq!(letters[0].topic.as_ref(), TOPIC);
    let counted = "millrace_records_dead_lettered_total{reason=\"truncated\",signal=\"traces\"}";
    assert_eq!(running.metric(counted), 2.0);
    running.stop();
}

/// Scenario: a message of three groups with a broken one between the others; another message makes
/// the batch's insert fail, so that it is divided. Guarantee: the good
/// groups are stored exactly once, only the broken one is a dead letter, the commit passes all.
#[test]
fn a_broken_group_costs_the_others_of_its_message_nothing() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    let mut sent = messages("m", 10);
    sent[4] = format!("m-one|{BROKEN}-a|m-two");
    sent[7] = format!("{POISON}-b");
    kafka.send(0, sent.clone());
    let running = Running::start(&kafka, &sink, Options { max_rows: 11, ..Options::default() });
    eventually("committed", || kafka.committed(0) == Some(10));
    let mut good = sent;
    good.retain(|message| !message.contains(BROKEN) && !message.starts_with(POISON));
    good.extend(["m-one", "m-two"].map(str::to_owned));
    good.sort();
    assert_eq!(sink.messages(), good);
    let mut letters = sink.letters();
    letters.sort_by_key(|letter| letter.offset);
    let found: Vec<_> = letters.iter().map(|l| (l.offset, l.payload.as_slice())).collect();
    let (broken, poison) = (format!("{BROKEN}-a"), format!("{POISON}-b"));
    assert_eq!(found, [(4, broken.as_bytes()), (7, poison.as_bytes())]);
    running.stop();
}

/// Scenario: two messages in one batch make its insert fail. Guarantee: only they become dead
/// letters, all others are stored exactly once, the commit passes them.
#[test]
fn refused_rows_cost_their_neighbours_nothing() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    let mut sent = messages("m", 50);
    sent[12] = format!("{POISON}-a");
    sent[33] = format!("{POISON}-b");
    kafka.send(0, sent.clone());
    let options = Options { max_rows: 50, max_age_millis: 5_000, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("committed", || kafka.committed(0) == Some(50));
    let good: Vec<_> = sent.iter().filter(|m| !m.starts_with(POISON)).cloned().collect();
    assert_eq!(sink.messages(), good);
    let offsets: Vec<_> = sink.letters().iter().map(|letter| letter.offset).collect();
    assert_eq!(offsets, [12, 33]);
    assert_eq!(running.metric("millrace_records_in_flight{signal=\"traces\"}"), 0.0);
    running.stop();
}

/// Scenario: the task of an insert dies. Guarantee: its messages are read again and sent under the
/// same token, and nothing is lost.
#[test]
fn an_insert_that_was_given_up_is_repeated_under_its_token() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::DropOne);
    kafka.send(0, messages("m", 40));
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("committed", || kafka.committed(0) == Some(40));
    let mut stored = sink.messages();
    stored.dedup();
    assert_eq!(stored, messages("m", 40));
    let dropped = sink.dropped();
    assert!(sink.stored().contains(&dropped[0]), "the same token with the same messages");
    running.stop();
}

/// Scenario: one insert is returned and may be stored, another is returned unstored. Guarantee:
/// each is sent again under its token, and only the first is marked as possibly stored, so that
/// only the second may be divided. Slow: each of two mock groups waits 3 s before it assigns
/// partitions.
#[test]
fn a_repeated_insert_may_be_stored_unless_it_was_given_back_unstored() {
    for (mode, may_be_stored) in [(Mode::DropOne, true), (Mode::DeferOne, false)] {
        let kafka = Kafka::new(1);
        let sink = FakeSink::new(mode);
        kafka.send(0, messages("m", 40));
        let running = Running::start(&kafka, &sink, Options::default());
        eventually("committed", || kafka.committed(0) == Some(40));
        let dropped = sink.dropped();
        assert_eq!(sink.may_be_stored(&dropped[0].token), [false, may_be_stored], "{mode:?}");
        running.stop();
    }
}

/// Scenario: 32 MiB of messages, a budget of 12 MiB, and a sink that is stuck, then isn't.
/// Guarantee: encoders and bodies stay inside the budget, lag is reported, and everything arrives.
#[test]
fn a_stuck_sink_means_lag_and_not_memory() {
    // The mock cluster retains 5 MiB of a partition.
    const PARTITIONS: usize = 8;
    const EACH: usize = 256;
    let kafka = Kafka::new(PARTITIONS as i32);
    let sink = FakeSink::new(Mode::Hold);
    let filler = "x".repeat(16 * 1024);
    let sent: Vec<_> = (0..PARTITIONS * EACH).map(|i| format!("{i:05}{filler}")).collect();
    for (partition, messages) in sent.chunks(EACH).enumerate() {
        kafka.send(partition as i32, messages.to_vec());
    }
    let limit = 12 << 20;
    let options = Options { budget_bytes: limit, max_rows: 100_000, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("lag is seen", || {
        let lag = |partition: usize| {
            running.metric(&format!(
                "millrace_consumer_lag_messages{{partition=\"{partition}\",topic=\"{TOPIC}\"}}"
            ))
        };
        (0..PARTITIONS).map(lag).sum::<f64>() == sent.len() as f64
    });
    assert!(running.budget.used_bytes() > limit / 4, "something was read");
    assert!(sink.most_live_bytes() <= limit, "{} of {limit}", sink.most_live_bytes());
    sink.set(Mode::Store);
    eventually("all stored", || sink.messages().len() >= sent.len());
    assert_eq!(sink.messages(), sent);
    assert!(sink.most_live_bytes() <= limit, "{} of {limit}", sink.most_live_bytes());
    running.stop();
}

/// Scenario: ten partitions have more than a worker's open batches may hold, and no batch is full
/// or old enough to be cut. Guarantee: the largest is sent early each time, so that open batches
/// stay within 32 MiB, a quarter of the budget, however many partitions there are; the others wait
/// for their age.
#[test]
fn open_batches_stay_within_their_bound_whatever_the_number_of_partitions() {
    // The mock cluster retains 5 MiB of a partition: 4.5 MiB of each are 45 MiB.
    const PARTITIONS: usize = 10;
    const EACH: usize = 288;
    const LENGTH: usize = 16 * 1024;
    const BOUND: usize = 32 << 20;
    let kafka = Kafka::new(PARTITIONS as i32);
    let sink = FakeSink::new(Mode::Store);
    let filler = "x".repeat(LENGTH - 6);
    let sent: Vec<_> = (0..PARTITIONS * EACH).map(|i| format!("{i:05}{filler}")).collect();
    for (partition, messages) in sent.chunks(EACH).enumerate() {
        kafka.send(partition as i32, messages.to_vec());
    }
    let options = Options {
        budget_bytes: 4 * BOUND as u64,
        max_rows: 100_000,
        max_age_millis: 60_000,
        ..Options::default()
    };
    let running = Running::start(&kafka, &sink, options);
    eventually("all read", || {
        running.metric("millrace_records_in_total{signal=\"traces\"}") == sent.len() as f64
    });
    let early = sink.stored();
    let lengths: Vec<usize> = early.iter().map(|insert| insert.messages.len() * LENGTH).collect();
    let over = PARTITIONS * EACH * LENGTH - BOUND;
    assert!(lengths.iter().sum::<usize>() >= over, "{lengths:?}");
    // The largest of ten that hold 32 MiB together has at least a tenth.
    assert!(lengths.iter().all(|length| *length >= BOUND / PARTITIONS), "{lengths:?}");
    let most = usize::try_from(sink.most_live_bytes()).unwrap();
    assert!(most > BOUND - LENGTH && most <= BOUND + LENGTH, "{most} of {BOUND}");
    running.stop();
    assert_eq!(sink.messages(), sent);
}

/// Scenario: 36 MB of messages that can't be decoded, a budget of 16 MiB, and a dead-letter topic
/// that accepts nothing, then does. Guarantee: a 32nd of the budget stops the signal; waiting dead
/// letters stay inside the budget, and all of them arrive in the end. Slow: the mock group waits 3
/// s before it assigns partitions, and 36 MB of messages pass a budget of 16 MiB.
#[test]
fn a_stuck_dead_letter_topic_means_lag_and_not_memory() {
    // The mock cluster retains 5 MiB of a partition.
    const PARTITIONS: usize = 8;
    const EACH: usize = 5;
    let kafka = Kafka::new(PARTITIONS as i32);
    let sink = FakeSink::new(Mode::Store);
    sink.hold_letters(true);
    let filler = "x".repeat(900_000);
    for partition in 0..PARTITIONS {
        kafka.send(partition as i32, (0..EACH).map(|n| format!("{BROKEN}{n:05}{filler}")));
    }
    let limit = 16 << 20;
    let running =
        Running::start(&kafka, &sink, Options { budget_bytes: limit, ..Options::default() });
    eventually("letters wait", || sink.held_letter_bytes() > limit as usize / 32);
    // Longer than it takes to pause.
    std::thread::sleep(Duration::from_millis(1_000));
    let waiting = sink.held_letter_bytes() as u64;
    let used = running.budget.used_bytes();
    assert!(waiting <= used && used <= limit, "{waiting} bytes wait, {used} of {limit} are used");
    eventually("all letters are there", || {
        sink.hold_letters(false);
        (0..PARTITIONS).all(|partition| kafka.committed(partition as i32) == Some(EACH as i64))
    });
    assert_eq!(sink.letters().len(), PARTITIONS * EACH);
    running.stop();
}

/// Scenario: the sink is full for longer than the pause threshold. Guarantee: nothing is lost or
/// duplicated when it has capacity again.
#[test]
fn a_full_sink_is_offered_the_same_inserts_again() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Full);
    kafka.send(0, messages("m", 100));
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("something waits", || {
        running.metric("millrace_records_in_flight{signal=\"traces\"}") > 0.0
    });
    std::thread::sleep(Duration::from_millis(800));
    sink.set(Mode::Store);
    eventually("committed", || kafka.committed(0) == Some(100));
    assert_eq!(sink.messages(), messages("m", 100));
    running.stop();
}

/// Scenario: the table of one signal accepts nothing, for longer than the pause threshold.
/// Guarantee: the other signal is stored and committed in the meantime, and the first one once its
/// table is open.
#[test]
fn a_blocked_table_holds_up_its_own_signal_only() {
    let kafka = Kafka::new(2);
    let sink = FakeSink::new(Mode::Store);
    sink.block(Some(Signal::Traces));
    kafka.send(0, messages("t", 100));
    kafka.send(1, messages("u", 100));
    kafka.send_to(LOGS, 0, messages("l", 50));
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("logs are committed", || kafka.committed_in(LOGS, 0) == Some(50));
    kafka.send_to(LOGS, 0, messages("m", 50));
    eventually("more logs are committed", || kafka.committed_in(LOGS, 0) == Some(100));
    assert_eq!(sink.messages(), [messages("l", 50), messages("m", 50)].concat());
    sink.block(None);
    eventually("traces are committed", || {
        (0..2).all(|partition| kafka.committed(partition) == Some(100))
    });
    assert_eq!(sink.messages().len(), 300);
    running.stop();
}

/// Scenario: a second member joins while messages flow, then leaves. Guarantee: no message is lost;
/// both members had work; and a clean handover commits before it releases, so nothing is stored
/// twice. An unclean one is retried: this broker refuses a follower whose request to sync comes
/// after its leader's, begins the next rebalance at once, and accepts no commits in it, which
/// brokers do. On a busy machine that is every fifth time. Slow: a mock group rebalances three
/// times in each of up to four handovers, and waits for seconds each time.
#[test]
fn partitions_move_between_members_without_loss() {
    let clean = (0..HAND_OVERS).any(|_| move_partitions());
    assert!(clean, "rows were stored twice in each of {HAND_OVERS} hand-overs");
}

/// Moves partitions to a second member and back. Returns whether nothing was stored twice.
fn move_partitions() -> bool {
    let kafka = Kafka::new(4);
    let (first, second) = (FakeSink::new(Mode::Store), FakeSink::new(Mode::Store));
    let one = Running::start(&kafka, &first, Options::default());
    let mut sent = Vec::new();
    let mut round = 0;
    let mut send = |kafka: &Kafka| {
        for partition in 0..4 {
            let batch = messages(&format!("r{round:04}-p{partition}-"), 3);
            kafka.send(partition, batch.clone());
            sent.extend(batch);
        }
        round += 1;
    };
    eventually("the first works", || {
        send(&kafka);
        !first.messages().is_empty()
    });
    let two = Running::start(&kafka, &second, Options::default());
    eventually("the second works", || {
        send(&kafka);
        !second.messages().is_empty()
    });
    two.stop();
    send(&kafka);
    sent.sort();
    eventually("all stored", || {
        let mut stored = [first.messages(), second.messages()].concat();
        stored.sort();
        stored.dedup();
        stored == sent
    });
    let stored = first.messages().len() + second.messages().len();
    one.stop();
    stored == sent.len()
}

/// Scenario: the process is stopped while a batch is half full and nothing was committed yet.
/// Guarantee: it is cut, stored and committed; the next process reads nothing again.
#[test]
fn a_drain_stores_and_commits_what_was_read() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    kafka.send(0, messages("m", 25));
    let slow = || Options { max_rows: 1_000, max_age_millis: 60_000, ..Options::default() };
    let running = Running::start(&kafka, &sink, slow());
    eventually("all read", || {
        running.metric("millrace_records_in_total{signal=\"traces\"}") == 25.0
    });
    assert!(sink.stored().is_empty());
    running.stop();
    assert_eq!(sink.messages(), messages("m", 25));
    assert_eq!(kafka.committed(0), Some(25));
    let again = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &again, Options::default());
    kafka.send(0, messages("n", 1));
    eventually("the new one is stored", || !again.messages().is_empty());
    assert_eq!(again.messages(), messages("n", 1));
    running.stop();
}

/// Scenario: the process is stopped while the sink accepts nothing. Guarantee: it ends without
/// waiting, everything is safe in Kafka, and the next process stores it once. Slow: four members
/// join in turn, and a group's first rebalance takes 3 s.
#[test]
fn a_drain_leaves_to_the_next_owner_what_a_full_sink_does_not_accept() {
    for delivery in [DeliveryMode::AtLeastOnce, DeliveryMode::EffectivelyOnce] {
        let kafka = Kafka::new(1);
        kafka.send(0, messages("m", 100));
        let full = FakeSink::new(Mode::Full);
        let options = || Options { delivery, ..Options::default() };
        let running = Running::start(&kafka, &full, options());
        eventually("something waits", || {
            running.metric("millrace_records_in_flight{signal=\"traces\"}") > 0.0
        });
        let begun = Instant::now();
        running.stop();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let sink = FakeSink::new(Mode::Store);
        let running = Running::start(&kafka, &sink, options());
        eventually("committed", || kafka.committed(0) == Some(100));
        assert_eq!(sink.messages(), messages("m", 100));
        running.stop();
    }
}

/// Scenario: effectively once; a process ends with unanswered inserts, the next one has other batch
/// limits. Guarantee: the first reports what it leaves behind; the next repeats the same inserts,
/// token by token, before it cuts new batches.
#[test]
fn a_restart_repeats_the_inserts_that_were_announced() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Hold);
    kafka.send(0, messages("m", 35));
    let options = |max_rows| Options {
        max_rows,
        delivery: DeliveryMode::EffectivelyOnce,
        drain_seconds: 1,
        ..Options::default()
    };
    let running = Running::start(&kafka, &sink, options(10));
    let all = |held: &[Seen]| held.iter().map(|insert| insert.messages.len()).sum::<usize>() == 35;
    eventually("all in inserts", || all(&sink.held()));
    // Four, or more if the first fetch returned less than a batch.
    let tried = sink.held();
    assert!(tried.len() >= 4, "{tried:?}");
    running.drain.begin();
    let left = running.source.join();
    let [
        UncommittedPartition {
            partition: 0, unanswered_batches, uncommitted_offsets: 35, why, ..
        },
    ] = left[..]
    else {
        panic!("{left:?}");
    };
    assert_eq!((unanswered_batches, why), (tried.len() as u64, UncommittedReason::Deadline));
    assert_eq!(kafka.committed(0), Some(0), "named, and not passed");
    kafka.send(0, messages("n", 10));
    let next = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &next, options(7));
    eventually("committed", || kafka.committed(0) == Some(45));
    let stored = next.stored();
    assert_eq!(stored[..tried.len()], tried, "the same tokens with the same messages, in order");
    assert!(stored[tried.len()..].iter().all(|insert| insert.messages.len() <= 7));
    assert_eq!(next.messages(), [messages("m", 35), messages("n", 10)].concat());
    running.stop();
}

/// Scenario: effectively once; a process ends with unanswered inserts of two signals. The next one
/// finds the table of one of them blocked. Guarantee: the other signal's inserts are still repeated
/// and committed, and the blocked one's once its table is open. Slow: four sources join their mock
/// groups one after the other, which wait for seconds each time.
#[test]
fn a_blocked_table_keeps_no_other_signal_from_being_repeated() {
    // More batches than are read again before the first is named, and found to be blocked.
    const EACH: usize = 2_500;
    for blocked in [Signal::Traces, Signal::Logs] {
        let kafka = Kafka::new(1);
        kafka.send(0, messages("t", EACH));
        kafka.send_to(LOGS, 0, messages("l", EACH));
        let options = || Options {
            delivery: DeliveryMode::EffectivelyOnce,
            drain_seconds: 1,
            max_rows: 50,
            ..Options::default()
        };
        let sink = FakeSink::new(Mode::Hold);
        let running = Running::start(&kafka, &sink, options());
        eventually("all in inserts", || {
            sink.held().iter().map(|insert| insert.messages.len()).sum::<usize>() == 2 * EACH
        });
        running.drain.begin();
        assert_eq!(running.source.join().len(), 2, "both are left behind");
        let next = FakeSink::new(Mode::Store);
        next.block(Some(blocked));
        let running = Running::start(&kafka, &next, Options { drain_seconds: 20, ..options() });
        let committed = |signal| match signal {
            Signal::Logs => kafka.committed_in(LOGS, 0) == Some(EACH as i64),
            _ => kafka.committed(0) == Some(EACH as i64),
        };
        let other = if blocked == Signal::Logs { Signal::Traces } else { Signal::Logs };
        eventually("the other signal is committed", || committed(other));
        assert!(!committed(blocked));
        next.block(None);
        eventually("the blocked signal is committed", || committed(blocked));
        assert_eq!(next.messages(), [messages("l", EACH), messages("t", EACH)].concat());
        running.stop();
    }
}
