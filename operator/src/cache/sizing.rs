//! Sizing data of each pool between reconciles, and rates between two samples.
//!
//! Kept in memory. Losing it is safe: what must last is in the pool's status (see `gateway::size`),
//! and windows start again. Decides nothing.

use jiff::{SignedDuration, Timestamp};
use millrace_autoscale::{Aged, Group, Partition, State};

use crate::cache::replays::Replays;
use crate::kafka::lag_board::LagObservation;
use crate::pods::PodRates;

/// How often other autoscalers are searched for: people add and remove them rarely.
pub const SCALER_FRESH: SignedDuration = SignedDuration::from_secs(30);

/// What is kept of one pool.
#[derive(Clone, Debug, Default)]
pub struct Sizing {
    /// The rule's memory; `None` until the first decision.
    pub state: Option<State>,
    /// The newest lag sample, with rates since the one before.
    pub group: Option<Aged<Group>>,
    /// What its pods said.
    pub pods: PodRates,
    /// The other autoscaler of its workload, and when it was searched for.
    pub scaler: Option<(Timestamp, Option<String>)>,
    /// When the metrics API was last asked about its pods.
    pub metered_at: Option<Timestamp>,
    /// When the API server last permanently refused to give a pod more, and its message; `None`
    /// after a success.
    pub resize_refused: Option<(Timestamp, String)>,
    /// When it last permanently refused to give a pod less.
    pub shrink_refused_at: Option<Timestamp>,
    /// What its tables remember, and how fast inserts come.
    pub replays: Replays,
    last: Option<LagObservation>,
}

impl Sizing {
    /// Adds a lag sample; rates come from it and the one before. The same sample again changes
    /// nothing.
    pub fn note(&mut self, lag: &LagObservation) {
        let before = self.last.as_ref();
        if before.is_some_and(|before| before.observed_at >= lag.observed_at) {
            return;
        }
        self.group = Some(Aged {
            seen_at: lag.observed_at.as_second(),
            value: Group {
                partitions: partitions(before, lag),
                lag_seconds: lag.seconds,
                within_bound: lag.within_bound,
                bytes_per_message: None,
            },
        });
        self.last = Some(lag.clone());
    }

    /// The newest lag sample, with each partition's reader where pods report it.
    #[must_use]
    pub fn group(&self) -> Option<Aged<Group>> {
        let mut group = self.group.clone()?;
        let offsets = self.last.iter().flat_map(|lag| &lag.offsets);
        for (partition, of) in group.value.partitions.iter_mut().zip(offsets) {
            partition.owner = self.pods.owners.get(&(of.topic.clone(), of.partition)).copied();
        }
        Some(group)
    }

    /// Who else sizes the pool's workload.
    #[must_use]
    pub fn sized_by(&self) -> Option<&str> {
        self.scaler.as_ref().and_then(|(_, scaler)| scaler.as_deref())
    }
}

/// Arrival and commit rates of each partition since the last sample. A new partition, or one whose
/// offsets fell (the topic was recreated), has no rate.
fn partitions(before: Option<&LagObservation>, now: &LagObservation) -> Vec<Partition> {
    let elapsed = before
        .map_or(0.0, |before| now.observed_at.duration_since(before.observed_at).as_secs_f64());
    let rate = |now: i64, then: i64| {
        (elapsed > 0.0 && now >= then).then(|| now.abs_diff(then) as f64 / elapsed)
    };
    let of = |offsets: &crate::kafka::lag_board::PartitionOffsets| {
        let same = |it: &&crate::kafka::lag_board::PartitionOffsets| {
            it.topic == offsets.topic && it.partition == offsets.partition
        };
        let then = before.and_then(|before| before.offsets.iter().find(same));
        Partition {
            arrival_per_second: then.and_then(|then| rate(offsets.end, then.end)),
            commit_per_second: then.and_then(|then| rate(offsets.committed, then.committed)),
            lag_messages: offsets.end.saturating_sub(offsets.committed).max(0).unsigned_abs(),
            owner: None,
        }
    };
    now.offsets.iter().map(of).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/cache/sizing.rs"]
mod tests;
