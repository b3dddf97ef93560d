//! Decisions about single records, and the sums of their adjusted counts.

use millrace_processing::sample::{
    MissingRandomness, Mode, Outgoing, Randomness, Reason, Sampling, SamplingItem, Threshold,
};
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::trace_id;

fn item(randomness: &str, incoming: &str) -> SamplingItem {
    SamplingItem {
        randomness: Randomness::parse(randomness.as_bytes()),
        incoming: Threshold::parse(incoming.as_bytes()),
    }
}

fn threshold(digits: &str) -> Threshold {
    Threshold::parse(digits.as_bytes()).expect("a threshold")
}

/// Scenario: records with and without a threshold, under each mode.
/// Guarantee: a table of decisions, from the specification's downstream samplers: an incoming
/// threshold is never lowered, and what carries an impossible one counts as unsampled.
#[test]
fn decisions_follow_the_specification() {
    use Outgoing::{Erase, Unchanged, Write};
    let low = "10000000000000";
    let middle = "9b8233f7e3a151";
    let high = "f8000000000000";
    let half = |mode| Sampling::from_ratio(0.5, mode, 4).expect("a ratio");
    let (equal, multiply) = (half(Mode::Equalizing), half(Mode::Proportional));
    let cases = [
        // Not sampled before: the ratio applies in both modes.
        (equal, item(middle, ""), true, Write(threshold("8"))),
        (equal, item(low, ""), false, Write(threshold("8"))),
        (multiply, item(middle, ""), true, Write(threshold("8"))),
        (multiply, item(low, "0"), false, Write(threshold("8"))),
        // Sampled at 3 in 4 before: raised to a half, or to 3 in 8.
        (equal, item(middle, "4"), true, Write(threshold("8"))),
        (multiply, item(middle, "4"), false, Write(threshold("a"))),
        (multiply, item(high, "4"), true, Write(threshold("a"))),
        // Sampled at 1 in 16 before: never lowered.
        (equal, item(high, "f"), true, Unchanged),
        (multiply, item(high, "f"), true, Write(threshold("f8"))),
        // Exactly at the threshold.
        (equal, item("80000000000000", ""), true, Write(threshold("8"))),
        (equal, item("7fffffffffffff", ""), false, Write(threshold("8"))),
        (equal, item("80000000000000", "8"), true, Unchanged),
        // Impossible: the threshold counts as absent.
        (equal, item(middle, "f"), true, Write(threshold("8"))),
        (Sampling::Always, item(low, "f"), true, Erase),
        // Rules that keep or drop every record.
        (Sampling::Always, item(low, ""), true, Unchanged),
        (Sampling::Always, item(high, "f"), true, Unchanged),
        (Sampling::Never, item(high, ""), false, Unchanged),
    ];
    for (sampling, item, is_kept, outgoing) in cases {
        let decision = sampling.decide(item, MissingRandomness::Keep);
        assert_eq!(
            (decision.is_sampled, decision.outgoing),
            (is_kept, outgoing),
            "{sampling:?} {item:?}"
        );
        if !matches!(sampling, Sampling::Always | Sampling::Never) {
            assert_eq!(decision.reason, Reason::Probability);
        }
    }
}

/// Scenario: records without a trace id, `rv`, or another source.
/// Guarantee: the setting decides, and their threshold stays.
#[test]
fn records_without_randomness_are_kept_or_dropped_by_the_setting() {
    let sampling = Sampling::from_ratio(0.01, Mode::Proportional, 4).expect("a ratio");
    let item = SamplingItem { randomness: None, incoming: Some(threshold("8")) };
    for (missing, is_kept) in [(MissingRandomness::Keep, true), (MissingRandomness::Drop, false)] {
        let decision = sampling.decide(item, missing);
        assert_eq!((decision.is_sampled, decision.outgoing), (is_kept, Outgoing::Unchanged));
        assert_eq!(decision.reason, Reason::MissingRandomness);
        assert_eq!(decision.adjusted_count(), 2.0);
    }
}

/// Scenario: ratios at and outside the ends of the range.
/// Guarantee: 1 keeps every record, 0 drops every record, and what is no ratio is refused.
#[test]
fn ratios_outside_the_range_are_refused() {
    for mode in [Mode::Equalizing, Mode::Proportional] {
        assert_eq!(Sampling::from_ratio(1.0, mode, 4), Some(Sampling::Always));
        assert_eq!(Sampling::from_ratio(0.0, mode, 4), Some(Sampling::Never));
        for ratio in [-0.1, 1.1, 1e-18, f64::NAN] {
            assert_eq!(Sampling::from_ratio(ratio, mode, 4), None, "{ratio}");
        }
    }
}

