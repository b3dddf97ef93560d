//! The memory of a run: reserved before it, so that rules can't exceed the process's budget.

use millrace_processing::limits::WORK_FACTOR;

/// How much longer a request may become: twice its length and 32 KiB, which is some hundred
/// attributes more on a single record. A record that would exceed it is left as it was and counted.
const GROWTH_FACTOR: usize = 2;
const GROWTH_BYTES: usize = 32 * 1024;

/// Returns the memory of a run, in quarters of a request's length: the result, [`WORK_FACTOR`]
/// times as much for new values, and a result for each route; and one quarter for [`GROWTH_BYTES`]
/// of each, which long requests cover.
pub(crate) fn request_quarters(routes: usize) -> u64 {
    let results = GROWTH_FACTOR * (1 + WORK_FACTOR + routes);
    4 * results as u64 + 1
}

/// Returns the longest result for a request of this length.
pub(crate) fn limit_bytes(request_bytes: usize) -> usize {
    request_bytes.saturating_mul(GROWTH_FACTOR).saturating_add(GROWTH_BYTES)
}

/// Returns the most memory that a run with this limit takes, with a result for each route.
pub(crate) fn run_bytes(limit_bytes: usize, routes: usize) -> u64 {
    limit_bytes.saturating_mul(1 + WORK_FACTOR + routes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: requests from the shortest whose growth its quarters cover. Guarantee: the check
    /// of the budget at the start covers each run.
    #[test]
    fn the_quarters_cover_each_long_request() {
        for routes in [0, 1, 16] {
            let shortest = GROWTH_BYTES * (1 + WORK_FACTOR + routes) * 4;
            for length in [shortest, 4 << 20, 128 << 20] {
                let run = run_bytes(limit_bytes(length), routes);
                let covered = length as u64 * request_quarters(routes) / 4;
                assert!(run <= covered, "{length}, {routes} routes: {run}");
            }
        }
    }
}
