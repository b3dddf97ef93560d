//! Partitions and signals whose records wait stop only themselves.

use super::*;

/// Scenario: partition 0 begins with a message whose dead letter isn't answered, and has 200 more,
/// each a batch; partition 1 has messages. Guarantee: partition 1 is stored and committed in the
/// meantime; partition 0 is read as far as its ledger has ranges, and to its end once the dead
/// letter is answered, each message once.
#[test]
fn a_partition_with_all_its_ranges_open_stops_no_other() {
    let kafka = Kafka::new(2);
    let sink = FakeSink::new(Mode::Store);
    sink.hold_letters(true);
    kafka.send(0, [BROKEN.to_owned()]);
    kafka.send(0, messages("a", 200));
    let options = Options { max_rows: 1, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("all ranges are open", || sink.messages().len() >= 63);
    kafka.send(1, messages("m", 20));
    eventually("the other partition is committed", || kafka.committed(1) == Some(20));
    assert_eq!(kafka.committed(0).unwrap_or(0), 0);
    assert!(sink.messages().len() < 100, "the first partition waits");
    sink.hold_letters(false);
    eventually("all is committed", || kafka.committed(0) == Some(201));
    assert_eq!(sink.messages(), [messages("a", 200), messages("m", 20)].concat());
    running.stop();
}

/// Scenario: all but one of the ledger's ranges are open, a batch is being filled, and a message
/// arrives that is a separate batch. Guarantee: it is read once there is a range for it; nothing is
/// read again or stored twice.
#[test]
fn a_message_for_which_no_range_is_left_waits() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    sink.hold_letters(true);
    kafka.send(0, [BROKEN.to_owned()]);
    // 63 ranges, the first with the dead letter, and the beginning of one more.
    let short = messages("a", 63 * 2 + 1);
    kafka.send(0, short.clone());
    let long = "b".repeat(2_200_000);
    kafka.send(0, [long.clone()]);
    let options = Options { max_rows: 2, max_age_millis: 60_000, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("all ranges are open", || sink.messages().len() == short.len());
    sink.hold_letters(false);
    eventually("all is committed", || kafka.committed(0) == Some(short.len() as i64 + 2));
    assert_eq!(sink.messages(), [short, vec![long]].concat());
    running.stop();
}

/// Scenario: no dead letter of logs is answered, and 2,000 log messages are broken; traces have
/// good and broken ones. Guarantee: in the meantime traces are stored, their dead letters sent and
/// all of it committed; once the dead letters are answered, logs are committed too.
#[test]
fn a_signal_whose_letters_are_not_answered_stops_no_other() {
    const BROKEN_LOGS: i64 = 2_000;
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    sink.hold_letters_of(&[Signal::Logs]);
    kafka.send_to(LOGS, 0, (0..BROKEN_LOGS).map(|_| BROKEN.to_owned()));
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("letters wait", || sink.held_letters() >= 256);
    kafka.send(0, messages("m", 50));
    kafka.send(0, [BROKEN.to_owned()]);
    kafka.send(0, messages("n", 50));
    eventually("traces are committed", || kafka.committed(0) == Some(101));
    assert_eq!(sink.letters().len(), 1);
    assert_eq!(kafka.committed_in(LOGS, 0).unwrap_or(0), 0);
    sink.hold_letters(false);
    eventually("logs are committed", || kafka.committed_in(LOGS, 0) == Some(BROKEN_LOGS));
    assert_eq!(sink.letters().len() as i64, BROKEN_LOGS + 1);
    running.stop();
}
