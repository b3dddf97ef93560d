//! Tests of what `clickhouse/window.rs` keeps to itself.

use std::time::Duration;

use super::*;

fn places(window: &Arc<Window>) -> Vec<Place> {
    std::iter::from_fn(|| window.try_enter()).collect()
}

/// Scenario: eight inserts fail together, then four more after them. Guarantee: two cuts, each
/// by half, whether places are free or taken; never below one.
#[test]
fn overload_halves_the_window_once_per_round() {
    let window = Arc::new(Window::new(8));
    let held = places(&window);
    assert_eq!(held.len(), 8);
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    (0..8).for_each(|n| window.too_much(start, at(10 + n)));
    assert_eq!(window.allowed(), 4);
    assert!(window.try_enter().is_none());
    drop(held);
    assert_eq!(places(&window).len(), 4);
    window.too_much(at(20), at(30));
    assert_eq!(places(&window).len(), 2);
    (0..9).for_each(|n| window.too_much(at(100 * (n + 1)), at(100 * (n + 1) + 1)));
    assert_eq!((window.allowed(), places(&window).len()), (1, 1));
}

/// Scenario: good answers after a cut, some while places are still owed. Guarantee: one place
/// more per round of them, up to what is configured and never over it.
#[test]
fn good_answers_open_the_window_again() {
    let window = Arc::new(Window::new(4));
    let held = places(&window);
    let start = Instant::now();
    window.too_much(start, start);
    assert_eq!(window.allowed(), 2);
    (0..2).for_each(|_| window.went_well());
    assert_eq!(window.allowed(), 3);
    drop(held);
    assert_eq!(places(&window).len(), 3);
    (0..100).for_each(|_| window.went_well());
    assert_eq!((window.allowed(), places(&window).len()), (4, 4));
}
