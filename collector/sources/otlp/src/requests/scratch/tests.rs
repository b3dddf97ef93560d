//! Tests of `scratch.rs`.

use super::Scratch;
use crate::answers::denied::Denial;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::RefusalReason;

fn write(length: usize) -> impl FnMut(usize, &mut Vec<u8>) -> Result<(), Denial> {
    move |cap, out| {
        out.clear();
        if length > cap {
            return Err(Denial::new(RefusalReason::TooLarge, "long"));
        }
        out.resize(length, 7);
        Ok(())
    }
}

/// Scenario: results of the expected length, longer, and past the limit. Guarantee: the budget
/// covers each while it lasts, and afterwards only the retained buffer.
#[test]
fn the_budget_covers_the_buffer() {
    let budget = Budget::new(10_000);
    let mut scratch = Scratch::new(&budget);
    assert!(scratch.fill_capped(100, 4000, write(100)).is_ok());
    assert_eq!((scratch.bytes().len(), budget.used_bytes()), (100, 101));
    assert!(scratch.fill_capped(100, 4000, write(3000)).is_ok());
    assert_eq!((scratch.bytes().len(), budget.used_bytes()), (3000, 4001));
    scratch.release_excess(500);
    assert!(budget.used_bytes() <= 600, "{}", budget.used_bytes());
    let denied = scratch.fill_capped(100, 4000, write(4001)).unwrap_err();
    assert_eq!(denied.reason, RefusalReason::TooLarge);
    drop(scratch);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a budget for the expected length only. Guarantee: a longer result is refused with a
/// delay.
#[test]
fn what_the_budget_cannot_cover_is_refused_with_a_delay() {
    let budget = Budget::new(1000);
    let mut scratch = Scratch::new(&budget);
    let denied = scratch.fill_capped(100, 4000, write(3000)).unwrap_err();
    assert_eq!(denied.reason, RefusalReason::Full);
    assert!(denied.retry_after().is_some());
}
