//! The policy, and this crate's own windows. Plain values.
//!
//! Each default has its source. The simulator (`millrace-sim`) compares them with other rules;
//! docs/autoscaling.md has the result. Limits: see each field.

use crate::resources::Resources;

/// Who changes the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This rule does.
    Act,
    /// Someone else does (an HPA or KEDA targets the pool): the rule only says what it would want.
    Recommend,
    /// A person set this size.
    Fixed(u32),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Who changes the size.
    pub mode: Mode,
    /// Fewest pods, at least 1.
    pub min: u32,
    /// Most pods, at least 1.
    pub max: u32,
    /// Largest age of a message not committed, in seconds.
    pub lag_bound_seconds: f64,
    /// Time in which a backlog is to be worked off, in seconds.
    pub catch_up_seconds: f64,
    /// Share of a pod's capacity that arrivals may take, 0 to 1.
    pub utilisation: f64,
    /// A larger size must be needed for this long before the pool grows, unless the bound would be
    /// broken by waiting.
    pub grow_after_seconds: i64,
    /// A size smaller by one pod must have sufficed for this long before the pool shrinks to it; a
    /// size smaller by half, for half as long.
    pub shrink_after_seconds: i64,
    /// Whatever is idle, the pool shrinks no sooner than this.
    pub shrink_after_min_seconds: i64,
    /// After a change nothing is changed for this long, unless the bound would be broken.
    pub settle_seconds: i64,
    /// What is older counts as missing.
    pub stale_after_seconds: i64,
    /// From a decision until new pods work: scheduling, start, joining the group.
    pub reaction_seconds: f64,
    /// How long a change of size stops consumption, in seconds; measured where it is known.
    pub pause_seconds: f64,
    /// Changes of size per hour at most.
    pub changes_per_hour: u32,
    /// A pod above this share of its memory limit vetoes fewer pods.
    pub memory_veto_share: f64,
    /// A sink with this much pressure vetoes more pods.
    pub sink_veto_pressure: f64,
    /// Memory and processor time may move between these; `None` leaves them as they are.
    pub vertical: Option<VerticalPolicy>,
}

/// Ranges for the resources of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerticalPolicy {
    /// What is written down: pods start with it and never have less processor time. What is
    /// requested of a limit stays this share of it.
    pub written: Resources,
    /// The least memory limit, in bytes.
    pub memory_min_bytes: u64,
    /// The largest memory limit, in bytes; no more than the least leaves it as it is.
    pub memory_max_bytes: u64,
    /// The most processor time, in thousandths of a core: the largest limit, or where none is
    /// written the most that is requested; `None` leaves both as written.
    pub cpu_max_millicores: Option<u64>,
}

impl Policy {
    /// The defaults between the given sizes.
    ///
    /// - 0.9 of capacity: partitions per pod come in whole numbers, which leaves a tenth to a fifth
    ///   of slack on top; the log itself absorbs what is shorter than the bound.
    /// - Growing after two minutes: a rebalance costs seconds of consumption and must not follow
    ///   noise. What can't wait doesn't (`reaction_seconds`).
    /// - Shrinking after half an hour for one pod of many: the next peak often comes within it, and
    ///   a pod too many for half an hour costs less than two rebalances and a late start.
    /// - Settling three minutes: a rebalance and the catching-up with it.
    /// - Stale after a minute: six looks missed.
    /// - Reaction 45 s: scheduling and start about 30 s, joining about 15 s.
    /// - Pause 10 s: between an eager rebalance (some 15 s) and an incremental one (2 s).
    #[must_use]
    pub fn between(min: u32, max: u32) -> Self {
        let min = min.max(1);
        Self {
            mode: Mode::Act,
            min,
            max: max.max(min),
            lag_bound_seconds: 60.0,
            catch_up_seconds: 300.0,
            utilisation: 0.9,
            grow_after_seconds: 120,
            shrink_after_seconds: 30 * 60,
            shrink_after_min_seconds: 5 * 60,
            settle_seconds: 180,
            stale_after_seconds: 60,
            reaction_seconds: 45.0,
            pause_seconds: 10.0,
            changes_per_hour: 8,
            memory_veto_share: 0.85,
            sink_veto_pressure: 0.2,
            vertical: None,
        }
    }
}
