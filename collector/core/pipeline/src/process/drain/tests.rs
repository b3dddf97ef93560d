//! Tests of the private code of `drain.rs`.

use super::Drain;
use std::time::{Duration, Instant};

/// Scenario: the drain is begun twice. Guarantee: the first deadline remains.
#[test]
fn the_first_signal_sets_the_one_deadline() {
    let drain = Drain::new(Duration::from_secs(60));
    assert!(!drain.is_begun());
    assert_eq!(drain.remaining(), Duration::from_secs(60));
    drain.begin();
    let deadline = drain.deadline();
    drain.clone().begin();
    assert_eq!(drain.deadline(), deadline);
    assert!(drain.is_begun());
}

/// Scenario: the drain begins with a caller's deadline, then again with another. Guarantee: the
/// first deadline remains, whatever time the drain was created with.
#[test]
fn a_deadline_that_is_given_with_the_signal_stands() {
    let drain = Drain::new(Duration::from_secs(60));
    let deadline = Instant::now() + Duration::from_secs(7);
    drain.begin_by(deadline);
    drain.begin_by(deadline + Duration::from_secs(1));
    drain.begin();
    assert!(drain.is_begun());
    assert_eq!(drain.deadline(), Some(deadline));
}

/// Scenario: the drain is announced, and begins later. Guarantee: no part stops at the
/// announcement, and the deadline counts from it.
#[tokio::test]
async fn an_announced_end_has_not_begun_but_its_deadline_stands() {
    let drain = Drain::new(Duration::from_secs(60));
    assert!(!drain.is_announced());
    drain.announce();
    let deadline = drain.deadline();
    assert!(drain.is_announced() && !drain.is_begun() && deadline.is_some());
    let begun = tokio::time::timeout(Duration::from_millis(20), drain.wait_for_begin()).await;
    assert!(begun.is_err(), "it only begins with the signal");
    drain.begin();
    drain.wait_for_begin().await;
    assert_eq!(drain.deadline(), deadline);
    assert!(drain.is_begun());
}

/// Scenario: a task waits, a thread begins the drain. Guarantee: the task wakes at once, also if it
/// begins to wait only afterwards.
#[tokio::test]
async fn tasks_see_a_signal_given_by_a_thread() {
    let drain = Drain::new(Duration::ZERO);
    let giver = drain.clone();
    let waiter = drain.clone();
    let waiting = tokio::spawn(async move { waiter.wait_for_begin().await });
    std::thread::spawn(move || giver.begin()).join().unwrap();
    waiting.await.unwrap();
    drain.wait_for_begin().await;
    drain.wait_for_deadline().await;
}
