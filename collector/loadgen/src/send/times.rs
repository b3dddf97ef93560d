//! Latencies of answers, from when a request was due to when it was accepted. At a rate, a request
//! that waited for a free caller has waited for the server: without that time, a stalled server
//! would delay only a few requests in the figures. Fixed size: about 200 KiB.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Maximum latency distinguished: ten minutes, in microseconds. A request is given up before.
const MICROS_MAX: u64 = 600_000_000;
/// Significant digits retained.
const DIGITS: u8 = 3;

/// Latencies of answers; empty before the first.
#[derive(Debug, Default)]
pub(super) struct LatencyHistogram(Option<Histogram<u64>>);

/// The median, p99 and maximum of all answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyQuantiles {
    /// The median.
    pub half: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The maximum.
    pub most: Duration,
}

impl LatencyHistogram {
    pub(super) fn record(&mut self, took: Duration) {
        if self.0.is_none() {
            // `new_with_bounds` fails only for invalid bounds, which these are not.
            self.0 = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).ok();
        }
        if let Some(times) = &mut self.0 {
            times.saturating_record(u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX));
        }
    }

    pub(super) fn quantiles(&self) -> Option<LatencyQuantiles> {
        let times = self.0.as_ref()?;
        let at = |quantile| Duration::from_micros(times.value_at_quantile(quantile));
        Some(LatencyQuantiles { half: at(0.5), p99: at(0.99), most: at(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 99 answers of a millisecond, one of a second. Guarantee: the median and p99 are a
    /// millisecond, the maximum is the second; without answers there are no figures.
    #[test]
    fn a_late_answer_is_the_longest_alone() {
        let mut times = LatencyHistogram::default();
        assert_eq!(times.quantiles(), None);
        (0..99).for_each(|_| times.record(Duration::from_millis(1)));
        times.record(Duration::from_secs(1));
        let LatencyQuantiles { half, p99, most } = times.quantiles().unwrap();
        let near = |time: Duration, millis: f64| (time.as_secs_f64() * 1e3 / millis - 1.0).abs();
        assert!(near(half, 1.0) < 0.002 && near(p99, 1.0) < 0.002, "{half:?} {p99:?}");
        assert!(near(most, 1_000.0) < 0.002, "{most:?}");
    }
}
