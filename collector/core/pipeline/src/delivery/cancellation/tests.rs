//! Tests of `cancellation.rs`.

use std::sync::Barrier;
use std::time::Instant;

use super::{CancelOutcome, Cancellation, Canceller};

/// Scenario: a request is cancelled before it is sent, after that, and by dropping its receiver's
/// end. Guarantee: a request that was cancelled first is never sent, and one that was sent first is
/// never reported as unsent.
#[test]
fn a_request_is_either_withdrawn_or_sent() {
    let canceller = Canceller::new(Instant::now());
    let cancellation = canceller.cancellation();
    assert!(!cancellation.is_cancelled());
    assert_eq!(canceller.cancel(), CancelOutcome::Unsent);
    assert!(cancellation.is_cancelled() && !cancellation.begin_send());

    let canceller = Canceller::new(Instant::now());
    let cancellation = canceller.cancellation();
    assert!(cancellation.begin_send() && cancellation.begin_send());
    assert_eq!(canceller.cancel(), CancelOutcome::MayBeStored);
    assert!(!cancellation.begin_send(), "a further part of it is not sent");

    let canceller = Canceller::new(Instant::now());
    let cancellation = canceller.cancellation();
    drop(canceller);
    assert!(cancellation.is_cancelled());
    assert!(Cancellation::default().begin_send(), "a request without a client");
}

/// Scenario: one thread cancels while another sends, many times. Guarantee: they agree.
#[test]
fn both_ends_agree_on_which_came_first() {
    for _ in 0..500 {
        let canceller = Canceller::new(Instant::now());
        let cancellation = canceller.cancellation();
        let start = Barrier::new(2);
        let (cancelled, was_sent) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                start.wait();
                cancellation.begin_send()
            });
            start.wait();
            (canceller.cancel(), sender.join().unwrap())
        });
        assert_eq!(cancelled == CancelOutcome::MayBeStored, was_sent);
    }
}
