//! Tests of where messages go, with simulated time.

use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::{Cancellation, Canceller};
use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery};

use super::{
    COOL_DOWN, MAX_SILENT_IN_FLIGHT, MIN_SLOTS_PER_PARTITION, Partitions, SLOTS_PER_TOPIC,
    STALL_TIME,
};
use crate::produce::message::{Envelope, Message};
use crate::request::request_part::{RequestPart, Waiter};

const TIME_OUT: Duration = Duration::from_secs(25);

fn new_partitions(count: usize) -> Partitions {
    let mut topic = Partitions::new(Some(TIME_OUT));
    topic.set_leaders(&vec![true; count]);
    topic
}

fn envelope(closed_at: Instant) -> Envelope {
    let reservation = Budget::new(1).try_reserve(1).unwrap();
    let (sender, delivery) = PendingDelivery::new_pair();
    // Its client waits to the end.
    std::mem::forget(delivery);
    let waiter = Waiter::Client(sender, Cancellation::default());
    let parts = RequestPart::new_parts(1, DeliveryReceipt::default(), waiter, reservation);
    let parts = parts.map(|part| part.with_size(1, 1)).collect();
    Envelope { records: 1, parts, closed_at }
}

fn message(partition: Option<usize>, closed_at: Instant) -> Message {
    Message { payload: vec![1], envelope: envelope(closed_at), partition }
}

/// Sends one message at once; returns its partition and number.
fn send(topic: &mut Partitions, partition: Option<usize>, now: Instant) -> Option<(usize, u64)> {
    let chosen = topic.assign_partition(partition, now)?;
    Some((chosen, topic.begin_send(chosen, envelope(now), now)))
}

/// Scenario: topics of several sizes without answers. Guarantee: messages go to all partitions
/// round robin, no more of them than the topic has slots, and none has more than its own.
#[test]
fn partitions_share_the_slots_of_their_topic() {
    for partitions in [1, 2, 3, 8, 24] {
        let mut topic = new_partitions(partitions);
        let now = Instant::now();
        let mut sent = vec![0; partitions];
        while let Some((partition, _)) = send(&mut topic, None, now) {
            sent[partition] += 1;
        }
        let own = (SLOTS_PER_TOPIC / partitions).max(MIN_SLOTS_PER_PARTITION);
        assert!(sent.iter().all(|sent| *sent <= own), "{sent:?}");
        assert_eq!(sent.iter().sum::<usize>(), SLOTS_PER_TOPIC.min(own * partitions), "{sent:?}");
        assert_eq!(send(&mut topic, None, now), None, "all slots are taken");
    }
}

/// Scenario: one of 12 partitions answers nothing, the others at once, for a minute. Guarantee: it
/// never has more than its own slots, every other message is sent at once, no healthy partition
/// counts as stalled, and its first answer makes it accept messages again.
#[test]
fn a_partition_that_answers_nothing_is_passed_over() {
    let mut topic = new_partitions(12);
    let start = Instant::now();
    let mut stuck = Vec::new();
    for step in 0..6_000 {
        let now = start + Duration::from_millis(step * 10);
        let (partition, number) = send(&mut topic, None, now).expect("a slot");
        if partition == 7 {
            stuck.push(number);
        } else {
            topic.end_send(partition, number, Some(now)).unwrap();
        }
    }
    let end = start + Duration::from_secs(60);
    assert_eq!(stuck.len(), MIN_SLOTS_PER_PARTITION);
    assert_eq!(topic.stalled_partitions(end), [7]);
    assert!(topic.is_healthy(end));
    for number in stuck {
        topic.end_send(7, number, Some(end)).unwrap();
    }
    assert_eq!(topic.stalled_partitions(end), Vec::<usize>::new());
    assert_eq!(send(&mut topic, Some(7), end).unwrap().0, 7);
}

