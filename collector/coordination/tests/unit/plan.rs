//! Tests of what `plan.rs` keeps to itself.

use proptest::prelude::*;

use super::*;

/// A load that ClickHouse published, and how far the model may be off.
struct Published {
    parts: f64,
    merges: f64,
    servers: f64,
    requests: f64,
    multi_requests: f64,
    off: f64,
}

/// "ClickHouse Keeper: A ZooKeeper alternative written in C++" (27 September 2023): 4.64 billion
/// rows in parts of 25 million rows at most, by three servers and by ten; in parts of one million;
/// 26.23 billion in parts of one million. Of the ten servers parts and merges weren't published:
/// those of the three are assumed.
const PUBLISHED: [Published; 4] = [
    published(240.0, 1_706.0, 3.0, 17_705.0, 11_642.0, 0.001),
    published(240.0, 1_706.0, 10.0, 60_925.0, 41_767.0, 0.035),
    published(4_240.0, 9_094.0, 3.0, 147_540.0, 105_951.0, 0.001),
    published(23_750.0, 28_959.0, 3.0, 680_996.0, 474_093.0, 0.041),
];

const fn published(
    parts: f64,
    merges: f64,
    servers: f64,
    requests: f64,
    multi_requests: f64,
    off: f64,
) -> Published {
    Published { parts, merges, servers, requests, multi_requests, off }
}

/// Scenario: the published loads. Guarantee: the model gives their requests, as near as is said
/// (the second and the last one were not fitted), and their share of multis within five hundredths;
/// the planner's merges for each part are those of the last.
#[test]
fn published_loads_are_met() {
    for Published { parts, merges, servers, requests, multi_requests, off } in PUBLISHED {
        let modelled = requests_of(parts, merges, servers);
        let difference = (modelled - requests).abs() / requests;
        assert!(difference < off, "{modelled} for {requests}: {difference}");
        let share = multi_requests / requests;
        assert!((share - MULTI_SHARE).abs() < 0.05, "{share} of {requests}");
    }
    let [.., last] = PUBLISHED;
    assert!((last.merges / last.parts - MERGES_PER_PART).abs() < 0.005);
}

fn load(rows_per_second: f64, rows_per_part: f64, replicas: u32) -> Load {
    Load { rows_per_second, rows_per_part, replicas, tables: 3, shards: 1, window: 10_000 }
}

/// Scenario: a million rows a second in parts of 100,000 rows; of 5,000; of 100. Guarantee: the
/// first needs three small servers, the second larger ones, the last larger parts or more
/// ensembles.
#[test]
fn small_parts_need_more() {
    let large = load(1e6, 1e5, 3).plan();
    assert_eq!(large.advice, Advice::Enough);
    assert!((large.requests_per_second - 275.3).abs() < 0.1, "{large:?}");
    assert_eq!(load(1e6, 5_000.0, 3).plan().advice, Advice::TwoCores);
    let small = load(1e6, 100.0, 3).plan();
    assert_eq!(small.advice, Advice::MoreEnsembles { ensembles: 44 });
}

/// Scenario: three tables that remember 10,000 inserts each, three replicas. Guarantee: nodes are
/// those that ClickHouse's defaults allow, and no more.
#[test]
fn nodes_are_bounded_by_clickhouses_own_settings() {
    let plan = load(1e6, 1e5, 3).plan();
    assert!((plan.znodes - 3.0 * (20_000.0 + 1_000.0 + 3.0 * 2_000.0)).abs() < 1.0, "{plan:?}");
    assert!((plan.data_bytes - plan.znodes * 450.0).abs() < 1.0, "{plan:?}");
}

proptest! {
    /// Scenario: any two loads that differ in one thing. Guarantee: more rows, smaller parts or more
    /// replicas never ask less, and the advice never asks less either.
    #[test]
    fn more_load_never_asks_less(
        rows in 1.0..1e8, part in 1.0..1e7, replicas in 1_u32..12, more in 1.0..100.0,
    ) {
        let size = |advice| match advice {
            Advice::Enough => 0,
            Advice::TwoCores => 1,
            Advice::MoreEnsembles { ensembles } => ensembles,
        };
        let before = load(rows, part, replicas).plan();
        for after in [load(rows * more, part, replicas), load(rows, part / more, replicas),
            load(rows, part, replicas + 1)] {
            let after = after.plan();
            prop_assert!(after.requests_per_second >= before.requests_per_second * 0.999_999);
            prop_assert!(size(after.advice) >= size(before.advice));
        }
    }
}
