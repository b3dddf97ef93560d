//! Refused batches: while their table stalls, memory is short, or messages are deleted, and when their
//! table is fixed before all of their pieces are stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_source_kafka::DeliveryMode;
use millrace_wire::Signal;

use super::fake_sink::{FakeSink, Mode, POISON, Seen};
use super::{Kafka, LOGS, Options, Running, eventually, messages};

const LOST: &str = "millrace_records_lost_to_retention_total{topic=\"otlp_traces\"}";

/// Scenario: a batch waits for its answer while retention deletes its messages; then it is refused
/// for one of its rows. Guarantee: its messages are counted as lost, and with them at most those
/// behind it that are stored and not committed yet; all others are stored.
#[test]
fn messages_deleted_before_their_batch_is_divided_are_lost_and_counted() {
    let kafka = Kafka::new(1);
    let mut sent = messages("m", 10);
    sent[4] = format!("{POISON}-a");
    kafka.send(0, sent);
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, Options::default());
    let held = |sink: &FakeSink| sink.held().iter().map(|seen| seen.messages.len()).sum::<usize>();
    eventually("a batch is held", || held(&sink) == 10);
    let refused: Vec<Seen> = sink.held();
    let of_refused = |seen: &&Seen| seen.messages.iter().any(|message| message.starts_with(POISON));
    let lost: usize = refused.iter().filter(of_refused).map(|seen| seen.messages.len()).sum();
    // The mock cluster retains 5 MiB of a partition.
    let filler = "x".repeat(900_000);
    (0..8).for_each(|n| kafka.send(0, [format!("f{n:05}{filler}")]));
    sink.set(Mode::Store);
    eventually("committed", || kafka.committed(0) == Some(18));
    eventually("counted", || running.metric(LOST) >= lost as f64);
    assert!(running.metric(LOST) < 18.0, "{} are lost", running.metric(LOST));
    assert_eq!(sink.messages().len(), 18 - lost);
    running.stop();
}

/// Scenario: in each of six batches one row is refused, and the table accepts nothing for 100 ms
/// after each of its answers, so that the partition is rewound between any two. Guarantee:
/// everything is stored or a dead letter, once, and committed. Slow: the source waits after each of
/// some fifty refusals and rewinds.
#[test]
fn a_table_that_stalls_after_each_answer_gets_every_good_row() {
    let kafka = Kafka::new(1);
    let mut sent = messages("m", 60);
    (0..6).for_each(|batch| sent[10 * batch + 4] = format!("{POISON}-{batch}"));
    let sink = FakeSink::new(Mode::Store);
    sink.stall_after_answers(Duration::from_millis(100));
    kafka.send(0, sent.clone());
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("committed", || kafka.committed(0) == Some(60));
    sent.retain(|message| !message.starts_with(POISON));
    assert_eq!((in_table(&[&sink]), sink.letters().len()), (sent, 6));
    running.stop();
}

/// Scenario: a batch is refused for one of its rows while ten messages come every 60 ms, and the
/// table accepts nothing for 150 ms after each of its answers, so that the partition is rewound
/// between any two of them. Guarantee: the batch is divided and committed while others still come,
/// with one dead letter; in the end every good row is stored once.
#[test]
fn a_refused_batch_is_finished_while_others_come_and_its_table_stalls() {
    let kafka = Kafka::new(1);
    let mut sent = messages("m", 10);
    sent[4] = format!("{POISON}-a");
    let sink = FakeSink::new(Mode::Store);
    sink.stall_after_answers(Duration::from_millis(300));
    kafka.send(0, sent.clone());
    let options = Options { delivery: DeliveryMode::EffectivelyOnce, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("it is refused", || {
        !running.metric("millrace_records_in_total{signal=\"traces\"}").eq(&0.0)
    });
    let until = Instant::now() + Duration::from_secs(20);
    let mut round = 0;
    while kafka.committed(0).is_none_or(|offset| offset < 10) {
        assert!(
            Instant::now() < until,
            "{} letters, {} inserts stored",
            sink.letters().len(),
            sink.stored().len()
        );
        let more = messages(&format!("r{round:04}-"), 10);
        kafka.send(0, more.clone());
        sent.extend(more);
        round += 1;
        std::thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(sink.letters().len(), 1);
    sink.stall_after_answers(Duration::ZERO);
    let end = sent.len() as i64;
    eventually("everything is committed", || kafka.committed(0) == Some(end));
    sent.retain(|message| !message.starts_with(POISON));
    sent.sort();
    assert_eq!((in_table(&[&sink]), sink.letters().len()), (sent, 1));
    running.stop();
}

/// Scenario: an insert is refused for one of its rows while others use the complete budget; then
/// memory is free. Guarantee: its messages are read again within the budget, each good one is stored
/// once.
#[test]
fn batches_are_divided_within_the_budget() {
    let kafka = Kafka::new(1);
    let mut sent: Vec<_> = (0..10).map(|i| format!("{i:05}{}", "x".repeat(50_000))).collect();
    sent[4] = format!("{POISON}-a");
    kafka.send(0, sent);
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, Options::default());
    let held = || sink.held().iter().map(|seen| seen.messages.len()).sum::<usize>();
    eventually("all in inserts", || held() == 10);
    let mut hog = Vec::new();
    let mut take_all = || {
        for bytes in [1 << 20, 1 << 10, 1] {
            hog.extend(std::iter::from_fn(|| running.budget.try_reserve(bytes)));
        }
    };
    take_all();
    sink.set(Mode::Store);
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        // Memory that the others free is used too.
        take_all();
        assert!(running.budget.used_bytes() <= running.budget.limit_bytes());
    }
    assert_ne!(kafka.committed(0), Some(10), "without memory nothing is read again");
    drop(hog);
    eventually("committed", || kafka.committed(0) == Some(10));
    assert_eq!((sink.messages().len(), sink.letters().len()), (9, 1));
    running.stop();
}