/// Scenario: messages that belong to a partition which loses its leader, some waiting there.
/// Guarantee: all of them go to the same other partition, and return when it has a leader.
#[test]
fn the_traces_of_a_leaderless_partition_stay_together() {
    let mut topic = new_partitions(3);
    let now = Instant::now();
    while send(&mut topic, Some(1), now).is_some() {}
    topic.queue_message(message(Some(1), now), now);
    topic.set_leaders(&[true, false, true]);
    assert_eq!(topic.next_message(now).map(|(partition, _)| partition), None);
    topic.redirect_waiting(now);
    assert_eq!(topic.next_message(now).map(|(partition, _)| partition), Some(2));
    assert_eq!(send(&mut topic, Some(1), now).map(|(partition, _)| partition), Some(2));
    assert_eq!(send(&mut topic, Some(0), now).map(|(partition, _)| partition), Some(0));
    topic.set_leaders(&[false; 3]);
    assert!(!topic.is_accepting(now) && topic.is_leaderless());
    topic.queue_message(message(Some(1), now), now);
    topic.set_leaders(&[true; 3]);
    assert!(topic.is_accepting(now));
}

/// Scenario: Kafka refuses a topic. Guarantee: nothing is sent for a while, then one message for
/// each partition; the first that is stored opens its partition.
#[test]
fn a_refused_topic_is_tried_with_one_message() {
    let mut topic = new_partitions(2);
    let now = Instant::now();
    topic.suspend_partitions(None, now);
    assert!(!topic.is_accepting(now) && send(&mut topic, None, now).is_none());
    let later = now + COOL_DOWN;
    assert!(topic.is_accepting(later) && !topic.is_healthy(later));
    let tried = [send(&mut topic, None, later).unwrap(), send(&mut topic, None, later).unwrap()];
    assert_eq!(send(&mut topic, None, later), None);
    assert!(!topic.is_accepting(later), "both are being tried");
    let (partition, number) = tried[0];
    topic.end_send(partition, number, Some(later)).unwrap();
    assert!(topic.is_healthy(later));
    assert_eq!(send(&mut topic, None, later).unwrap().0, partition);
}

/// Scenario: a message without an answer past the timeout, another partition healthy, and messages
/// that wait. Guarantee: its clients are answered once; only messages that were never sent are
/// returned; what the library still has counts neither as healthy nor as a reason to wait at the
/// end.
#[test]
fn a_time_out_concerns_only_what_is_late() {
    let mut topic = new_partitions(2);
    let start = Instant::now();
    send(&mut topic, Some(0), start).unwrap();
    assert_eq!(topic.healthy_in_flight(start), 1);
    let late = start + TIME_OUT;
    send(&mut topic, Some(1), late).unwrap();
    topic.queue_message(message(None, start), late);
    topic.queue_message(message(None, late), late);
    assert_eq!(topic.expire_waiting(late, TIME_OUT).len(), 1);
    assert_eq!(topic.expire_in_flight(late, TIME_OUT, "late"), (1, true));
    assert_eq!(topic.expire_in_flight(late, TIME_OUT, "late"), (0, true));
    assert_eq!(topic.healthy_in_flight(late), 1);
    assert_eq!(topic.healthy_in_flight(late + STALL_TIME), 0);
    assert!(!topic.is_idle());
    let (partition, _) = topic.next_message(late).unwrap();
    assert_eq!(partition, 1);
    topic.end_send(1, 1, Some(late)).unwrap();
    assert!(topic.is_idle(), "the late one's clients have their answer");
}

