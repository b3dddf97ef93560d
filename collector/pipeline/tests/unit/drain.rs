//! Tests of what `drain.rs` keeps to itself.

use super::Drain;
use std::time::{Duration, Instant};

/// Scenario: the signal is given twice. Guarantee: the first deadline stands.
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

/// Scenario: the signal is given with a deadline of the giver's, then again with another.
/// Guarantee: the first deadline stands, whatever the signal was made with.
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

/// Scenario: the end is announced, and begins later. Guarantee: nobody stops at the
/// announcement, and the deadline counts from it.
#[tokio::test]
async fn an_announced_end_has_not_begun_but_its_deadline_stands() {
    let drain = Drain::new(Duration::from_secs(60));
    assert!(!drain.is_announced());
    drain.announce();
    let deadline = drain.deadline();
    assert!(drain.is_announced() && !drain.is_begun() && deadline.is_some());
    let begun = tokio::time::timeout(Duration::from_millis(20), drain.begun()).await;
    assert!(begun.is_err(), "it only begins with the signal");
    drain.begin();
    drain.begun().await;
    assert_eq!(drain.deadline(), deadline);
    assert!(drain.is_begun());
}

/// Scenario: a task waits, a thread gives the signal. Guarantee: the task wakes, at once and
/// also when it begins to wait only afterwards.
#[tokio::test]
async fn tasks_see_a_signal_given_by_a_thread() {
    let drain = Drain::new(Duration::ZERO);
    let giver = drain.clone();
    let waiter = drain.clone();
    let waiting = tokio::spawn(async move { waiter.begun().await });
    std::thread::spawn(move || giver.begin()).join().unwrap();
    waiting.await.unwrap();
    drain.begun().await;
    drain.expired().await;
}
