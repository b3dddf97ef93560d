//! Tests of private items of `arrivals.rs`.

use super::*;
use crate::observation::PartitionLoad;

fn signals(at: i64, rate: f64) -> Aged<ConsumerGroup> {
    let partition = PartitionLoad { arrival_per_second: Some(rate), ..PartitionLoad::default() };
    let partitions = vec![partition; 2];
    let value = ConsumerGroup {
        partitions,
        lag_seconds: None,
        within_bound: true,
        bytes_per_message: None,
    };
    Aged { observed_at: at, value }
}

fn fed(rates: impl IntoIterator<Item = f64>) -> Arrivals {
    let mut arrivals = Arrivals::default();
    for (rate, at) in rates.into_iter().zip((0..).step_by(10)) {
        arrivals.record_rates(&signals(at, rate));
    }
    arrivals
}

/// Scenario: one outlier, then a step. Guarantee: one observation is not believed, two are.
#[test]
fn a_step_is_believed_at_its_second_look() {
    let calm = || std::iter::repeat_n(50.0, 60);
    assert!(fed(calm().chain([500.0])).current_rate() < 400.0);
    assert_eq!(fed(calm().chain([500.0, 500.0])).current_rate(), 1_000.0);
}

/// Scenario: a constant rate, then a rising one. Guarantee: the first shows no trend, and the rate
/// expected of the second is near the real one.
#[test]
fn a_rise_is_expected_to_go_on_and_calm_to_stay() {
    let calm = fed(std::iter::repeat_n(50.0, 60));
    assert_eq!(calm.expected_rate(60.0), calm.current_rate());
    let rising = fed((0..60).map(|look| 50.0 + 2.5 * f64::from(look)));
    let now = 2.0 * (50.0 + 2.5 * 59.0);
    let then = now + 2.0 * 2.5 * 6.0;
    assert!(
        (rising.expected_rate(60.0) - then).abs() < 0.05 * then,
        "{}",
        rising.expected_rate(60.0)
    );
}

/// Scenario: a peak ten minutes ago, then a gap. Guarantee: low since the peak; after the gap,
/// unknown.
#[test]
fn how_long_arrivals_stayed_low_is_counted_from_the_last_peak_or_gap() {
    let peak = |look: i32| if (30..36).contains(&look) { 100.0 } else { 10.0 };
    let mut arrivals = fed((0..120).map(peak));
    let since = arrivals.at_most_since(60.0).unwrap();
    assert!((350..=480).contains(&since), "{since}");
    assert_eq!(arrivals.at_most_since(500.0), Some(0));
    arrivals.record_gap();
    assert_eq!(arrivals.at_most_since(500.0), None);
    arrivals.record_rates(&signals(5_000, 10.0));
    assert_eq!(arrivals.at_most_since(500.0), Some(5_000));
}