/// Scenario: a topic of 1,000 partitions stores nothing, with a message to send at each moment;
/// after 25 s its messages are withdrawn, a minute later one is stored. Guarantee: the topic is
/// unhealthy within 10 s and until then, at most two topics' slots of messages are with the
/// library, before and after the withdrawal, and one that is stored opens all partitions. Slow:
/// 17,000 times one of 1,000 partitions is chosen.
#[test]
fn a_large_topic_that_stores_nothing_is_noticed() {
    for is_withdrawn in [false, true] {
        let mut topic = new_partitions(1_000);
        let start = Instant::now();
        let mut sent = Vec::new();
        let mut now = start;
        for step in 0..8_500 {
            now = start + Duration::from_millis(step * 10);
            sent.extend(send(&mut topic, None, now));
            if is_withdrawn && step == 2_500 {
                for (partition, number) in sent.drain(..) {
                    topic.suspend_partitions(Some(partition), now);
                    topic.end_send(partition, number, None).unwrap();
                }
            }
            assert!(sent.len() <= MAX_SILENT_IN_FLIGHT, "{} at step {step}", sent.len());
            let is_noticed = now >= start + 2 * STALL_TIME;
            assert!(!is_noticed || !topic.is_healthy(now), "step {step}");
        }
        assert!(sent.len() > SLOTS_PER_TOPIC, "other partitions are tried: {}", sent.len());
        let (partition, number) = sent[0];
        topic.end_send(partition, number, Some(now)).unwrap();
        assert!(topic.is_healthy(now) && topic.is_accepting(now));
        assert!(send(&mut topic, None, now).is_some());
    }
}

/// Scenario: 10 of 1,000 partitions answer nothing, the others at once. Guarantee: the topic stays
/// healthy, and only those 10 are stalled.
#[test]
fn partitions_that_store_nothing_do_not_stop_a_topic_that_stores() {
    let mut topic = new_partitions(1_000);
    let start = Instant::now();
    for step in 0..3_000 {
        let now = start + Duration::from_millis(step * 10);
        let (partition, number) = send(&mut topic, None, now).expect("a slot");
        if partition % 100 != 7 {
            topic.end_send(partition, number, Some(now)).unwrap();
        }
        assert!(topic.is_healthy(now), "step {step}");
    }
    let stalled = topic.stalled_partitions(start + Duration::from_secs(30));
    assert_eq!(stalled, (0..10).map(|index| index * 100 + 7).collect::<Vec<_>>());
}

/// Scenario: clients of messages that wait and of one that the library has are answered before the
/// timeout; one of them shares its message with a client that waits. Guarantee: their requests are
/// removed from the waiting messages, with their bytes; the library retains its message until the
/// timeout, and a flush doesn't wait for it.
#[test]
fn requests_whose_clients_are_gone_are_removed() {
    let mut topic = new_partitions(1);
    let now = Instant::now();
    let part = |bytes: usize| {
        let canceller = Canceller::new(now);
        let (sender, delivery) = PendingDelivery::new_pair();
        std::mem::forget(delivery);
        let waiter = Waiter::Client(sender, canceller.cancellation());
        let reservation = Budget::new(1).try_reserve(1).unwrap();
        let mut parts = RequestPart::new_parts(1, DeliveryReceipt::default(), waiter, reservation);
        (canceller, parts.next().unwrap().with_size(bytes, 1))
    };
    let envelope =
        |parts: Vec<RequestPart>| Envelope { records: parts.len() as u64, parts, closed_at: now };
    let (sent, part_sent) = part(1);
    let chosen = topic.assign_partition(None, now).unwrap();
    let number = topic.begin_send(chosen, envelope(vec![part_sent]), now);
    let ((gone, first), (stays, second), (alone, third)) = (part(2), part(1), part(1));
    for (payload, parts) in [(vec![1, 1, 2], vec![first, second]), (vec![3], vec![third])] {
        topic.queue_message(Message { payload, envelope: envelope(parts), partition: None }, now);
    }
    assert!(topic.remove_abandoned().is_empty());
    for canceller in [&gone, &alone, &sent] {
        canceller.cancel();
    }
    assert_eq!(topic.remove_abandoned().len(), 2);
    assert_eq!(topic.expire_in_flight(now, TIME_OUT, ""), (0, false), "before the time-out");
    let (chosen, message) = topic.next_message(now).unwrap();
    assert_eq!((message.payload.as_slice(), message.envelope.records), (&[2][..], 1));
    assert!(topic.next_message(now).is_none());
    topic.begin_send(chosen, message.envelope, now);
    assert!(!topic.is_idle());
    assert!(topic.end_send(0, number, None).is_some());
    stays.cancel();
    assert!(topic.is_idle());
}
