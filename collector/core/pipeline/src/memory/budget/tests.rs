//! Tests of the private code of `budget.rs`.

use super::Budget;

/// Scenario: reservations up to the limit and one past it. Guarantee: the limit holds, and dropped
/// bytes can be reserved again.
#[test]
fn a_full_budget_gives_nothing_until_something_is_dropped() {
    let budget = Budget::new(100);
    let first = budget.try_reserve(60).unwrap();
    assert!(budget.try_reserve(41).is_none());
    let second = budget.try_reserve(40).unwrap();
    assert_eq!(budget.free_bytes(), 0);
    drop(first);
    assert_eq!(budget.used_bytes(), 40);
    drop(second);
    assert_eq!(budget.used_bytes(), 0);
    assert!(budget.try_reserve(u64::MAX).is_none());
}

/// Scenario: a reservation is resized and absorbs another. Guarantee: the sum is exact at each step
/// and zero at the end.
#[test]
fn resizing_and_absorbing_keep_the_sum_exact() {
    let budget = Budget::new(100);
    let mut kept = budget.try_reserve(10).unwrap();
    assert!(kept.try_resize(50));
    assert!(!kept.try_resize(101));
    assert_eq!((kept.bytes(), budget.used_bytes()), (50, 50));
    assert!(kept.try_resize(20));
    kept.absorb(budget.try_reserve(30).unwrap());
    assert_eq!((kept.bytes(), budget.used_bytes()), (50, 50));
    let half = kept.split_off(25);
    assert_eq!((kept.bytes(), half.bytes(), budget.used_bytes()), (25, 25, 50));
    kept.absorb(half);
    kept.absorb(Budget::new(5).try_reserve(5).unwrap());
    assert_eq!(kept.bytes(), 50);
    drop(kept);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: the limit is raised, then lowered below the reserved bytes. Guarantee: more can be
/// reserved at once; then nothing until enough was released, and no reservation is lost.
#[test]
fn a_changed_limit_counts_from_the_next_reservation() {
    let budget = Budget::new(100);
    let first = budget.try_reserve(100).unwrap();
    budget.set_limit(150);
    let second = budget.try_reserve(50).unwrap();
    budget.set_limit(80);
    assert_eq!((budget.free_bytes(), budget.used_bytes()), (0, 150));
    drop(second);
    assert!(budget.try_reserve(1).is_none());
    drop(first);
    assert_eq!(budget.try_reserve(80).unwrap().bytes(), 80);
}

/// Scenario: a share and its budget are each at their limit, a reservation of the share is resized
/// and dropped. Guarantee: it counts in both, and what either refuses counts in neither.
#[test]
fn a_reservation_of_a_share_counts_in_both() {
    let budget = Budget::new(100);
    let share = budget.new_share(60);
    let mut held = share.try_reserve(40).unwrap();
    assert_eq!((share.used_bytes(), budget.used_bytes()), (40, 40));
    assert!(!held.try_resize(61), "more than the share");
    let others = budget.try_reserve(50).unwrap();
    assert!(!held.try_resize(60) && share.try_reserve(11).is_none(), "more than the budget");
    assert_eq!((share.used_bytes(), budget.used_bytes()), (40, 90));
    drop(others);
    assert!(held.try_resize(60) && held.try_resize(10));
    assert_eq!((share.used_bytes(), budget.used_bytes()), (10, 10));
    drop(held);
    assert_eq!((share.used_bytes(), budget.used_bytes()), (0, 0));
}

/// Scenario: threads reserve and release concurrently. Guarantee: the sum is never over the limit,
/// and zero at the end.
#[test]
fn concurrent_holders_never_pass_the_limit() {
    let budget = Budget::new(1000);
    std::thread::scope(|scope| {
        for size in 1..=4_u64 {
            let budget = &budget;
            scope.spawn(move || {
                for _ in 0..10_000 {
                    let held = budget.try_reserve(size * 100);
                    assert!(budget.used_bytes() <= 1000);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: budgets of which an idle process reserves nothing, a part or more than all, and that
/// change. Guarantee: a request can ever be covered exactly if it fits next to the idle
/// reservation.
#[test]
fn what_can_ever_be_covered_fits_beside_what_stays_reserved() {
    for (limit, idle, longest) in [(100, 0, 100), (100, 40, 60), (50, 40, 10), (30, 40, 0)] {
        let budget = Budget::new(1000);
        budget.set_idle(idle);
        budget.set_limit(limit);
        let reservation = budget.empty_reservation();
        assert_eq!(budget.request_bytes(), longest, "{limit} less {idle}");
        assert!(reservation.can_ever_cover(longest) && !reservation.can_ever_cover(longest + 1));
    }
}
