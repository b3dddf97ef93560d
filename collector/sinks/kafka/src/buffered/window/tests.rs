//! Tests of what may be sent and acknowledged, with simulated time.

use std::time::Instant;

use millrace_pipeline::publish::{DeliveryReceipt, DeliverySender, PendingDelivery, PublishError};

use super::{AckWindow, LONG_WAIT, MAX_ARRIVED, WINDOW, WINDOW_BYTES};

/// Sends a request of `bytes` bytes, and returns the sender of its answer.
fn send(window: &mut AckWindow, number: u64, bytes: usize, now: Instant) -> DeliverySender {
    let (answer, delivery) = PendingDelivery::new_pair();
    window.push(number, 1, bytes, delivery, now);
    answer
}

fn arrive(window: &mut AckWindow, answer: DeliverySender) {
    answer.finish_with(Ok(DeliveryReceipt::default()));
    assert!(window.poll().is_empty());
}

/// Scenario: the first request gets no answer, all behind it do, each of a window's bytes.
/// Guarantee: far more than a window of them is sent, as many as their numbers may be retained;
/// none is acknowledged before the first, and all are with it.
#[test]
fn a_request_that_waits_holds_up_no_other() {
    let (mut window, now) = (AckWindow::default(), Instant::now());
    let front = send(&mut window, 0, 1, now);
    let mut number = 0;
    while window.has_capacity() {
        number += 1;
        let answer = send(&mut window, number, WINDOW_BYTES, now);
        arrive(&mut window, answer);
        assert_eq!(window.take_done(), None, "{number}");
    }
    assert_eq!(number, MAX_ARRIVED as u64);
    arrive(&mut window, front);
    assert_eq!(window.take_done(), Some(number));
    assert!(window.is_empty() && window.has_capacity());
}

/// Scenario: no answers, to small requests and to a long one. Guarantee: the window is full at its
/// number of requests, and at its bytes.
#[test]
fn a_window_is_full_of_what_waits() {
    let (mut window, now) = (AckWindow::default(), Instant::now());
    let mut answers = Vec::new();
    while window.has_capacity() {
        answers.push(send(&mut window, answers.len() as u64, 1, now));
    }
    assert_eq!(answers.len(), WINDOW);
    let mut window = AckWindow::default();
    let _long = send(&mut window, 0, WINDOW_BYTES, now);
    assert!(!window.has_capacity());
}

/// Scenario: the first request waits, the second fails, the third arrived; the wait is a long one;
/// the queue is read again. Guarantee: the failed one is read again then and not before, and only
/// it is sent again; only arrived requests are acknowledged.
#[test]
fn a_failed_request_is_sent_again_past_one_that_waits() {
    let (mut window, now) = (AckWindow::default(), Instant::now());
    let first = send(&mut window, 0, 1, now);
    let second = send(&mut window, 1, 1, now);
    let third = send(&mut window, 2, 1, now);
    arrive(&mut window, third);
    second.finish_with(Err(PublishError::Full));
    assert_eq!(window.poll(), [(1, 1, PublishError::Full)]);
    assert!(window.has_failed() && !window.can_restart(now));
    assert!(window.can_restart(now + LONG_WAIT));
    window.rewind();
    assert!(!window.has_failed());
    arrive(&mut window, first);
    assert_eq!(window.take_done(), None, "nothing was read again yet");
    assert!(window.skip_known(0));
    assert_eq!(window.take_done(), Some(0));
    assert!(!window.skip_known(1));
    let second = send(&mut window, 1, 1, now);
    assert!(window.skip_known(2));
    assert_eq!(window.take_done(), None);
    arrive(&mut window, second);
    assert_eq!(window.take_done(), Some(2));
}
