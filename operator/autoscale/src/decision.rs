//! A decision: size, reason, terms, veto, and the earliest time of the next change. It renders to a
//! line for people and to fields for logs; nothing is decided here.

use std::fmt;

use crate::need::Terms;
use crate::resources::Resources;
use crate::state::State;
use crate::vertical::VerticalReason;

/// Why the size is what it is. Stable words: they stand in status, events, metrics and docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The size is set by a person or another autoscaler.
    Fixed,
    /// The pool starts at its smallest size.
    Initial,
    /// The size was outside its bounds and is put inside.
    Bounds,
    /// More pods were needed for a while.
    NeedGrew,
    /// The lag would break its bound, or has broken it, before waiting is over.
    LagAboveBound,
    /// Fewer pods have sufficed for long.
    NeedFell,
    /// There was next to no lag for long, and what a pod can do is not known: one step smaller.
    Idle,
    /// Nothing calls for a change.
    Steady,
    /// More is needed, but the pool is as large as its maximum or its partitions allow.
    AtCeiling,
    /// One partition gets more than one pod can do: more pods can't help it.
    PartitionHot,
    /// Held: a change is called for, but its window is not over yet.
    HoldWindow,
    /// Held: the size was changed a short while ago.
    HoldSettling,
    /// Held: the size was changed too often within the hour.
    HoldRate,
    /// Held: pods are being replaced.
    HoldRollout,
    /// Held: a schema migration is under way.
    HoldMigration,
    /// Held: a signal is missing or old.
    HoldSignalMissing,
    /// Held: the sink can't take more; more pods would make it slower.
    HoldSinkBusy,
    /// Held: pods are near their memory limit; fewer pods would hold more each.
    HoldMemory,
    /// Held: growing did not help twice.
    HoldIneffective,
    /// Held: pods get more processor time first.
    HoldVertical,
}

impl Reason {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 20] = [
        Self::Fixed,
        Self::Initial,
        Self::Bounds,
        Self::NeedGrew,
        Self::LagAboveBound,
        Self::NeedFell,
        Self::Idle,
        Self::Steady,
        Self::AtCeiling,
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

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "Fixed",
            Self::Initial => "Initial",
            Self::Bounds => "Bounds",
            Self::NeedGrew => "NeedGrew",
            Self::LagAboveBound => "LagAboveBound",
            Self::NeedFell => "NeedFell",
            Self::Idle => "Idle",
            Self::Steady => "Steady",
            Self::AtCeiling => "AtCeiling",
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

    /// The reason with this word, if there is one.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// What it means and what to do about it, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Fixed => "the size is set by spec.replicas; sizing by lag is off",
            Self::Initial => "the pool starts at its smallest size",
            Self::Bounds => "the size was outside minReplicas, maxReplicas or the partitions",
            Self::NeedGrew => "more pods were needed for a while",
            Self::LagAboveBound => "the lag has broken its bound, or would before new pods work",
            Self::NeedFell => "fewer pods have sufficed for long",
            Self::Idle => "there was next to no lag for long: one step smaller",
            Self::Steady => "nothing calls for another size",
            Self::AtCeiling => {
                "more is needed but the pool is at maxReplicas or its partitions; raise \
                 maxReplicas, resources or partitions"
            }
            Self::PartitionHot => {
                "one partition gets more than one pod can do: more pods can't help it; spread its \
                 keys, add partitions, or give pods more processor time"
            }
            Self::HoldWindow => "a change is called for once this has lasted long enough",
            Self::HoldSettling => "the size was changed a short while ago; the group settles first",
            Self::HoldRate => "the size was changed too often within the hour",
            Self::HoldRollout => "pods are being replaced or started",
            Self::HoldMigration => "a schema migration is under way",
            Self::HoldSignalMissing => {
                "the lag is not known, or a pod no longer tells of itself before the pool shrinks; \
                 that is never taken for none"
            }
            Self::HoldSinkBusy => "ClickHouse can't take more; more pods would make it slower",
            Self::HoldMemory => "pods are near their memory limit; fewer would hold more each",
            Self::HoldIneffective => "growing did not help twice; look at keys and ClickHouse",
            Self::HoldVertical => "pods get more processor time before there are more of them",
        }
    }
}

/// A partition that one pod can't serve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotPartition {
    /// Its place in the observation's list.
    pub index: usize,
    /// What arrives there, in messages per second.
    pub arrival_per_second: f64,
    /// Partitions that would let one pod serve each, if its keys can be spread.
    pub partitions_advised: u32,
}

/// A decision, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Pods to want.
    pub replicas: u32,
    /// Pods the rule would want if nothing held it back.
    pub wanted: u32,
    /// Pods wanted before.
    pub from: Option<u32>,
    /// Why.
    pub reason: Reason,
    /// What it rests on; `None` while arrivals or capacity are not known.
    pub terms: Option<Terms>,
    /// A partition that more pods can't help.
    pub hot: Option<HotPartition>,
    /// Resources of one pod and why, where they are managed.
    pub resources: Option<(Resources, VerticalReason)>,
    /// When a change could come at the earliest, in seconds on the caller's clock, if a window
    /// runs.
    pub earliest_change: Option<i64>,
    /// What to remember for the next decision.
    pub state: State,
}

impl Decision {
    /// The figures by name, for logs and metrics; rates in messages per second.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, f64)> {
        let mut fields =
            vec![("replicas", f64::from(self.replicas)), ("wanted", f64::from(self.wanted))];
        let Some(terms) = &self.terms else { return fields };
        let Terms {
            arrival_per_second,
            expected_per_second,
            backlog_messages,
            backlog_per_second,
            pause_per_second,
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
            ("pause_per_second", *pause_per_second),
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
        if self.wanted != self.replicas {
            write!(out, "; {} wanted", self.wanted)?;
        }
        if let Some(terms) = &self.terms {
            write!(
                out,
                " ({:.0}/s arrive, {:.0} messages behind, {:.0}/s needed, a pod does {:.0}/s{})",
                terms.arrival_per_second,
                terms.backlog_messages,
                terms.needed_per_second,
                terms.capacity_per_second,
                if terms.capacity_measured { "" } else { " by estimate" },
            )?;
        }
        if let Some(hot) = &self.hot {
            write!(
                out,
                "; hottest partition {:.0}/s, {} partitions advised",
                hot.arrival_per_second, hot.partitions_advised
            )?;
        }
        Ok(())
    }
}
