//! Tests of `window.rs`.

use std::time::Duration;

use super::*;

fn slots(window: &Arc<InsertWindow>) -> Vec<InsertSlot> {
    std::iter::from_fn(|| window.try_enter()).collect()
}

/// Scenario: eight inserts fail together, then four more after them. Guarantee: two cuts, each by
/// half, whether slots are free or in use; never below one.
#[test]
fn overload_halves_the_window_once_per_round() {
    let window = Arc::new(InsertWindow::new(8));
    let held = slots(&window);
    assert_eq!(held.len(), 8);
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    (0..8).for_each(|n| window.record_overload(start, at(10 + n)));
    assert_eq!(window.allowed(), 4);
    assert!(window.try_enter().is_none());
    drop(held);
    assert_eq!(slots(&window).len(), 4);
    window.record_overload(at(20), at(30));
    assert_eq!(slots(&window).len(), 2);
    (0..9).for_each(|n| window.record_overload(at(100 * (n + 1)), at(100 * (n + 1) + 1)));
    assert_eq!((window.allowed(), slots(&window).len()), (1, 1));
}

/// Scenario: good answers after a cut, some while slots are still owed. Guarantee: one slot more
/// per round of them, up to the configured number.
#[test]
fn good_answers_open_the_window_again() {
    let window = Arc::new(InsertWindow::new(4));
    let held = slots(&window);
    let start = Instant::now();
    window.record_overload(start, start);
    assert_eq!(window.allowed(), 2);
    (0..2).for_each(|_| window.record_success());
    assert_eq!(window.allowed(), 3);
    drop(held);
    assert_eq!(slots(&window).len(), 3);
    (0..100).for_each(|_| window.record_success());
    assert_eq!((window.allowed(), slots(&window).len()), (4, 4));
}
