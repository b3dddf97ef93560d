//! How long a hand-over and a rescue take at most, from the delays around them. Arithmetic alone.

/// A pod that was not heard for so long is taken for dead: four asks of 5 s each missed. With 5 s
/// for the next step and 5 s until the new pod has its document, that is 30 s (`dead_pod_seconds`).
pub const SILENT_SECONDS: i64 = 20;

/// Longest delays, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From the write of a document until its pod has taken it up.
    pub propagation_seconds: i64,
    /// From a pod's taking up until the operator knows of it.
    pub report_seconds: i64,
    /// Between two steps of the operator, its writes included.
    pub step_seconds: i64,
}

impl Default for Delays {
    /// A watch delivers within a second or so, pods are asked every 5 s, and a step takes one of
    /// these rounds at most.
    fn default() -> Self {
        Self { propagation_seconds: 5, report_seconds: 5, step_seconds: 5 }
    }
}

impl Delays {
    /// In a planned move: longest time in which no pod has the target. The old pod stops, its
    /// report comes, the next step writes, the new pod takes it up.
    #[must_use]
    pub fn handover_seconds(self) -> i64 {
        self.report_seconds + self.step_seconds + self.propagation_seconds
    }

    /// In a planned move: most scrapes missed. A target is scraped at the same place of its
    /// interval by whichever pod has it, so a gap no longer than an
    /// interval has one scrape in it at most.
    #[must_use]
    pub fn scrapes_missed(self, interval_seconds: i64) -> i64 {
        let (gap, interval) = (self.handover_seconds(), interval_seconds.max(1));
        (gap + interval - 1) / interval
    }

    /// From a pod's death until other pods have its targets.
    #[must_use]
    pub fn dead_pod_seconds(self, silent_seconds: i64) -> i64 {
        silent_seconds + self.step_seconds + self.propagation_seconds
    }
}
