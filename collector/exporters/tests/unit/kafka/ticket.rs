//! Tests of what `kafka/ticket.rs` keeps to itself.

use super::Ticket;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::{Delivered, Delivery, Refused};

fn shares(count: usize) -> (Vec<Ticket>, Delivery, Budget) {
    let budget = Budget::new(100);
    let (sender, delivery) = Delivery::pair();
    let reservation = budget.try_reserve(10).unwrap();
    let result = Delivered { rejected_records: 7 };
    let shares = Ticket::shares(count, result, Some(sender), reservation).collect();
    (shares, delivery, budget)
}

/// Scenario: a request in three messages. Guarantee: success only when all three are safe.
#[tokio::test]
async fn a_request_succeeds_when_all_its_messages_do() {
    let (tickets, delivery, budget) = shares(3);
    assert_eq!(budget.used_bytes(), 10);
    tickets.into_iter().for_each(Ticket::delivered);
    assert_eq!(delivery.await, Ok(Delivered { rejected_records: 7 }));
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: both messages fail; or one of two, or it is lost. Guarantee: the client is told to
/// send again, and where part of its records is stored, that this isn't known.
#[tokio::test]
async fn one_lost_message_fails_the_request() {
    let (mut tickets, delivery, _) = shares(2);
    tickets.pop().unwrap().failed(Refused::Full);
    tickets.pop().unwrap().failed(Refused::Draining);
    assert_eq!(delivery.await, Err(Refused::Full));
    for failed in [true, false] {
        let (mut tickets, delivery, _) = shares(2);
        tickets.pop().unwrap().delivered();
        if failed {
            tickets.pop().unwrap().failed(Refused::Full);
        }
        drop(tickets);
        assert!(matches!(delivery.await, Err(Refused::Unconfirmed(_))));
    }
}
