//! How long answers took, from when a request was due to when it was taken. At a rate, a request
//! that waited for a free caller has waited for the server: without that, a server that stalls
//! would be charged for a few requests only. Fixed size: about 200 KiB.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest that is told apart: ten minutes, in microseconds. A request is given up before.
const MICROS_MAX: u64 = 600_000_000;
/// Significant digits that are kept.
const DIGITS: u8 = 3;

/// Times of answers; empty before the first.
#[derive(Debug, Default)]
pub(super) struct AnswerTimes(Option<Histogram<u64>>);

/// Half of all answers came within the first, 99 of 100 within the second, all within the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerQuantiles {
    /// The median.
    pub half: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub most: Duration,
}

impl AnswerTimes {
    pub(super) fn add(&mut self, took: Duration) {
        if self.0.is_none() {
            // None of bounds that it can't have, which these are not.
            self.0 = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).ok();
        }
        if let Some(times) = &mut self.0 {
            times.saturating_record(u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX));
        }
    }

    pub(super) fn quantiles(&self) -> Option<AnswerQuantiles> {
        let times = self.0.as_ref()?;
        let at = |quantile| Duration::from_micros(times.value_at_quantile(quantile));
        Some(AnswerQuantiles { half: at(0.5), p99: at(0.99), most: at(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 99 answers of a millisecond, one of a second. Guarantee: the median and the 99th
    /// percentile are the many's, the longest is the one; without answers there are no figures.
    #[test]
    fn a_late_answer_is_the_longest_alone() {
        let mut times = AnswerTimes::default();
        assert_eq!(times.quantiles(), None);
        (0..99).for_each(|_| times.add(Duration::from_millis(1)));
        times.add(Duration::from_secs(1));
        let AnswerQuantiles { half, p99, most } = times.quantiles().unwrap();
        let near = |time: Duration, millis: f64| (time.as_secs_f64() * 1e3 / millis - 1.0).abs();
        assert!(near(half, 1.0) < 0.002 && near(p99, 1.0) < 0.002, "{half:?} {p99:?}");
        assert!(near(most, 1_000.0) < 0.002, "{most:?}");
    }
}
