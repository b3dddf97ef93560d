//! The policy, and this crate's own windows. Plain values.
//!
//! Each default has its source. The simulator (`millrace-sim`) compares them with other rules;
//! docs/internals/autoscaling/rule.md has the result. Limits: see each field.

use crate::resources::Resources;

/// Who changes the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingMode {
    /// This rule does.
    Act,
    /// Another autoscaler does (an HPA or KEDA targets the pool): the rule only reports its own
    /// choice.
    Recommend,
    /// A person set this size.
    Fixed(u32),
}

/// The policy of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPolicy {
    /// Who changes the size.
    pub mode: ScalingMode,
    /// Minimum pods, at least 1.
    pub min: u32,
    /// Maximum pods, at least 1.
    pub max: u32,
    /// Maximum age of an uncommitted message, in seconds.
    pub lag_bound_seconds: f64,
    /// Time in which a backlog should be worked off, in seconds.
    pub catch_up_seconds: f64,
    /// Share of a pod's capacity that arrivals may use, 0 to 1.
    pub utilisation: f64,
    /// A larger size must be needed for this long before the pool grows, unless waiting would
    /// exceed the bound.
    pub grow_after_seconds: i64,
    /// A size smaller by one pod must have sufficed for this long before the pool shrinks to it; a
    /// size smaller by half, for half as long.
    pub shrink_after_seconds: i64,
    /// The pool never shrinks sooner than this, however much is idle.
    pub shrink_after_min_seconds: i64,
    /// Nothing changes for this long after a change, unless the bound would be exceeded.
    pub stabilization_seconds: i64,
    /// Older signals count as missing.
    pub stale_after_seconds: i64,
    /// From a decision until new pods work: scheduling, start, joining the group.
    pub reaction_seconds: f64,
    /// How long a change of size stops consumption, in seconds; measured where possible.
    pub pause_seconds: f64,
    /// Maximum changes of size per hour.
    pub changes_per_hour: u32,
    /// A pod above this share of its memory limit vetoes fewer pods.
    pub memory_veto_share: f64,
    /// A sink with this much pressure vetoes more pods.
    pub sink_veto_pressure: f64,
    /// Ranges of memory and CPU time; `None` leaves them unchanged.
    pub vertical: Option<VerticalPolicy>,
}

/// Ranges for the resources of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerticalPolicy {
    /// The written resources: pods start with them and never have less CPU time. Requests keep
    /// their share of the limits.
    pub written: Resources,
    /// The minimum memory limit, in bytes.
    pub memory_min_bytes: u64,
    /// The maximum memory limit, in bytes; a maximum up to the minimum leaves the limit unchanged.
    pub memory_max_bytes: u64,
    /// Maximum CPU time, in thousandths of a core: of the limit, or of the request where no limit
    /// is written; `None` leaves both as written.
    pub cpu_max_millicores: Option<u64>,
}

impl ScalingPolicy {
    /// Returns the defaults between the given sizes.
    ///
    /// - 0.9 of capacity: partitions per pod come in whole numbers, which leaves a tenth to a fifth
    ///   of slack on top; the log itself absorbs what is shorter than the bound.
    /// - Growing after two minutes: a rebalance costs seconds of consumption and must not follow
    ///   noise. Urgent growth does not wait (`reaction_seconds`).
    /// - Shrinking after half an hour for one pod of many: the next peak often comes within it, and
    ///   a pod too many for half an hour costs less than two rebalances and a late start.
    /// - Settling three minutes: a rebalance and the catching-up with it.
    /// - Stale after a minute: six observations missed.
    /// - Reaction 45 s: scheduling and start about 30 s, joining about 15 s.
    /// - Pause 10 s: between an eager rebalance (some 15 s) and an incremental one (2 s).
    #[must_use]
    pub fn with_bounds(min: u32, max: u32) -> Self {
        let min = min.max(1);
        Self {
            mode: ScalingMode::Act,
            min,
            max: max.max(min),
            lag_bound_seconds: 60.0,
            catch_up_seconds: 300.0,
            utilisation: 0.9,
            grow_after_seconds: 120,
            shrink_after_seconds: 30 * 60,
            shrink_after_min_seconds: 5 * 60,
            stabilization_seconds: 180,
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
