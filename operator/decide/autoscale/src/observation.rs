//! An observation of a pool: the group's partitions, its pods and its sink, each with its time.
//! Plain values without judgement.
//!
//! Counts are in messages, as the broker counts them. An unknown value is `None` or missing from
//! its list, and never zero. Limits: partitions and pods are as many as the caller gives.

/// A figure with the time of its observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Aged<T> {
    /// The time, in seconds on the caller's clock.
    pub observed_at: i64,
    /// The figure.
    pub value: T,
}

impl<T> Aged<T> {
    /// Returns the figure, unless it is older than `max_age_seconds` at `now`.
    #[must_use]
    pub fn if_fresh(&self, now: i64, max_age_seconds: i64) -> Option<&T> {
        (now.saturating_sub(self.observed_at) <= max_age_seconds).then_some(&self.value)
    }
}

/// All figures of one reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Now, in seconds on the caller's clock.
    pub now: i64,
    /// Pods desired at the moment; `None` before the pool was ever created.
    pub current: Option<u32>,
    /// The transition that the pods are in.
    pub transition: Transition,
    /// All that a pod's speed depends on: image digest, allocator, configuration hash, resources.
    /// Capacity is learned for each key; empty when unknown.
    pub capacity_key: String,
    /// The consumer group; `None` when the broker has not reported it.
    pub group: Option<Aged<ConsumerGroup>>,
    /// The pods that reported; one that no longer does stays, with its age.
    pub pods: Vec<Aged<PodReport>>,
    /// The sink; `None` when no pod reported it.
    pub sink: Option<Aged<SinkReport>>,
}

/// Whether pods are as desired, or in transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// All desired pods run.
    Stable,
    /// Pods start or end because the size was changed.
    Scaling,
    /// Pods are being replaced: another template, a node that is drained.
    Rollout,
    /// A schema migration or its backfill is under way.
    Migration,
}

/// The consumer group at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroup {
    /// Its partitions, of all topics, always in the same order.
    pub partitions: Vec<PartitionLoad>,
    /// Age of the oldest uncommitted message, in seconds, if the broker reported it.
    pub lag_seconds: Option<f64>,
    /// Whether everything older than the bound is committed.
    pub within_bound: bool,
    /// Mean size of a message in bytes, if known.
    pub bytes_per_message: Option<f64>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionLoad {
    /// Messages that arrived, per second, since the previous observation; `None` at the first.
    pub arrival_per_second: Option<f64>,
    /// Messages committed, per second, since the previous observation; `None` at the first.
    pub commit_per_second: Option<f64>,
    /// Messages not committed.
    pub lag_messages: u64,
    /// The ordinal of the pod that reads it, if known.
    pub owner: Option<u32>,
}

/// One pod, as it reports itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodReport {
    /// Its ordinal in the pool.
    pub ordinal: u32,
    /// Share of its CPU limit that is used, 0 to 1; `None` without a limit.
    pub busy: Option<f64>,
    /// CPU time used, in thousandths of a core.
    pub cpu_millicores: Option<f64>,
    /// Its CPU limit, in thousandths of a core, if it has one.
    pub cpu_limit_millicores: Option<u64>,
    /// Memory in use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Its memory limit, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// How often it was OOM-killed since the pool was created.
    pub oom_kills: u32,
}

/// The sink, as its pods report it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SinkReport {
    /// Share of inserts, 0 to 1, that the sink did not accept: busy, away, or in need of a person.
    /// Rows that it can't store because of their content don't count.
    pub pressure: f64,
}
