//! Tests of the private code of `plan.rs`.

use proptest::prelude::*;

use super::*;

/// A load that ClickHouse published, and the model's allowed error.
struct Published {
    parts: f64,
    merges: f64,
    servers: f64,
    requests: f64,
    off: f64,
}

/// "ClickHouse Keeper: A ZooKeeper alternative written in C++" (27 September 2023): 4.64 billion
/// rows in parts of 25 million rows at most, by three servers and by ten; in parts of one million;
/// 26.23 billion in parts of one million. Parts and merges of the ten servers weren't published:
/// those of the three are assumed.
const PUBLISHED: [Published; 4] = [
    published(240.0, 1_706.0, 3.0, 17_705.0, 0.001),
    published(240.0, 1_706.0, 10.0, 60_925.0, 0.035),
    published(4_240.0, 9_094.0, 3.0, 147_540.0, 0.001),
    published(23_750.0, 28_959.0, 3.0, 680_996.0, 0.041),
];

const fn published(parts: f64, merges: f64, servers: f64, requests: f64, off: f64) -> Published {
    Published { parts, merges, servers, requests, off }
}

/// Scenario: the published loads. Guarantee: the model gives their requests within the stated error
/// (the second and the last load were not fitted); the planner's merges per part are those of the
/// last.
#[test]
fn published_loads_are_met() {
    for Published { parts, merges, servers, requests, off } in PUBLISHED {
        let modelled = requests_of(parts, merges, servers);
        let difference = (modelled - requests).abs() / requests;
        assert!(difference < off, "{modelled} for {requests}: {difference}");
    }
    let [.., last] = PUBLISHED;
    assert!((last.merges / last.parts - MERGES_PER_PART).abs() < 0.005);
}

/// Parts, merges, requests and multis of one replica of replicated tables, counted here.
const COUNTED: [[f64; 4]; 4] = [
    [365.0, 0.0, 5_938.0, 1_515.0],
    [714.0, 130.0, 12_575.0, 3_335.0],
    [351.0, 63.0, 5_594.0, 1_431.0],
    [233.0, 39.0, 3_476.0, 911.0],
];

/// Scenario: the loads counted on replicated tables. Guarantee: the planned requests are at most a
/// hundredth below theirs and a fifth above; the share of multis is within a hundredth.
#[test]
fn replicated_tables_are_planned_as_they_were_counted() {
    for [parts, merges, requests, multis] in COUNTED {
        let planned = REPLICATED * requests_of(parts, merges, 1.0);
        let share = planned / requests;
        assert!((0.99..1.2).contains(&share), "{planned} for {requests}");
        assert!((multis / requests - MULTI_SHARE).abs() < 0.01, "{multis} of {requests}");
    }
}

fn load(rows_per_second: f64, rows_per_part: f64, replicas: u32) -> InsertLoad {
    InsertLoad { rows_per_second, rows_per_part, replicas, tables: 3, shards: 1, window: 10_000 }
}

/// Scenario: a million rows per second in parts of 100,000 rows; of 15,000; of 100. Guarantee: the
/// first needs three small servers, the second larger ones, the last larger parts or more
/// ensembles.
#[test]
fn small_parts_need_more() {
    let large = load(1e6, 1e5, 3).plan();
    assert_eq!(large.advice, Advice::Enough);
    assert!((large.requests_per_second - 743.4).abs() < 0.1, "{large:?}");
    assert_eq!(load(1e6, 15_000.0, 3).plan().advice, Advice::TwoCores);
    let small = load(1e6, 100.0, 3).plan();
    assert_eq!(small.advice, Advice::MoreEnsembles { ensembles: 117 });
}

/// Scenario: three tables that remember 10,000 inserts each, three replicas. Guarantee: the nodes
/// are exactly those that ClickHouse's defaults allow.
#[test]
fn nodes_are_bounded_by_clickhouses_own_settings() {
    let plan = load(1e6, 1e5, 3).plan();
    assert!((plan.znodes - 3.0 * (20_000.0 + 1_000.0 + 3.0 * 2_000.0)).abs() < 1.0, "{plan:?}");
    assert!((plan.data_bytes - plan.znodes * 450.0).abs() < 1.0, "{plan:?}");
}

proptest! {
    /// Scenario: any two loads that differ in one thing. Guarantee: more rows, smaller parts or
    /// more replicas never need fewer requests or a smaller ensemble.
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
