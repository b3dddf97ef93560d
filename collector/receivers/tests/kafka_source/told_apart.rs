//! Refused batches whose messages are deleted, or whose table is mended, before they are told
//! apart.

use std::sync::Arc;

use millrace_receivers::kafka::Delivery;
use millrace_wire::Signal;

use super::fake_sink::{FakeSink, Mode, POISON, Seen};
use super::{Kafka, LOGS, Options, Running, eventually, messages};

const LOST: &str = "millrace_records_lost_to_retention_total{topic=\"otlp_traces\"}";

/// Scenario: a batch waits for its answer while retention deletes its messages; then it is refused
/// for one of its rows. Guarantee: its messages are counted as lost, and what is behind them is
/// stored.
#[test]
fn messages_deleted_before_they_are_told_apart_are_lost_and_counted() {
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
    // The mock cluster keeps 5 MiB of a partition.
    let filler = "x".repeat(900_000);
    (0..8).for_each(|n| kafka.send(0, [format!("f{n:05}{filler}")]));
    sink.set(Mode::Store);
    eventually("committed", || kafka.committed(0) == Some(18));
    eventually("counted", || running.metric(LOST) == lost as f64);
    assert_eq!(sink.messages().len(), 18 - lost);
    running.stop();
}

/// Scenario: an insert is refused for one of its rows after the budget has shrunk below what is in
/// use. Guarantee: its rows are told apart all the same, in memory of their own.
#[test]
fn rows_are_told_apart_while_the_budget_is_overdrawn() {
    let kafka = Kafka::new(1);
    let mut sent = messages("m", 10);
    sent[4] = format!("{POISON}-a");
    kafka.send(0, sent);
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, Options::default());
    let held = || sink.held().iter().map(|seen| seen.messages.len()).sum::<usize>();
    eventually("all in inserts", || held() == 10);
    running.budget.set_limit(1);
    assert!(running.budget.used_bytes() > 1);
    sink.set(Mode::Store);
    eventually("committed", || kafka.committed(0) == Some(10));
    assert_eq!((sink.messages().len(), sink.letters().len()), (9, 1));
    running.stop();
}

/// Scenario: inserts of spans on eight partitions are refused for a row each; while some of them
/// are being told apart their table stops taking anything. Then an insert of logs is refused for a
/// row.
/// Guarantee: the logs are told apart and committed meanwhile; the spans are once their table is
/// open.
#[test]
fn a_blocked_table_keeps_no_other_one_from_being_told_apart() {
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
    // As many as are told apart at once.
    eventually("pieces are held", || sink.held().len() == 4);
    sink.block(Some(Signal::Traces));
    sink.set(Mode::Store);
    kafka.send_to(LOGS, 0, poisoned("l"));
    eventually("logs are committed", || kafka.committed_in(LOGS, 0) == Some(10));
    assert_eq!(sink.letters().len(), 1);
    assert_eq!(sink.held().len(), 4, "spans still wait");
    sink.block(None);
    eventually("spans are committed", || {
        (0..PARTITIONS).all(|partition| kafka.committed(partition) == Some(10))
    });
    assert_eq!((sink.messages().len(), sink.letters().len()), (81, 9));
    running.stop();
}

/// What a table has of inserts, of which it takes each token once.
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

/// Scenario: effectively once; a process ends while it tells a refused batch apart, with some of
/// its pieces stored; then the table is mended, and the next process finds that it takes
/// everything. Guarantee: no row is stored twice, whichever message was the bad one.
#[test]
fn a_table_mended_while_rows_are_told_apart_gets_each_row_once() {
    for bad in [7, 13, 30] {
        let kafka = Kafka::new(1);
        let mut sent = messages("m", 31);
        sent[bad] = format!("{POISON}-a");
        kafka.send(0, sent.clone());
        let options = |drain_seconds| Options {
            delivery: Delivery::EffectivelyOnce,
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

/// Scenario: effectively once; a process ends with an insert that nobody answered, and retention
/// deletes the first of its messages. Guarantee: the next process repeats the insert under its
/// token.
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
    let options = |drain_seconds| Options {
        delivery: Delivery::EffectivelyOnce,
        max_rows: 4,
        max_age_millis: 5_000,
        drain_seconds,
        ..Options::default()
    };
    let sink = FakeSink::new(Mode::Hold);
    let running = Running::start(&kafka, &sink, options(1));
    eventually("an insert is held", || sink.held().len() == 1);
    let held = sink.held();
    assert_eq!(held[0].messages.len(), 4);
    running.drain.begin();
    assert_eq!(running.source.join().len(), 1);
    // The mock cluster keeps 5 MiB of a partition.
    (4..7).for_each(send);
    let next = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &next, options(20));
    eventually("committed", || kafka.committed(0) == Some(7));
    let again = &next.stored()[0];
    assert!(
        again.messages.len() < 4
            && again.messages[..] == held[0].messages[4 - again.messages.len()..]
    );
    assert_eq!(again.token, held[0].token);
    running.stop();
}
