//! An observation of a pool: the group's partitions, its pods and its sink, each with its time.
//! Plain values; judges nothing.
//!
//! Counts are in messages, as the broker counts them. An unknown value is `None` or missing from
//! its list, and never zero. Limits: partitions and pods are as many as the caller gives.

/// A figure and when it was seen, in seconds on the caller's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Aged<T> {
    /// When it was seen.
    pub seen_at: i64,
    /// What was seen.
    pub value: T,
}

impl<T> Aged<T> {
    /// The figure, unless it is older than `max_age_seconds` at `now`.
    #[must_use]
    pub fn fresh(&self, now: i64, max_age_seconds: i64) -> Option<&T> {
        (now.saturating_sub(self.seen_at) <= max_age_seconds).then_some(&self.value)
    }
}

/// Everything that is seen at one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Now, in seconds on the caller's clock.
    pub now: i64,
    /// Pods wanted at the moment; `None` before the pool was ever made.
    pub current: Option<u32>,
    /// Whether pods are as wanted.
    pub transition: Transition,
    /// What a pod's speed depends on: image digest, allocator, configuration hash, resources.
    /// Capacity is learned for each; empty when not known.
    pub capacity_key: String,
    /// The consumer group; `None` when the broker has not told.
    pub group: Option<Aged<Group>>,
    /// The pods that told about themselves; one that no longer does stays, with its age.
    pub pods: Vec<Aged<Pod>>,
    /// The sink; `None` when no pod told about it.
    pub sink: Option<Aged<Sink>>,
}

/// Whether pods are as wanted, or on their way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// All wanted pods run.
    Settled,
    /// Pods start or end because the size was changed.
    Scaling,
    /// Pods are being replaced: another template, a node that is drained.
    Rollout,
    /// A schema migration or its backfill is under way.
    Migration,
}

/// The consumer group at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its partitions, of all topics, always in the same order.
    pub partitions: Vec<Partition>,
    /// Age of the oldest message not committed, in seconds, where the broker could tell.
    pub lag_seconds: Option<f64>,
    /// Whether everything older than the bound is committed.
    pub within_bound: bool,
    /// Mean size of a message in bytes, where it is known.
    pub bytes_per_message: Option<f64>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    /// Messages that arrived, per second, since the look before; `None` at the first look.
    pub arrival_per_second: Option<f64>,
    /// Messages committed, per second, since the look before; `None` at the first look.
    pub commit_per_second: Option<f64>,
    /// Messages not committed.
    pub lag_messages: u64,
    /// The ordinal of the pod that reads it, where it is known.
    pub owner: Option<u32>,
}

/// One pod, as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its ordinal in the pool.
    pub ordinal: u32,
    /// Share of its processor time that is used, 0 to 1; `None` when there is no limit to hold it
    /// against.
    pub busy: Option<f64>,
    /// Processor time used, in thousandths of a core.
    pub cpu_millicores: Option<f64>,
    /// Its limit of processor time, in thousandths of a core, if it has one.
    pub cpu_limit_millicores: Option<u64>,
    /// Memory in use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Its memory limit, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// How often it was ended for using more memory than its limit, since the pool was made.
    pub oom_kills: u32,
}

/// What the pods say of the sink they write to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sink {
    /// Share of inserts, 0 to 1, that the sink did not take: busy, away, or in need of a person.
    /// Rows it can't store for what is in them don't count.
    pub pressure: f64,
}
