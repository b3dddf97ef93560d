//! Topics that differ from the last commit, and long messages: commits with another program's
//! metadata, retention that was faster, a recreated topic.

use std::time::Duration;

use millrace_ledger::{Intent, OffsetRange, Promises, encode_metadata};
use millrace_source_kafka::DeliveryMode;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::fake_sink::{FakeSink, Mode};
use super::{Kafka, Options, PATIENCE, Running, TOPIC, eventually, messages};

const LOST: &str = "millrace_records_lost_to_retention_total{topic=\"otlp_traces\"}";

/// Commits an offset for the gateway's group, as anybody can.
fn commit(kafka: &Kafka, partition: i32, offset: i64, metadata: &str) {
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.cluster.bootstrap_servers())
        .set("group.id", "millrace-gateway")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    let mut element = list.add_partition(TOPIC, partition);
    element.set_offset(Offset::Offset(offset)).unwrap();
    element.set_metadata(metadata);
    // A coordinator that was just started answers only after a moment.
    eventually("a commit", || member.commit(&list, CommitMode::Sync).is_ok());
    eventually("the commit to be there", || kafka.committed(partition) == Some(offset));
}

/// Scenario: commits whose metadata is of another program, truncated, and of a later version.
/// Guarantee: each is ignored and counted, and reading begins at its offset.
#[test]
fn metadata_that_is_not_ours_is_passed_over_and_counted() {
    let kafka = Kafka::new(4);
    let range = OffsetRange::new(5, 9).unwrap();
    let ours = encode_metadata(5, &vec![Intent::new(range, 1_700_000_000_000)].into());
    let cut_off = ours.trim_end_matches(|c: char| c != '+').to_owned();
    let odd = ["leader=worker-7".to_owned(), cut_off, ours.replacen(":4:", ":7:", 1), ours];
    for (partition, metadata) in (0..).zip(&odd) {
        kafka.send(partition, messages(&format!("p{partition}-"), 20));
        commit(&kafka, partition, 5, metadata);
    }
    let sink = FakeSink::new(Mode::Store);
    let options = Options { delivery: DeliveryMode::EffectivelyOnce, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    for partition in 0..4 {
        eventually("committed", || kafka.committed(partition) == Some(20));
    }
    assert_eq!(sink.messages().len(), 4 * 15);
    assert_eq!(running.metric("millrace_commit_metadata_ignored_total"), 3.0);
    running.stop();
}

/// Scenario: a commit of a deleted topic with the same name, and one that names no topic. Guarantee:
/// the first is ignored, with its batches, and the topic is read from its first message; reading
/// begins at the other.
#[test]
fn a_commit_of_a_deleted_topic_is_ignored() {
    let kafka = Kafka::new(2);
    let ranges = vec![Intent::new(OffsetRange::new(5, 9).unwrap(), 1_700_000_000_000)];
    for (partition, topic) in [(0, Some(1)), (1, None)] {
        kafka.send(partition, messages(&format!("p{partition}-"), 20));
        let promises = Promises { topic, ranges: ranges.clone(), ..Promises::default() };
        commit(&kafka, partition, 5, &encode_metadata(5, &promises));
    }
    let sink = FakeSink::new(Mode::Store);
    let options = Options { delivery: DeliveryMode::EffectivelyOnce, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    for partition in [0, 1] {
        eventually("committed", || kafka.committed(partition) == Some(20));
    }
    let expected = [messages("p0-", 20), messages("p1-", 20).split_off(5)].concat();
    assert_eq!(sink.messages(), expected);
    assert_eq!(running.metric("millrace_commit_metadata_ignored_total"), 0.0);
    running.stop();
}

/// Scenario: retention deletes messages that weren't read. Guarantee: the others are stored, and
/// the lost ones are counted by the broker's own numbers and reported alongside readiness.
#[test]
fn messages_deleted_unread_are_counted() {
    let kafka = Kafka::new(1);
    commit(&kafka, 0, 0, "");
    let filler = "x".repeat(900_000);
    // The mock cluster retains 5 MiB of a partition.
    kafka.send(0, (0..10).map(|n| format!("{n:05}{filler}")));
    let asker: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.cluster.bootstrap_servers())
        .create()
        .unwrap();
    let (low, high) = asker.fetch_watermarks(TOPIC, 0, PATIENCE).unwrap();
    assert!(low > 0 && high == 10, "{low}..{high}");
    let sink = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("committed", || kafka.committed(0) == Some(10));
    eventually("counted", || running.metric(LOST) == low as f64);
    assert_eq!(sink.messages().len() as i64, high - low);
    let note = format!("kafka source: {low} messages of otlp_traces/0 were deleted unread");
    eventually("told", || running.readiness.warnings() == [note.as_str()]);
    running.stop();
}

/// Scenario: the committed offset is behind the end of the topic, as after it was deleted and
/// recreated. Guarantee: all of its messages are stored and committed, none counts as lost.
#[test]
fn a_topic_that_begins_again_is_read_from_its_beginning() {
    let kafka = Kafka::new(1);
    kafka.send(0, messages("m", 20));
    commit(&kafka, 0, 1_000, "");
    let sink = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("stored", || sink.messages() == messages("m", 20));
    eventually("committed", || kafka.committed(0) == Some(20));
    kafka.send(0, messages("n", 5));
    eventually("committed on", || kafka.committed(0) == Some(25));
    assert_eq!((sink.messages().len(), running.metric(LOST)), (25, 0.0));
    running.stop();
}

/// Scenario: messages of 2 MB on four partitions, with a budget that holds a few at once and a sink
/// that answers late; one message of more than 8 MiB. Guarantee: encoders and bodies stay inside
/// the budget, all but the one are stored once, that one is a dead letter with the reason and
/// without its bytes.
#[test]
fn long_messages_wait_for_memory_and_too_long_ones_are_dead_letters() {
    // The mock cluster retains 5 MiB of a partition.
    let kafka = Kafka::new(5);
    let limit = 32 << 20;
    let filler = "x".repeat(2_000_000);
    let sent: Vec<String> = (0..8).map(|n| format!("{n:05}{filler}")).collect();
    for (partition, two) in (0..).zip(sent.chunks(2)) {
        kafka.send(partition, two.to_vec());
    }
    kafka.send(4, ["y".repeat(9_000_000)]);
    let sink = FakeSink::new(Mode::Hold);
    let options = Options { budget_bytes: limit, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("something is held", || !sink.held().is_empty());
    // Longer than it takes to pause.
    std::thread::sleep(Duration::from_millis(800));
    sink.set(Mode::Store);
    for (partition, end) in [(0, 2), (1, 2), (2, 2), (3, 2), (4, 1)] {
        eventually("committed", || kafka.committed(partition) == Some(end));
    }
    let stored = sink.messages();
    let starts: Vec<_> = stored.iter().map(|message| &message[..5]).collect();
    let expected = ["00000", "00001", "00002", "00003", "00004", "00005", "00006", "00007"];
    assert_eq!(starts, expected);
    assert!(stored.iter().all(|message| message.len() == 5 + filler.len()));
    assert!(sink.most_live_bytes() <= limit, "{} of {limit}", sink.most_live_bytes());
    let letters = sink.letters();
    let of_letter: Vec<_> =
        letters.iter().map(|l| (l.offset, l.rejection.reason, l.payload.len())).collect();
    assert_eq!(of_letter, [(0, "too_long", 0)]);
    assert!(letters[0].rejection.detail.starts_with("9000000 bytes exceed the 8388608 bytes "));
    running.stop();
}

/// Scenario: a message of 3 MB between short ones. Guarantee: it is a separate batch, so that no
/// neighbour is in the several inserts it may make; all are stored once.
#[test]
fn a_long_message_is_a_batch_of_its_own() {
    let kafka = Kafka::new(1);
    let long = "x".repeat(3_000_000);
    kafka.send(0, ["a".to_owned(), "b".to_owned(), long.clone(), "c".to_owned(), "d".to_owned()]);
    let sink = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("committed", || kafka.committed(0) == Some(5));
    let batches: Vec<Vec<String>> = sink.stored().into_iter().map(|seen| seen.messages).collect();
    let found: Vec<usize> = batches.iter().flatten().map(String::len).collect();
    assert_eq!(found, [1, 1, long.len(), 1, 1]);
    let alone = batches.iter().find(|batch| batch.contains(&long)).map(Vec::len);
    assert_eq!(alone, Some(1));
    running.stop();
}

/// Scenario: a message that is longer than the complete budget could decode. Guarantee: it waits
/// until nothing else is held and is stored, as with any other budget.
#[test]
fn how_long_a_message_may_be_depends_on_no_budget() {
    let kafka = Kafka::new(1);
    let long = "x".repeat(5_000_000);
    kafka.send(0, [long.clone()]);
    let sink = FakeSink::new(Mode::Store);
    let options = Options { budget_bytes: 12 << 20, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("committed", || kafka.committed(0) == Some(1));
    assert_eq!(sink.messages(), [long]);
    assert_eq!(sink.letters(), []);
    running.stop();
}