/// Scenario: a sampler whose product with earlier ones is below 2^-56.
/// Guarantee: the record is dropped, as the specification says.
#[test]
fn a_product_below_the_smallest_probability_drops_the_record() {
    let sampling = Sampling::from_ratio(0.25, Mode::Proportional, 14).expect("a ratio");
    let decision =
        sampling.decide(item("ffffffffffffff", "ffffffffffffff"), MissingRandomness::Keep);
    assert!(!decision.is_sampled);
}

/// Scenario: 10^6 trace ids at ratios from 1 in 2 to 1 in 1000, sampled once and by two samplers in
/// series, in both modes.
/// Guarantee: the sum of adjusted counts is the number of records, within five standard deviations.
#[test]
fn adjusted_counts_add_up_to_the_number_of_records() {
    const RECORDS: u32 = 1_000_000;
    let ratios = [0.5, 1.0 / 3.0, 0.1, 0.01, 0.001];
    for mode in [Mode::Equalizing, Mode::Proportional] {
        let samplings = ratios.map(|ratio| Sampling::from_ratio(ratio, mode, 4).expect("a ratio"));
        let first = Sampling::from_ratio(0.4, mode, 4).expect("a ratio");
        let (mut once, mut twice) = ([0.0; 5], [0.0; 5]);
        let mut state = 48;
        for _ in 0..RECORDS {
            let randomness = Randomness::from_trace_id(&trace_id(&mut state));
            let item = SamplingItem { randomness, incoming: None };
            let before = first.decide(item, MissingRandomness::Keep);
            for (index, sampling) in samplings.iter().enumerate() {
                let decision = sampling.decide(item, MissingRandomness::Keep);
                if decision.is_sampled {
                    once[index] += decision.adjusted_count();
                }
                if before.is_sampled {
                    let item = SamplingItem { incoming: before.threshold, ..item };
                    let decision = sampling.decide(item, MissingRandomness::Keep);
                    if decision.is_sampled {
                        twice[index] += decision.adjusted_count();
                    }
                }
            }
        }
        let records = f64::from(RECORDS);
        for (index, ratio) in ratios.iter().enumerate() {
            // The deviation of a sum of N counts 1/p, each with probability p: sqrt(N (1 - p) / p).
            let of_both = if mode == Mode::Equalizing { ratio.min(0.4) } else { ratio * 0.4 };
            for (sum, ratio) in [(once[index], *ratio), (twice[index], of_both)] {
                let allowed = 5.0 * (records * (1.0 - ratio) / ratio).sqrt();
                assert!((sum - records).abs() < allowed, "{mode:?} {ratio}: {sum}");
            }
        }
    }
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Equalizing), Just(Mode::Proportional)]
}

proptest! {
    /// Scenario: a record that is kept at one ratio, and any higher ratio.
    /// Guarantee: it's kept at the higher one too.
    #[test]
    fn what_is_kept_at_a_ratio_is_kept_at_each_higher_one(
        randomness in 0_u64..1 << 56,
        incoming in proptest::option::of(0_u64..1 << 56),
        lower in 1e-9..1.0_f64,
        share in 0.0..=1.0_f64,
        mode in mode(),
        precision in 1_u8..=14,
    ) {
        let item = SamplingItem {
            randomness: Randomness::new(randomness),
            incoming: incoming.and_then(Threshold::new),
        };
        let higher = lower + (1.0 - lower) * share;
        let decide = |ratio| {
            let sampling = Sampling::from_ratio(ratio, mode, precision).expect("a ratio");
            sampling.decide(item, MissingRandomness::Keep)
        };
        prop_assert!(!decide(lower).is_sampled || decide(higher).is_sampled);
    }

    /// Scenario: any record and any ratio.
    /// Guarantee: a consistent incoming threshold is never lowered; a record that is kept passes
    /// the threshold that it carries afterwards; deciding again by the same rule of the equalizing
    /// mode changes nothing.
    #[test]
    fn thresholds_are_never_lowered(
        randomness in 0_u64..1 << 56,
        incoming in proptest::option::of(0_u64..1 << 56),
        ratio in 1e-9..=1.0_f64,
        mode in mode(),
        precision in 1_u8..=14,
    ) {
        let item = SamplingItem {
            randomness: Randomness::new(randomness),
            incoming: incoming.and_then(Threshold::new),
        };
        let sampling = Sampling::from_ratio(ratio, mode, precision).expect("a ratio");
        let decision = sampling.decide(item, MissingRandomness::Keep);
        if decision.is_sampled {
            if !decision.is_inconsistent {
                prop_assert!(decision.threshold >= item.incoming);
            }
            if let Some(threshold) = decision.threshold {
                prop_assert!(randomness >= threshold.value());
            }
            if mode == Mode::Equalizing {
                let again = SamplingItem { incoming: decision.threshold, ..item };
                let again = sampling.decide(again, MissingRandomness::Keep);
                prop_assert!(again.is_sampled);
                prop_assert_eq!(again.outgoing, Outgoing::Unchanged);
            }
        }
    }
}
