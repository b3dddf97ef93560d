//! A decision: size, reason, terms, veto, and the earliest time of the next change. It renders to a
//! line for people and to fields for logs; it decides nothing.

use std::fmt;

use crate::decide::need::Terms;
use crate::resources::Resources;
use crate::state::ScalingState;
use crate::vertical::VerticalReason;

/// Why the size is what it is. The names are stable: status, events, metrics and docs use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalingReason {
    /// A person or another autoscaler sets the size.
    Fixed,
    /// The pool starts at its minimum size.
    Initial,
    /// The size was outside its bounds and is clamped.
    Bounds,
    /// More pods have been needed throughout the window.
    LoadGrew,
    /// The lag exceeds its bound, or would before the window ends.
    LagAboveBound,
    /// Fewer pods have sufficed throughout the window.
    LoadFell,
    /// There was next to no lag for long, and a pod's capacity is unknown: one step smaller.
    Idle,
    /// Nothing requires a change.
    Steady,
    /// More is needed, but the pool is at its maximum or has as many pods as partitions.
    MaxReplicasReached,
    /// One partition receives more than one pod can process: more pods can't help it.
    PartitionHot,
    /// Held: a change is required, but its window is not over yet.
    HoldWindow,
    /// Held: the size was changed recently.
    HoldSettling,
    /// Held: too many size changes within the hour.
    HoldRate,
    /// Held: pods are being replaced.
    HoldRollout,
    /// Held: a schema migration is in progress.
    HoldMigration,
    /// Held: a signal is missing or old.
    HoldSignalMissing,
    /// Held: the sink can't accept more; more pods would make it slower.
    HoldSinkBusy,
    /// Held: pods are near their memory limit; fewer pods would hold more each.
    HoldMemory,
    /// Held: growing did not help twice in a row.
    HoldIneffective,
    /// Held: pods get more CPU time first.
    HoldVertical,
}

impl ScalingReason {
    /// All reasons, in the order of the reference.
    pub const ALL: [Self; 20] = [
        Self::Fixed,
        Self::Initial,
        Self::Bounds,
        Self::LoadGrew,
        Self::LagAboveBound,
        Self::LoadFell,
        Self::Idle,
        Self::Steady,
        Self::MaxReplicasReached,
        Self::PartitionHot,
        Self::HoldWindow,
        Self::HoldSettling,
        Self::HoldRate,
        Self::HoldRollout,
        Self::HoldMigration,
        Self::HoldSignalMissing,
        Self::HoldSinkBusy,
        Self::HoldMemory,
        Self::HoldIneffective,
        Self::HoldVertical,
    ];

    /// Returns the stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "Fixed",
            Self::Initial => "Initial",
            Self::Bounds => "Bounds",
            Self::LoadGrew => "LoadGrew",
            Self::LagAboveBound => "LagAboveBound",
            Self::LoadFell => "LoadFell",
            Self::Idle => "Idle",
            Self::Steady => "Steady",
            Self::MaxReplicasReached => "MaxReplicasReached",
            Self::PartitionHot => "PartitionHot",
            Self::HoldWindow => "HoldWindow",
            Self::HoldSettling => "HoldSettling",
            Self::HoldRate => "HoldRate",
            Self::HoldRollout => "HoldRollout",
            Self::HoldMigration => "HoldMigration",
            Self::HoldSignalMissing => "HoldSignalMissing",
            Self::HoldSinkBusy => "HoldSinkBusy",
            Self::HoldMemory => "HoldMemory",
            Self::HoldIneffective => "HoldIneffective",
            Self::HoldVertical => "HoldVertical",
        }
    }

    /// Returns the reason with this name, if one exists.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Returns what it means and what to do about it, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Fixed => "the size is set by spec.replicas; sizing by lag is off",
            Self::Initial => "the pool starts at its smallest size",
            Self::Bounds => "the size was outside minReplicas, maxReplicas or the partitions",
            Self::LoadGrew => "more pods have been needed throughout the window",
            Self::LagAboveBound => "the lag exceeds its bound, or would before new pods work",
            Self::LoadFell => "fewer pods have sufficed throughout the window",
            Self::Idle => "almost no lag for a long time: one step smaller",
            Self::Steady => "the size is right",
            Self::MaxReplicasReached => {
                "more pods are needed, but the pool is at maxReplicas or at the number of \
                 partitions: raise maxReplicas, resources or partitions"
            }
            Self::PartitionHot => {
                "one partition receives more than one pod can process, so more pods don't help: \
                 spread its keys, add partitions, or give pods more CPU"
            }
            Self::HoldWindow => "a change is due once its window has passed",
            Self::HoldSettling => "the size was changed recently: waiting for the group to settle",
            Self::HoldRate => "too many size changes within the hour",
            Self::HoldRollout => "pods are being replaced or started",
            Self::HoldMigration => "a schema migration is in progress",
            Self::HoldSignalMissing => {
                "the lag or a pod's metrics are missing; missing values never count as zero"
            }
            Self::HoldSinkBusy => "ClickHouse is overloaded; more pods would make it slower",
            Self::HoldMemory => "pods are near their memory limit; fewer pods would need more each",
            Self::HoldIneffective => {
                "two increases did not help: check the keys of messages and ClickHouse"
            }
            Self::HoldVertical => "pods get more CPU first, before the pool grows",
        }
    }
}

