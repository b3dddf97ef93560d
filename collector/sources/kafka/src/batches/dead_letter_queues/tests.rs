//! Tests of `letters.rs`.

use std::num::NonZeroU32;

use millrace_ledger::{Intent, Ledger, OffsetRange, Promises};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::sink::Rejection;

use super::*;

fn letter(signal: Signal, partition: i32, bytes: usize) -> PendingDeadLetter {
    let key = PartitionKey { topic: signal.index() as u16, partition };
    let mut ledger = Ledger::new();
    ledger.assign(key, Some(0), Promises::default());
    let intent = Intent::new(OffsetRange::new(0, 1).unwrap(), 0);
    let ticket = ledger.track_batch(key, intent, NonZeroU32::new(1)).unwrap();
    let letter = DeadLetter {
        signal,
        topic: signal.as_str().into(),
        partition,
        offset: 0,
        timestamp_millis: None,
        key: None,
        headers: Vec::new(),
        payload: vec![0; bytes],
        rejection: Rejection { reason: "malformed", detail: String::new() },
    };
    let id = DeadLetterId { offset: 0, is_refused: false };
    PendingDeadLetter {
        ticket,
        id,
        dead_letter: Box::new(letter),
        cover: Budget::new(0).empty_reservation(),
    }
}

/// Scenario: traces have endless dead letters and none is answered; logs have two. Guarantee:
/// traces' dead letters, in flight and waiting, are bounded and stop only the partitions of traces;
/// logs' dead letters are sent.
#[test]
fn a_signal_whose_letters_are_not_taken_stops_no_other() {
    let mut letters = DeadLetterQueues::new(1 << 20);
    while !letters.is_full(Signal::Traces) {
        letters.push(letter(Signal::Traces, 0, 10));
        letters.pop(Signal::Traces, |_| true);
    }
    assert_eq!(letters.waiting().count(), MAX_DEAD_LETTERS - MAX_IN_FLIGHT);
    assert!(letters.pop(Signal::Traces, |_| true).is_none());
    letters.push(letter(Signal::Logs, 0, 10));
    letters.push(letter(Signal::Logs, 0, 10));
    assert!(!letters.is_full(Signal::Logs));
    assert!(
        letters.pop(Signal::Logs, |_| true).is_some()
            && letters.pop(Signal::Logs, |_| true).is_some()
    );
    letters.record_answered(Signal::Traces, 10);
    assert!(!letters.is_full(Signal::Traces));
    assert!(letters.pop(Signal::Traces, |_| true).is_some());
}

/// Scenario: one dead letter longer than a signal's share of the budget, then short ones; its
/// partition leaves. Guarantee: the long one is sent and stops its signal until it is answered, and
/// the dead letters of a partition that left don't count any more.
#[test]
fn letters_stop_their_signal_by_their_bytes_too() {
    let mut letters = DeadLetterQueues::new(1_000);
    assert!(!letters.is_full(Signal::Logs), "one letter always fits");
    letters.push(letter(Signal::Logs, 0, 5_000));
    assert!(letters.is_full(Signal::Logs));
    let sent = letters.pop(Signal::Logs, |_| true).unwrap();
    letters.return_front(sent);
    letters.pop(Signal::Logs, |_| true).unwrap();
    letters.record_answered(Signal::Logs, 5_000);
    assert!(!letters.is_full(Signal::Logs));
    letters.push(letter(Signal::Logs, 0, 800));
    letters.push(letter(Signal::Logs, 1, 800));
    assert!(letters.is_full(Signal::Logs));
    let key = PartitionKey { topic: Signal::Logs.index() as u16, partition: 1 };
    assert_eq!(letters.drop_from(key, 0, Signal::Logs), 1);
    assert!(!letters.is_full(Signal::Logs));
    assert_eq!(letters.waiting().count(), 1);
}

/// Scenario: of two partitions with a dead letter the first waits. Guarantee: the second one's is
/// sent, and then none.
#[test]
fn a_partition_that_waits_delays_no_letter_of_another() {
    let mut letters = DeadLetterQueues::new(1 << 20);
    letters.push(letter(Signal::Logs, 0, 10));
    letters.push(letter(Signal::Logs, 1, 10));
    let second = |ticket: &Ticket<PartitionKey>| ticket.key.partition == 1;
    assert_eq!(letters.pop(Signal::Logs, second).unwrap().ticket.key.partition, 1);
    assert!(letters.pop(Signal::Logs, second).is_none());
    assert_eq!(letters.waiting().count(), 1);
}
