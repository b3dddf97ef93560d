//! What a run cost: six figures, each better when smaller.

/// A change in the direction opposite to the one before it, within this time of it, is a flap.
pub const FLAP_SECONDS: usize = 900;

/// Names of the figures, in order.
pub const AXES: [&str; 6] =
    ["s over bound", "pod-hours", "rebalances", "flaps", "OOM kills", "delayed, thousands"];

/// Below these differences two figures count as equal: half a minute, half a pod-hour, one change
/// of the group, one flap, half a kill, two pod-seconds of records.
const NOISE: [f64; 6] = [30.0, 0.5, 1.0, 1.0, 0.5, 2.0];
/// A figure better by more than this share counts as better.
const BETTER_SHARE: f64 = 0.05;

/// What a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score(pub [f64; 6]);

impl Score {
    /// Seconds in which the oldest message not committed was older than the bound.
    pub const OVER_BOUND: usize = 0;
    /// Pods times hours; half of a pod counts by its memory.
    pub const POD_HOURS: usize = 1;
    /// Rebalances of the group.
    pub const REBALANCES: usize = 2;
    /// Changes of size that were soon taken back.
    pub const FLAPS: usize = 3;
    /// Pods ended for lack of memory.
    pub const OOM_KILLS: usize = 4;
    /// Thousands of messages committed later than the bound.
    pub const DELAYED: usize = 5;

    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Divides by a number of runs.
    #[must_use]
    pub fn over(mut self, runs: f64) -> Self {
        self.0.iter_mut().for_each(|figure| *figure /= runs);
        self
    }

    /// Whether this is better than `other` on an axis by more than noise and a twentieth.
    #[must_use]
    pub fn is_better(&self, other: &Self, axis: usize) -> bool {
        let (mine, theirs) = (self.0[axis], other.0[axis]);
        theirs - mine > NOISE[axis] && theirs - mine > theirs * BETTER_SHARE
    }
}
