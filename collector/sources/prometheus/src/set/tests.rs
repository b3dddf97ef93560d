//! Tests of a target's memory.

use super::*;

/// Returns the size of a task's future. The function is never called.
fn task_bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

/// Scenario: a target has a task and a row. Guarantee: with 1.5 KiB for texts of address, URL and
/// labels they take at most the 8 KiB that the limit of targets assumes.
#[test]
fn a_target_takes_less_than_the_bound_of_targets_allows() {
    let bytes = task_bytes(TargetWorker::run) + size_of::<TargetRow>() + size_of::<ScrapeTarget>();
    assert!(bytes <= 6 * 1024 + 512, "{bytes}");
}
