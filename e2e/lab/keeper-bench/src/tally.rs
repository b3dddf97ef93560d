//! What was done, by kind, while it is measured: counts, errors, latencies. One for each thread,
//! added up at the end. Memory doesn't grow with the number of operations.
//!
//! An operation is measured if it began (or was due) after the warm-up. Throughput counts those
//! that ended within the window, whenever they began: operations per second are their number over
//! the window's length, by the clock.

use hdrhistogram::Histogram;

use crate::workload::{KINDS, Kind};

/// Three digits: a latency is told to one part in a thousand.
const DIGITS: u8 = 3;
/// An hour, in nanoseconds: over the longest time limit of an operation.
const LATENCY_MAX: u64 = 3_600_000_000_000;

/// What is measured, in nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// Known beforehand only if the run is bound by time.
    pub(crate) end: Option<u64>,
}

/// Latencies, or none yet: a histogram takes some 200 KB.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        if self.0.is_none() {
            self.0 = Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS).ok();
        }
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(nanoseconds.max(1));
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            // Both have the same bounds, so this can't fail.
            (Some(all), Some(more)) => drop(all.add(more)),
            (all @ None, Some(more)) => *all = Some(more.clone()),
            (_, None) => {}
        }
    }

    pub(crate) fn get(&self) -> Option<&Histogram<u64>> {
        self.0.as_ref()
    }
}

/// One kind's figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct KindTally {
    /// Measured operations, those with errors among them.
    pub(crate) operations: u64,
    /// Ended within the window.
    pub(crate) ended: u64,
    /// Numbers of errors, and how often each came.
    pub(crate) errors: Vec<(i32, u64)>,
    /// Of measured operations that had a reply, be it an error.
    pub(crate) latencies: Latencies,
}

impl KindTally {
    fn error(&mut self, code: i32, count: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == code) {
            Some((_, counted)) => *counted += count,
            None => self.errors.push((code, count)),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.ended += other.ended;
        other.errors.iter().for_each(|(code, count)| self.error(*code, *count));
        self.latencies.add(&other.latencies);
    }
}

/// How an operation came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server replied; 0 is success.
    Replied(i32),
    /// It didn't: the connection broke, or the time limit passed.
    Lost(i32),
}

/// Everything that one thread has counted.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    window: Window,
    pub(crate) kinds: [KindTally; KINDS.len()],
    pub(crate) watches_set: u64,
    pub(crate) watches_fired: u64,
    /// From a change's sending to its notification.
    pub(crate) deliveries: Latencies,
    /// Due within the window, and never sent.
    pub(crate) unsent: u64,
    /// Connections that broke.
    pub(crate) lost: u64,
    /// When the last measured operation ended.
    pub(crate) last_end: u64,
}

impl Tally {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            kinds: Default::default(),
            watches_set: 0,
            watches_fired: 0,
            deliveries: Latencies::default(),
            unsent: 0,
            lost: 0,
            last_end: 0,
        }
    }

    /// An operation ended. True if it counts as an error that isn't ignored.
    pub(crate) fn record(&mut self, kind: Kind, began: u64, ended: u64, outcome: Outcome) {
        let tally = &mut self.kinds[kind as usize];
        let Window { start, end } = self.window;
        if ended >= start && end.is_none_or(|end| ended <= end) {
            tally.ended += u64::from(matches!(outcome, Outcome::Replied(_)));
        }
        if began < start {
            return;
        }
        tally.operations += 1;
        self.last_end = self.last_end.max(ended);
        let (Outcome::Replied(code) | Outcome::Lost(code)) = outcome;
        if code != 0 {
            tally.error(code, 1);
        }
        if matches!(outcome, Outcome::Replied(_)) {
            tally.latencies.record(ended.saturating_sub(began));
        }
    }

    /// A watch was set; `began` as of its request.
    pub(crate) fn watch_set(&mut self, began: u64) {
        self.watches_set += u64::from(began >= self.window.start);
    }

    /// A notification came in; the age of its change, if that was this run's.
    pub(crate) fn watch_fired(&mut self, now: u64, age: Option<u64>) {
        if now >= self.window.start {
            self.watches_fired += 1;
            age.into_iter().for_each(|age| self.deliveries.record(age));
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (all, more) in self.kinds.iter_mut().zip(&other.kinds) {
            all.add(more);
        }
        self.watches_set += other.watches_set;
        self.watches_fired += other.watches_fired;
        self.deliveries.add(&other.deliveries);
        self.unsent += other.unsent;
        self.lost += other.lost;
        self.last_end = self.last_end.max(other.last_end);
    }

    /// How long was measured: the time bound, or to the end of the last operation if that was first.
    pub(crate) fn window_seconds(&self, stopped_early: bool) -> f64 {
        let end = match self.window.end {
            Some(end) if !stopped_early => end,
            _ => self.last_end,
        };
        end.saturating_sub(self.window.start) as f64 / 1e9
    }
}

/// Operations a second: how many ended in the window, over the window's length by the clock. No
/// sum of latencies and no number of sessions comes into it.
pub(crate) fn per_second(ended: u64, window_seconds: f64) -> f64 {
    if window_seconds > 0.0 { ended as f64 / window_seconds } else { 0.0 }
}

#[cfg(test)]
mod tests;
