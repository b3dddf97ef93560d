//! Percentiles: of times that were taken one by one, and of the operator's own histogram.

use std::time::Duration;

use crate::operator::Metrics;

/// The time that `percent` of the times do not exceed, in milliseconds; zero of none.
pub(crate) fn percentile_ms(times: &[Duration], percent: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = ((sorted.len() as f64 * percent / 100.0).ceil() as usize).max(1) - 1;
    let time = sorted.get(at).copied().unwrap_or_default();
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The upper bound, in milliseconds, of the bucket in which `percent` of what came between two
/// looks at a histogram lie; `None` of nothing, or beyond the last bucket. `labels` are those
/// before the bound, each with a comma behind it.
pub(crate) fn histogram_ms(
    before: &Metrics,
    after: &Metrics,
    name: &str,
    labels: &str,
    percent: f64,
) -> Option<f64> {
    let came = |bound: &str| {
        let key = format!("{name}_bucket{{{labels}le=\"{bound}\"}}");
        after.get(&key).unwrap_or(&0.0) - before.get(&key).unwrap_or(&0.0)
    };
    let prefix = format!("{name}_bucket{{{labels}le=\"");
    let bounds = after.keys().filter_map(|key| key.strip_prefix(&prefix)?.strip_suffix("\"}"));
    let mut bounds: Vec<(f64, &str)> =
        bounds.filter_map(|text| Some((text.parse::<f64>().ok()?, text))).collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = came("+Inf") * percent / 100.0;
    let fits = bounds.iter().find(|(bound, text)| bound.is_finite() && came(text) >= wanted);
    fits.filter(|_| wanted > 0.0).map(|(bound, _)| bound * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a hundred times of one to a hundred milliseconds. Guarantee: the usual ranks.
    #[test]
    fn percentiles_are_the_usual_ranks() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&times, 50.0), 50.0);
        assert_eq!(percentile_ms(&times, 99.0), 99.0);
        assert_eq!(percentile_ms(&[], 99.0), 0.0);
    }

    /// Scenario: a histogram between two looks. Guarantee: only what came between counts, and the
    /// bound of its bucket is given.
    #[test]
    fn a_histogram_counts_what_came_between() {
        let at = |bounds: &[(&str, f64)]| -> Metrics {
            let key = |bound: &str| format!("s_bucket{{kind=\"K\",le=\"{bound}\"}}");
            bounds.iter().map(|(bound, count)| (key(bound), *count)).collect()
        };
        let before = at(&[("0.1", 50.0), ("1", 50.0), ("+Inf", 50.0)]);
        let after = at(&[("0.1", 148.0), ("1", 150.0), ("+Inf", 150.0)]);
        assert_eq!(histogram_ms(&before, &after, "s", "kind=\"K\",", 95.0), Some(100.0));
        assert_eq!(histogram_ms(&before, &after, "s", "kind=\"K\",", 99.0), Some(1000.0));
        assert_eq!(histogram_ms(&after, &after, "s", "kind=\"K\",", 99.0), None);
    }
}
