//! Arrival rates: two smoothed means, rates by partition, and the maximum of each minute.
//!
//! The fast mean follows a change within half a minute, the slow one within three; their difference
//! is the trend. A step counts once two observations in a row show it. A gap in the signals clears
//! the maxima, so that no pod is removed for lack of data. Limits: maxima of `MINUTES_MAX`.

use std::collections::VecDeque;

use crate::observation::{Aged, ConsumerGroup};

const FAST_SECONDS: f64 = 30.0;
const SLOW_SECONDS: f64 = 180.0;
/// Length of one interval of maxima.
const BUCKET_SECONDS: i64 = 60;
/// Four hours: the longest window (half an hour, doubled at most three times by regret).
const MINUTES_MAX: usize = 240;
/// A rate this many times the newest observation's has ended: more than an observation's noise.
const FADING: f64 = 1.25;
/// A trend smaller than this share of the mean is noise.
const TREND_MIN_SHARE: f64 = 0.06;

/// The arrivals so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrivals {
    observed_at: Option<i64>,
    last: [f64; 2],
    fast: f64,
    slow: f64,
    committed: f64,
    partitions: Vec<f64>,
    newest: Vec<f64>,
    highs: VecDeque<(i64, f64)>,
    known_since: Option<i64>,
}

impl Arrivals {
    /// Records one observation; the same one again changes nothing.
    pub(crate) fn record_rates(&mut self, group: &Aged<ConsumerGroup>) {
        let at = group.observed_at;
        let partitions = &group.value.partitions;
        let rates: Option<Vec<f64>> = partitions.iter().map(|it| it.arrival_per_second).collect();
        let Some(rates) = rates.filter(|rates| !rates.is_empty()) else { return };
        if self.observed_at.is_some_and(|previous| at <= previous) {
            return;
        }
        let total: f64 = rates.iter().sum();
        let committed = partitions.iter().filter_map(|it| it.commit_per_second).sum();
        match self.observed_at {
            Some(previous) if rates.len() == self.partitions.len() => {
                let elapsed = (at - previous) as f64;
                let fast = 1.0 - (-elapsed / FAST_SECONDS).exp();
                self.fast += fast * (total - self.fast);
                self.slow += (1.0 - (-elapsed / SLOW_SECONDS).exp()) * (total - self.slow);
                self.committed += fast * (committed - self.committed);
                for (mean, rate) in self.partitions.iter_mut().zip(&rates) {
                    *mean += fast * (rate - *mean);
                }
                self.last = [self.last[1], total];
            }
            _ => {
                (self.fast, self.slow, self.committed) = (total, total, committed);
                self.last = [total, total];
                self.partitions = rates;
            }
        }
        self.newest = partitions.iter().filter_map(|it| it.arrival_per_second).collect();
        self.observed_at = Some(at);
        self.known_since = self.known_since.or(Some(at));
        self.remember_high(at);
    }

    /// Records a missing observation: the maxima no longer cover the time without a break.
    pub(crate) fn record_gap(&mut self) {
        self.highs.clear();
        self.known_since = None;
    }

    fn remember_high(&mut self, at: i64) {
        let start = at - at.rem_euclid(BUCKET_SECONDS);
        match self.highs.back_mut() {
            Some((bucket, high)) if *bucket == start => *high = high.max(self.fast),
            _ => self.highs.push_back((start, self.fast)),
        }
        while self.highs.len() > MINUTES_MAX {
            self.highs.pop_front();
        }
    }

    /// Returns whether any observation was recorded.
    pub(crate) fn is_known(&self) -> bool {
        self.observed_at.is_some()
    }

    /// Returns the present messages per second: the fast mean or, if higher, what the last two
    /// observations both show.
    pub(crate) fn current_rate(&self) -> f64 {
        self.fast.max(self.last[0].min(self.last[1]))
    }

    /// Returns the messages per second expected in `horizon_seconds`, if a rise continues; never
    /// less than now.
    pub(crate) fn expected_rate(&self, horizon_seconds: f64) -> f64 {
        let present = self.current_rate();
        let rise = self.fast - self.slow;
        // A rate far above the fast mean is a step, not a trend.
        let stepped = present > self.fast * (1.0 + TREND_MIN_SHARE);
        if stepped || rise <= self.slow * TREND_MIN_SHARE {
            return present;
        }
        let slope = rise / (SLOW_SECONDS - FAST_SECONDS);
        present + slope * horizon_seconds
    }

    /// Returns the messages committed per second, smoothed.
    pub(crate) fn commit_rate(&self) -> f64 {
        self.committed
    }

    /// Returns the messages per second of each partition, smoothed.
    pub(crate) fn partition_rates(&self) -> &[f64] {
        &self.partitions
    }

    /// Returns the highest partition rate that the newest observation still shows: a load that has
    /// just ended takes a minute to fade from the means, and the pool should not be sized for it.
    pub(crate) fn hottest_rate(&self) -> f64 {
        let shown = self.partitions.iter().zip(&self.newest);
        shown.map(|(mean, newest)| mean.min(newest * FADING)).fold(0.0, f64::max)
    }

    /// Returns the smoothed total of all partitions.
    pub(crate) fn smoothed_rate(&self) -> f64 {
        self.fast
    }

    /// Returns since when arrivals have stayed at or below `level` without a break, as far as is
    /// known.
    pub(crate) fn at_most_since(&self, level: f64) -> Option<i64> {
        let known_since = self.known_since?;
        let above = self.highs.iter().rev().find(|(_, high)| *high > level);
        let after = above.map(|(start, _)| start + BUCKET_SECONDS);
        Some(after.map_or(known_since, |after| after.max(known_since)))
    }
}

#[cfg(test)]
mod tests;
