//! How long a hand-over and a rescue take at most, from the delays around them. Arithmetic only.

/// A pod that was not heard from for so long counts as dead: four polls of 5 s each missed. With 5
/// s for the next step and 5 s until the new pod has its document, that is 30 s
/// (`dead_pod_seconds`).
pub const SILENT_SECONDS: i64 = 20;

/// Maximum delays, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From the write of a document until its pod has applied it.
    pub propagation_seconds: i64,
    /// From a pod's applying a version until the operator knows.
    pub report_seconds: i64,
    /// Between two steps of the operator, its writes included.
    pub step_seconds: i64,
}

impl Default for Delays {
    /// A watch delivers within a second or so, pods are polled every 5 s, and a step takes at most
    /// one of these rounds.
    fn default() -> Self {
        Self { propagation_seconds: 5, report_seconds: 5, step_seconds: 5 }
    }
}

impl Delays {
    /// Returns the longest time without a pod for a target in a planned move. The old pod stops,
    /// its report arrives, the next step writes, the new pod applies the version.
    #[must_use]
    pub fn handover_seconds(self) -> i64 {
        self.report_seconds + self.step_seconds + self.propagation_seconds
    }

    /// Returns the maximum of scrapes missed in a planned move. Every pod scrapes a target at the
    /// same point of its interval, so a gap no longer than an interval misses at most one scrape.
    #[must_use]
    pub fn scrapes_missed(self, interval_seconds: i64) -> i64 {
        let (gap, interval) = (self.handover_seconds(), interval_seconds.max(1));
        (gap + interval - 1) / interval
    }

    /// Returns the time from a pod's death until other pods have its targets.
    #[must_use]
    pub fn dead_pod_seconds(self, silent_seconds: i64) -> i64 {
        silent_seconds + self.step_seconds + self.propagation_seconds
    }
}
