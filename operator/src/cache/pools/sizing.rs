//! Sizing data of each pool between reconciles, and rates between two samples.
//!
//! In memory; losing it is safe: the pool's status holds all lasting state (see `gateway::size`),
//! and windows start again. Decides nothing.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use millrace_autoscale::{Aged, ConsumerGroup, PartitionLoad, ScalingState};

use crate::cache::pools::replays::Replays;
use crate::kafka::lag_cache::LagObservation;
use crate::pods::PodRates;

/// How often other autoscalers are searched for: people add and remove them rarely.
pub const SCALER_FRESH: SignedDuration = SignedDuration::from_secs(30);

/// The same while nobody but the operator sizes the workload, and its size stays.
pub const SETTLED_SCALER_FRESH: SignedDuration = SignedDuration::from_secs(300);

/// A pod resize that the API server refused.
#[derive(Clone, Debug)]
pub struct ResizeRefusal {
    /// When the API server refused it.
    pub at: Timestamp,
    /// The container's resources in the request.
    pub requested: serde_json::Value,
    /// The server's message.
    pub cause: String,
}

/// The sizing data of one pool.
#[derive(Clone, Debug, Default)]
pub struct Sizing {
    /// The state of the sizing rule; `None` until the first decision.
    pub state: Option<ScalingState>,
    /// The newest lag sample, with rates since the one before.
    pub group: Option<Aged<ConsumerGroup>>,
    /// The samples that the pool's pods reported.
    pub pods: PodRates,
    /// The other autoscaler of the pool's workload, and when it was searched for.
    pub scaler: Option<(Timestamp, Option<String>)>,
    /// When the metrics API was last queried about the pool's pods.
    pub metered_at: Option<Timestamp>,
    /// Resizes that the API server refused, by pod.
    pub resizes_refused: BTreeMap<String, ResizeRefusal>,
    /// The deduplication windows and insert rates of the pool's tables.
    pub replays: Replays,
    last: Option<LagObservation>,
}

impl Sizing {
    /// Adds a lag sample; rates come from it and the one before. The same sample again changes
    /// nothing.
    pub fn record_lag(&mut self, lag: &LagObservation) {
        let before = self.last.as_ref();
        if before.is_some_and(|before| before.observed_at >= lag.observed_at) {
            return;
        }
        self.group = Some(Aged {
            observed_at: lag.observed_at.as_second(),
            value: ConsumerGroup {
                partitions: partition_rates(before, lag),
                lag_seconds: lag.seconds,
                within_bound: lag.within_bound,
                bytes_per_message: None,
            },
        });
        self.last = Some(lag.clone());
    }

    /// Returns the newest lag sample, with each partition's reader where pods report it.
    #[must_use]
    pub fn group_with_owners(&self) -> Option<Aged<ConsumerGroup>> {
        let mut group = self.group.clone()?;
        let owners = self.pods.partition_owners();
        let offsets = self.last.iter().flat_map(|lag| &lag.offsets);
        for (partition, of) in group.value.partitions.iter_mut().zip(offsets) {
            partition.owner = owners.get(&(of.topic.as_str(), of.partition)).copied();
        }
        Some(group)
    }

    /// Returns the other autoscaler of the pool's workload.
    #[must_use]
    pub fn sized_by(&self) -> Option<&str> {
        self.scaler.as_ref().and_then(|(_, scaler)| scaler.as_deref())
    }
}

/// Returns arrival and commit rates of each partition since the last sample. A new partition, or
/// one whose offsets fell (the topic was recreated), has no rate.
fn partition_rates(before: Option<&LagObservation>, now: &LagObservation) -> Vec<PartitionLoad> {
    let elapsed = before
        .map_or(0.0, |before| now.observed_at.duration_since(before.observed_at).as_secs_f64());
    let rate = |now: i64, then: i64| {
        (elapsed > 0.0 && now >= then).then(|| now.abs_diff(then) as f64 / elapsed)
    };
    let of = |offsets: &crate::kafka::lag_cache::PartitionOffsets| {
        let same = |it: &&crate::kafka::lag_cache::PartitionOffsets| {
            it.topic == offsets.topic && it.partition == offsets.partition
        };
        let then = before.and_then(|before| before.offsets.iter().find(same));
        PartitionLoad {
            arrival_per_second: then.and_then(|then| rate(offsets.end, then.end)),
            commit_per_second: then.and_then(|then| rate(offsets.committed, then.committed)),
            lag_messages: offsets.end.saturating_sub(offsets.committed).max(0).unsigned_abs(),
            owner: None,
        }
    };
    now.offsets.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
