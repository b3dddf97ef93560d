//! Tests of the conversion of native histograms.

use super::{DENSE_BUCKETS_MAX, Native, Side, Sparse, build_native};

fn sparse(spans: &[(i64, u64)], deltas: &[i64]) -> Sparse {
    Sparse { spans: spans.to_vec(), deltas: deltas.to_vec(), counts: Vec::new() }
}

/// Scenario: two spans have a gap of two, and counts go up and down, on both sides. Guarantee: each
/// bucket is indexed by its lower bound, and the gap is filled.
#[test]
fn spans_become_dense_buckets() {
    let sides = [sparse(&[(1, 2), (2, 1)], &[1, 1, -1]), sparse(&[(-3, 1)], &[4])];
    let expected = Native {
        count: 10,
        scale: 3,
        zero_threshold: 1e-9,
        zero_count: 2,
        positive: Side { offset: 0, counts: vec![1, 2, 0, 0, 1] },
        negative: Side { offset: -4, counts: vec![4] },
    };
    assert_eq!(build_native(10.0, 3, (1e-9, 2.0), &sides), Some(expected));
}

/// Scenario: one histogram has integral float counts, one has fractions. Guarantee: the first is
/// written, the other one is skipped.
#[test]
fn counts_in_floats_are_taken_if_they_are_whole() {
    let of = |counts: &[f64]| {
        let counts = counts.to_vec();
        [Sparse { spans: vec![(0, 2)], deltas: Vec::new(), counts }, Sparse::default()]
    };
    let taken = build_native(5.0, 0, (0.0, 0.0), &of(&[2.0, 3.0])).unwrap();
    assert_eq!(taken.positive, Side { offset: -1, counts: vec![2, 3] });
    assert_eq!(build_native(5.0, 0, (0.0, 0.0), &of(&[2.5, 2.5])), None);
}

/// Scenario: a gap has 40,000 buckets. Guarantee: neighbours are merged, on both sides, until there
/// are few enough, and no value is lost.
#[test]
fn a_long_gap_lowers_the_resolution() {
    let sides = [sparse(&[(1, 1), (40_000, 1)], &[3, 0]), sparse(&[(9, 2)], &[1, 0])];
    let joined = build_native(8.0, 8, (0.0, 0.0), &sides).unwrap();
    assert_eq!(joined.scale, 4);
    assert!(joined.positive.counts.len() as i64 <= DENSE_BUCKETS_MAX);
    assert_eq!(joined.positive.counts.iter().sum::<u64>(), 6);
    assert_eq!((joined.positive.offset, joined.positive.counts.first()), (0, Some(&3)));
    assert_eq!((40_001 >> 4, joined.positive.counts.last()), (2500, Some(&3)));
    assert_eq!(joined.negative, Side { offset: 0, counts: vec![2] });
}

/// Scenario: histograms have unknown resolutions, spans that don't match their counts, negative
/// counts, more in buckets than in total, or indexes beyond OTLP's. Guarantee: none is written.
#[test]
fn what_contradicts_itself_is_left_out() {
    let empty = Sparse::default;
    let one = || sparse(&[(0, 1)], &[1]);
    assert!(build_native(1.0, 8, (0.0, 0.0), &[one(), empty()]).is_some());
    assert_eq!(build_native(1.0, 9, (0.0, 0.0), &[one(), empty()]), None);
    assert_eq!(build_native(1.0, -53, (0.0, 0.0), &[one(), empty()]), None);
    assert_eq!(build_native(0.0, 0, (0.0, 0.0), &[one(), empty()]), None);
    for (spans, deltas) in [
        (&[(0, 2)][..], &[1][..]),
        (&[(0, u64::MAX)], &[1]),
        (&[(0, 1)], &[1, 1]),
        (&[(0, 1), (-2, 1)], &[1, 0]),
        (&[(0, 2)], &[1, -2]),
        (&[(i64::from(i32::MIN), 1)], &[1]),
        (&[(0, 2)], &[i64::MAX, 1]),
    ] {
        let sides = [sparse(spans, deltas), empty()];
        assert_eq!(build_native(9.0, 0, (0.0, 0.0), &sides), None, "{spans:?} {deltas:?}");
    }
}
