//! Tests of what a target costs.

use super::*;

/// What a task keeps, whatever it waits for. It is never called.
fn task_bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

/// Scenario: a target's task and its row. Guarantee: with 1.5 KiB for texts of address, URL and
/// labels they take the 8 KiB at most that the bound of targets is counted with.
#[test]
fn a_target_takes_less_than_the_bound_of_targets_allows() {
    let bytes = task_bytes(Worker::run) + size_of::<Row>() + size_of::<Resolved>();
    assert!(bytes <= 6 * 1024 + 512, "{bytes}");
}
