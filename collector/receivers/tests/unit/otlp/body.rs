//! Tests of what `otlp/body.rs` keeps to itself.

use super::{Denied, Intake, collect};
use crate::otlp::denied::Kind;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use millrace_pipeline::budget::Budget;

fn chunks(lengths: &[usize]) -> impl hyper::body::Body<Data = Bytes> + Unpin {
    let frames: Vec<_> = lengths
        .iter()
        .map(|n| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; *n]))))
        .collect();
    StreamBody::new(futures::stream::iter(frames))
}

/// Scenario: bodies at the limit and one byte past it. Guarantee: exact, and all budget
/// returns.
#[tokio::test]
async fn the_limit_is_exact_and_the_budget_covers_the_buffer() {
    let budget = Budget::new(1 << 20);
    let intake = Intake::new(budget.clone(), 100_000);
    let body = collect(chunks(&[50_000, 30_000, 20_000]), 100_000, &intake).await.unwrap();
    assert_eq!(body.bytes.len(), 100_000);
    assert!(body.room.reservation.bytes() >= body.bytes.capacity() as u64);
    drop(body);
    let over = collect(chunks(&[50_000, 50_001]), 100_000, &intake).await.unwrap_err();
    assert_eq!(over.kind, Kind::TooLarge);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a budget smaller than the body. Guarantee: refused with a delay, nothing kept.
#[tokio::test]
async fn a_body_that_the_budget_cannot_hold_is_refused_with_a_delay() {
    let budget = Budget::new(40_000);
    let intake = Intake::new(budget.clone(), 100_000);
    let Denied { kind, .. } =
        collect(chunks(&[30_000, 30_000]), 100_000, &intake).await.unwrap_err();
    assert!(matches!(kind, Kind::Full(_)));
    assert_eq!(budget.used_bytes(), 0);
}
/// Scenario: bodies come faster than workers take them over; one is taken over, and what it
/// said goes on. Guarantee: they have a quarter of the budget, at least the longest request,
/// and find room again when memory was given back, not when a request was answered.
#[tokio::test]
async fn bodies_that_nobody_has_read_take_a_share_of_the_budget() {
    let budget = Budget::new(400_000);
    let intake = Intake::new(budget.clone(), 70_000);
    let first = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap();
    let Denied { kind, .. } = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap_err();
    assert!(matches!(kind, Kind::Full(_)));
    let goes_on = first.room.reservation;
    drop((first.bytes, first.room.unread));
    let second = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap();
    assert_eq!(budget.used_bytes(), goes_on.bytes() + second.room.reservation.bytes());
    budget.set_limit(200_000);
    drop(second);
    let longest = collect(chunks(&[70_000]), 70_000, &intake).await.unwrap();
    assert_eq!(longest.bytes.len(), 70_000);
    drop((goes_on, longest));
    assert_eq!(budget.used_bytes(), 0);
}
