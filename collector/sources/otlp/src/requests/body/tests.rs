//! Tests of `body.rs`.

use super::{Intake, collect_body};
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::RefusalReason;

fn chunks(lengths: &[usize]) -> impl hyper::body::Body<Data = Bytes> + Unpin {
    let frames: Vec<_> = lengths
        .iter()
        .map(|n| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; *n]))))
        .collect();
    StreamBody::new(futures::stream::iter(frames))
}

/// Scenario: bodies at the limit and one byte past it. Guarantee: the limit is exact, and the
/// complete budget is freed.
#[tokio::test]
async fn the_limit_is_exact_and_the_budget_covers_the_buffer() {
    let budget = Budget::new(1 << 20);
    let intake = Intake::new(budget.clone(), 100_000);
    let body = collect_body(chunks(&[50_000, 30_000, 20_000]), 100_000, &intake).await.unwrap();
    assert_eq!(body.bytes.len(), 100_000);
    assert!(body.memory.reservation.bytes() >= body.bytes.capacity() as u64);
    drop(body);
    let over = collect_body(chunks(&[50_000, 50_001]), 100_000, &intake).await.unwrap_err();
    assert_eq!(over.reason, RefusalReason::TooLarge);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a budget smaller than the body. Guarantee: the body is refused with a delay, and
/// nothing stays reserved.
#[tokio::test]
async fn a_body_that_the_budget_cannot_hold_is_refused_with_a_delay() {
    let budget = Budget::new(40_000);
    let intake = Intake::new(budget.clone(), 100_000);
    let denied = collect_body(chunks(&[30_000, 30_000]), 100_000, &intake).await.unwrap_err();
    assert_eq!(denied.reason, RefusalReason::Full);
    assert!(denied.retry_after().is_some());
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: bodies arrive faster than workers accept them; one is accepted and its content moves
/// on. Guarantee: unread bodies have a quarter of the budget, at least the longest request, and get
/// memory again when memory is freed, not when a request is answered.
#[tokio::test]
async fn bodies_that_nobody_has_read_take_a_share_of_the_budget() {
    let budget = Budget::new(400_000);
    let intake = Intake::new(budget.clone(), 70_000);
    let first = collect_body(chunks(&[60_000]), 70_000, &intake).await.unwrap();
    let denied = collect_body(chunks(&[60_000]), 70_000, &intake).await.unwrap_err();
    assert_eq!(denied.reason, RefusalReason::Full);
    assert!(denied.retry_after().is_some());
    let goes_on = first.memory.reservation;
    drop((first.bytes, first.memory.unread));
    let second = collect_body(chunks(&[60_000]), 70_000, &intake).await.unwrap();
    assert_eq!(budget.used_bytes(), goes_on.bytes() + second.memory.reservation.bytes());
    budget.set_limit(200_000);
    drop(second);
    let longest = collect_body(chunks(&[70_000]), 70_000, &intake).await.unwrap();
    assert_eq!(longest.bytes.len(), 70_000);
    drop((goes_on, longest));
    assert_eq!(budget.used_bytes(), 0);
}
