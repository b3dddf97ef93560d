//! Tests of `memory_shares.rs`.

use millrace_wire::Signal;
use millrace_wire::limits::WRITTEN_BYTES;

use super::*;

/// Budgets of processes with 64 MiB to 64 GiB, half of which is for records by default.
fn budgets() -> impl Iterator<Item = u64> {
    (0..=10).flat_map(|double| [4, 5, 6, 7].map(|quarters| (8 * MIB * quarters) << double))
}

/// Worker counts for which a budget suffices: up to two, or 24 MiB each.
fn workers(budget_bytes: u64) -> impl Iterator<Item = u16> {
    let most = u16::try_from(budget_bytes / (24 * MIB)).unwrap_or(u16::MAX).max(2);
    [1, 2, 3, 4, 8, 16, 64, 256].into_iter().filter(move |workers| *workers <= most)
}

/// Scenario: gateways with a memory limit of 64 MiB to 64 GiB and all numbers of workers; all
/// dead-letter topics are unavailable, queues are full, each worker has its headroom. Guarantee:
/// the longest message can still be decoded.
#[test]
fn a_gateway_reads_on_while_every_dead_letter_topic_is_away() {
    for budget_bytes in budgets() {
        for workers in workers(budget_bytes) {
            let shares = MemoryShares::of_budget(budget_bytes);
            let each = u64::from(workers);
            let fetched = shares.fetch_queue_bytes(workers, 64 * MIB) * each;
            let letters = shares.dead_letters_bytes(workers) * each * Signal::ALL.len() as u64;
            // It includes the headroom of the worker that waits for the message.
            let headroom = HEADROOM_BYTES * (each - 1);
            let message = shares.message_written_bytes().min(WRITTEN_BYTES);
            let message = message.max(shares.message_columns_bytes());
            let sum = fetched + letters + headroom + message;
            assert!(sum <= budget_bytes, "{sum} of {budget_bytes} with {workers} workers");
        }
    }
}

/// Scenario: edges with a memory limit of 64 MiB to 64 GiB; clients hold all allowed connections
/// and bodies. Guarantee: an eighth of the budget is left for requests being read.
#[test]
fn an_edge_reads_on_while_clients_hold_all_they_may() {
    for budget_bytes in budgets() {
        for threads in [1, 2, 4, 16, 64] {
            let shares = MemoryShares::of_budget(budget_bytes);
            let kept = shares.retained_buffer_bytes(threads) + shares.others_buffers_bytes(threads);
            let sum = shares.connections_bytes() + shares.unread_bodies_bytes(0) + kept;
            assert!(sum <= budget_bytes / 8 * 7, "{sum} of {budget_bytes}");
        }
    }
}
