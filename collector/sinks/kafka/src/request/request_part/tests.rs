//! Tests of `request_part.rs`.

use super::{RequestPart, Waiter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery, PublishError};

fn shares(count: usize) -> (Vec<RequestPart>, PendingDelivery, Budget) {
    let budget = Budget::new(100);
    let (sender, delivery) = PendingDelivery::new_pair();
    let waiter = Waiter::Client(sender, Cancellation::default());
    let reservation = budget.try_reserve(10).unwrap();
    let parts =
        RequestPart::new_parts(count, DeliveryReceipt::with_rejected(7), waiter, reservation);
    (parts.collect(), delivery, budget)
}

/// Scenario: a request in three messages. Guarantee: success only when all three are safe.
#[tokio::test]
async fn a_request_succeeds_when_all_its_messages_do() {
    let (parts, delivery, budget) = shares(3);
    assert_eq!(budget.used_bytes(), 10);
    parts.into_iter().for_each(RequestPart::mark_delivered);
    assert_eq!(delivery.await, Ok(DeliveryReceipt::with_rejected(7)));
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: both messages fail; or one of two, or it is lost. Guarantee: the client gets a
/// retryable answer, and if part of its records is stored, that this is unknown.
#[tokio::test]
async fn one_lost_message_fails_the_request() {
    let (mut parts, delivery, _) = shares(2);
    parts.pop().unwrap().mark_failed(PublishError::Full);
    parts.pop().unwrap().mark_failed(PublishError::Draining);
    assert_eq!(delivery.await, Err(PublishError::Full));
    for failed in [true, false] {
        let (mut parts, delivery, _) = shares(2);
        parts.pop().unwrap().mark_delivered();
        if failed {
            parts.pop().unwrap().mark_failed(PublishError::Full);
        }
        drop(parts);
        assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))));
    }
}

/// Scenario: the client of a request is answered at the timeout, and its message is stored later; a
/// request of the disk has the same timeout. Guarantee: the client learns once that its request may
/// be stored, and the request isn't sent again; the disk waits.
#[tokio::test]
async fn a_client_is_answered_at_the_time_out_and_the_disk_is_not() {
    let (mut parts, delivery, budget) = shares(1);
    let late = parts.pop().unwrap();
    assert!(late.expire_client("late") && !late.expire_client("late"));
    assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))));
    assert!(late.is_abandoned() && !late.begin_send());
    assert_eq!(budget.used_bytes(), 10);
    late.mark_delivered();
    assert_eq!(budget.used_bytes(), 0);
    let (sender, delivery) = PendingDelivery::new_pair();
    let reservation = budget.try_reserve(10).unwrap();
    let waiter = Waiter::Disk(sender);
    let mut parts = RequestPart::new_parts(1, DeliveryReceipt::default(), waiter, reservation);
    let of_disk = parts.next().unwrap();
    drop(parts);
    assert!(!of_disk.expire_client("late") && !of_disk.is_abandoned());
    of_disk.mark_delivered();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
}

/// Scenario: one message of a request is refused, the other is abandoned and may be stored, in
/// either order. Guarantee: the client learns that its records may be stored.
#[tokio::test]
async fn what_may_be_stored_is_said_whatever_else_failed() {
    for order in [[0, 1], [1, 0]] {
        let (parts, delivery, _) = shares(2);
        let whys = [PublishError::Full, PublishError::Unconfirmed("given up".to_owned())];
        for (part, why) in parts.into_iter().zip(order.map(|index| whys[index].clone())) {
            part.mark_failed(why);
        }
        assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))));
    }
}
