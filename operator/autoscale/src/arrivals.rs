//! Arrival rates: smoothed twice, by partition, and the highest of each minute.
//!
//! The fast mean follows a change within half a minute, the slow one within three; their difference
//! is the trend. A step counts once two observations in a row show it. A gap in the signals forgets
//! the highs, so that no pod is removed for lack of data. Limits: highs of `MINUTES_MAX`.

use std::collections::VecDeque;

use crate::observation::{Aged, Group};

const FAST_SECONDS: f64 = 30.0;
const SLOW_SECONDS: f64 = 180.0;
/// Length of one remembered interval.
const BUCKET_SECONDS: i64 = 60;
/// Four hours: the longest window (half an hour, doubled at most three times by regret).
const MINUTES_MAX: usize = 240;
/// A rate this many times the newest look's is one that has ended: more than a look's noise.
const FADING: f64 = 1.25;
/// A trend smaller than this share of the mean is noise.
const TREND_MIN_SHARE: f64 = 0.06;

/// What arrived so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrivals {
    seen_at: Option<i64>,
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
    /// Takes one look; the same look again changes nothing.
    pub(crate) fn note(&mut self, group: &Aged<Group>) {
        let at = group.seen_at;
        let partitions = &group.value.partitions;
        let rates: Option<Vec<f64>> = partitions.iter().map(|it| it.arrival_per_second).collect();
        let Some(rates) = rates.filter(|rates| !rates.is_empty()) else { return };
        if self.seen_at.is_some_and(|seen| at <= seen) {
            return;
        }
        let total: f64 = rates.iter().sum();
        let committed = partitions.iter().filter_map(|it| it.commit_per_second).sum();
        match self.seen_at {
            Some(seen) if rates.len() == self.partitions.len() => {
                let elapsed = (at - seen) as f64;
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
        self.seen_at = Some(at);
        self.known_since = self.known_since.or(Some(at));
        self.remember_high(at);
    }

    /// Nothing was seen: what is remembered no longer covers the time without a break.
    pub(crate) fn gap(&mut self) {
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

    /// Whether anything was seen yet.
    pub(crate) fn is_known(&self) -> bool {
        self.seen_at.is_some()
    }

    /// Messages per second now: the fast mean, or what the last two looks both show if that is
    /// more.
    pub(crate) fn present(&self) -> f64 {
        self.fast.max(self.last[0].min(self.last[1]))
    }

    /// Messages per second in `horizon_seconds`, if a rise goes on; never less than now.
    pub(crate) fn expected(&self, horizon_seconds: f64) -> f64 {
        let present = self.present();
        let rise = self.fast - self.slow;
        // What the means have not caught up with is a step, and a step is no trend.
        let stepped = present > self.fast * (1.0 + TREND_MIN_SHARE);
        if stepped || rise <= self.slow * TREND_MIN_SHARE {
            return present;
        }
        let slope = rise / (SLOW_SECONDS - FAST_SECONDS);
        present + slope * horizon_seconds
    }

    /// Messages committed per second, smoothed.
    pub(crate) fn committed(&self) -> f64 {
        self.committed
    }

    /// Messages per second of each partition, smoothed.
    pub(crate) fn partitions(&self) -> &[f64] {
        &self.partitions
    }

    /// The highest of them that the newest look still shows: what has just ended fades from the
    /// means within a minute, and isn't what a pool should be cut to meanwhile.
    pub(crate) fn hottest(&self) -> f64 {
        let shown = self.partitions.iter().zip(&self.newest);
        shown.map(|(mean, newest)| mean.min(newest * FADING)).fold(0.0, f64::max)
    }

    /// The smoothed total that `partitions` adds up to.
    pub(crate) fn smoothed(&self) -> f64 {
        self.fast
    }

    /// Since when arrivals have stayed at or below `level` without a break, as far as is known.
    pub(crate) fn at_most_since(&self, level: f64) -> Option<i64> {
        let known_since = self.known_since?;
        let above = self.highs.iter().rev().find(|(_, high)| *high > level);
        let after = above.map(|(start, _)| start + BUCKET_SECONDS);
        Some(after.map_or(known_since, |after| after.max(known_since)))
    }
}

#[cfg(test)]
#[path = "../tests/unit/arrivals.rs"]
mod tests;
