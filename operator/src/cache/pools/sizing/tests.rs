//! Tests of the private parts of `cache/pools/sizing.rs`.

use super::*;
use crate::kafka::lag_cache::PartitionOffsets;

fn look(second: i64, offsets: &[(i32, i64, i64)]) -> LagObservation {
    let of = |(partition, committed, end): &(i32, i64, i64)| PartitionOffsets {
        topic: "t".into(),
        partition: *partition,
        committed: *committed,
        end: *end,
    };
    LagObservation {
        partitions: 1,
        partitions_max: 1,
        messages: 0,
        seconds: None,
        within_bound: true,
        offsets: offsets.iter().map(of).collect(),
        observed_at: Timestamp::from_second(second).unwrap(),
    }
}

fn rates(kept: &Sizing) -> Vec<(Option<f64>, Option<f64>)> {
    let partitions = &kept.group.as_ref().unwrap().value.partitions;
    partitions.iter().map(|it| (it.arrival_per_second, it.commit_per_second)).collect()
}

/// Scenario: two samples ten seconds apart, the second one repeated, then a topic recreated with
/// one more partition. Guarantee: rates come from two different samples, are unknown where there is
/// no such pair, and are never negative.
#[test]
fn rates_are_those_between_two_looks() {
    let mut kept = Sizing::default();
    kept.record_lag(&look(100, &[(0, 40, 50)]));
    assert_eq!(rates(&kept), [(None, None)]);
    kept.record_lag(&look(110, &[(0, 90, 150)]));
    kept.record_lag(&look(110, &[(0, 90, 150)]));
    assert_eq!(rates(&kept), [(Some(10.0), Some(5.0))]);
    kept.record_lag(&look(120, &[(0, 0, 7), (1, 0, 5)]));
    assert_eq!(rates(&kept), [(None, None), (None, None)]);
}