/// Scenario: inserts of spans on eight partitions are refused for a row each; while they are divided
/// their table stops accepting anything. Then an insert of logs is refused for a row. Guarantee: the
/// logs are divided and committed in the meantime; the spans are once their table is open.
#[test]
fn a_blocked_table_keeps_no_other_one_from_being_divided() {
    const PARTITIONS: i32 = 8;
    let kafka = Kafka::new(PARTITIONS);
    let poisoned = |prefix: &str| {
        let mut sent = messages(prefix, 10);
        sent[4] = format!("{POISON}-{prefix}");
        sent
    };
    (0..PARTITIONS).for_each(|p| kafka.send(p, poisoned(&format!("t{p}-"))));
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, Options::default());
    let held = || sink.held().iter().map(|seen| seen.messages.len()).sum::<usize>();
    eventually("all in inserts", || held() == 80);
    sink.set(Mode::Store);
    sink.set(Mode::Hold);
    let stored = sink.messages().len();
    eventually("pieces are held", || !sink.held().is_empty());
    sink.block(Some(Signal::Traces));
    sink.set(Mode::Store);
    kafka.send_to(LOGS, 0, poisoned("l"));
    eventually("logs are committed", || kafka.committed_in(LOGS, 0) == Some(10));
    assert_eq!((sink.messages().len(), sink.letters().len()), (stored + 9, 1));
    sink.block(None);
    eventually("spans are committed", || {
        (0..PARTITIONS).all(|partition| kafka.committed(partition) == Some(10))
    });
    assert_eq!((in_table(&[&sink]).len(), sink.letters().len()), (81, 9));
    running.stop();
}

/// Returns a table's rows of inserts, of which it accepts each token once.
fn in_table(sinks: &[&Arc<FakeSink>]) -> Vec<String> {
    let mut all: Vec<Seen> = sinks.iter().flat_map(|sink| sink.stored()).collect();
    all.sort();
    all.dedup();
    let tokens = all.len();
    all.dedup_by(|one, other| one.token == other.token);
    assert_eq!(all.len(), tokens, "a token stands for different messages");
    let mut messages: Vec<_> = all.into_iter().flat_map(|seen| seen.messages).collect();
    messages.sort();
    messages
}

/// Scenario: effectively once; a process ends while a refused batch is divided, with some of its
/// pieces stored; then the table is fixed, and the next process finds that it accepts everything.
/// Guarantee: no row is stored twice, whichever message was the bad one. Slow: six sources join
/// their mock groups one after the other, which wait for seconds each time.
#[test]
fn a_table_fixed_while_a_batch_is_divided_gets_each_row_once() {
    for bad in [7, 13, 30] {
        let kafka = Kafka::new(1);
        let mut sent = messages("m", 31);
        sent[bad] = format!("{POISON}-a");
        kafka.send(0, sent.clone());
        let options = |drain_seconds| Options {
            delivery: DeliveryMode::EffectivelyOnce,
            max_rows: 31,
            max_age_millis: 5_000,
            drain_seconds,
            ..Options::default()
        };
        let first = FakeSink::new(Mode::Store);
        first.hold_letters(true);
        let running = Running::start(&kafka, &first, options(1));
        eventually("the bad one is found", || first.held_letters() == 1);
        assert!(!first.messages().is_empty(), "its neighbours before it are stored");
        running.drain.begin();
        assert_eq!(running.source.join().len(), 1);
        let next = FakeSink::new(Mode::Store);
        next.mend();
        let running = Running::start(&kafka, &next, options(20));
        eventually("committed", || kafka.committed(0) == Some(31));
        sent.sort();
        assert_eq!(in_table(&[&first, &next]), sent);
        running.stop();
    }
}

/// Scenario: effectively once; a process ends with an unanswered insert, and retention deletes the
/// first of its messages. Guarantee: the next process repeats the insert under its token. Slow: two
/// sources join a mock group one after the other, which waits for seconds each time, and the last
/// batch is 5 s old when it is cut.
#[test]
fn an_insert_keeps_its_token_when_its_first_message_is_deleted() {
    let kafka = Kafka::new(1);
    let filler = "x".repeat(900_000);
    let send = |n: usize| {
        kafka.send(0, [format!("{n:05}{filler}")]);
        // The next one has another time.
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    (0..4).for_each(send);
    let options = |max_age_millis, drain_seconds| Options {
        delivery: DeliveryMode::EffectivelyOnce,
        max_rows: 4,
        max_age_millis,
        drain_seconds,
        ..Options::default()
    };
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, options(5_000, 1));
    eventually("an insert is held", || sink.held().len() == 1);
    let held = sink.held();
    assert_eq!(held[0].messages.len(), 4);
    running.drain.begin();
    assert_eq!(running.source.join().len(), 1);
    // The mock cluster retains 5 MiB of a partition.
    (4..7).for_each(send);
    let next = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &next, options(50, 20));
    eventually("committed", || kafka.committed(0) == Some(7));
    let again = &next.stored()[0];
    assert!(
        again.messages.len() < 4
            && again.messages[..] == held[0].messages[4 - again.messages.len()..]
    );
    assert_eq!(again.token, held[0].token);
    running.stop();
}