/// A partition that needs more than one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotPartition {
    /// Its index in the observation's list.
    pub index: usize,
    /// Its arrivals, in messages per second.
    pub arrival_per_second: f64,
    /// The number of partitions with which one pod could serve each, if the keys can be spread.
    pub recommended_partitions: u32,
}

/// A complete decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Desired pods.
    pub replicas: u32,
    /// Pods that the rule would choose without holds.
    pub proposed: u32,
    /// Pods desired before.
    pub from: Option<u32>,
    /// The reason.
    pub reason: ScalingReason,
    /// The calculation; `None` while arrivals or capacity are unknown.
    pub terms: Option<Terms>,
    /// A partition that needs more than one pod.
    pub hot: Option<HotPartition>,
    /// The resources of one pod with their reason, where they are managed.
    pub resources: Option<(Resources, VerticalReason)>,
    /// The earliest time of a change, in seconds on the caller's clock, if a window runs.
    pub earliest_change: Option<i64>,
    /// The state for the next decision.
    pub state: ScalingState,
}

impl Decision {
    /// Returns the figures by name, for logs and metrics; rates in messages per second.
    #[must_use]
    pub fn named_figures(&self) -> Vec<(&'static str, f64)> {
        let mut fields =
            vec![("replicas", f64::from(self.replicas)), ("wanted", f64::from(self.proposed))];
        let Some(terms) = &self.terms else { return fields };
        let Terms {
            arrival_per_second,
            expected_per_second,
            backlog_messages,
            backlog_per_second,
            rebalance_per_second,
            needed_per_second,
            capacity_per_second,
            capacity_measured,
            hottest_per_second,
            size_needed,
            beyond_bounds,
        } = terms;
        fields.extend([
            ("arrival_per_second", *arrival_per_second),
            ("expected_per_second", *expected_per_second),
            ("backlog_messages", *backlog_messages),
            ("backlog_per_second", *backlog_per_second),
            ("rebalance_per_second", *rebalance_per_second),
            ("needed_per_second", *needed_per_second),
            ("capacity_per_second", *capacity_per_second),
            ("capacity_measured", f64::from(u8::from(*capacity_measured))),
            ("hottest_per_second", *hottest_per_second),
            ("size_needed", f64::from(*size_needed)),
            ("beyond_bounds", f64::from(u8::from(*beyond_bounds))),
        ]);
        fields
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Some(from) => write!(out, "{from} -> {}", self.replicas)?,
            None => write!(out, "none -> {}", self.replicas)?,
        }
        write!(out, ": {}", self.reason.meaning())?;
        if self.proposed != self.replicas {
            write!(out, "; {} wanted", self.proposed)?;
        }
        if let Some(terms) = &self.terms {
            write!(
                out,
                " (arrivals {:.0}/s, backlog {:.0} messages, needed {:.0}/s, capacity of a pod \
                 {:.0}/s{})",
                terms.arrival_per_second,
                terms.backlog_messages,
                terms.needed_per_second,
                terms.capacity_per_second,
                if terms.capacity_measured { "" } else { ", estimated" },
            )?;
        }
        if let Some(hot) = &self.hot {
            write!(
                out,
                "; hottest partition {:.0}/s, {} partitions advised",
                hot.arrival_per_second, hot.recommended_partitions
            )?;
        }
        Ok(())
    }
}
