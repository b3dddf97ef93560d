//! The result of a decision: which pod has each target, why, and the load of the pods.

use std::collections::BTreeMap;
use std::fmt;

use millrace_share_documents::{PodName, TargetId, Weight};

/// Why a target has its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementReason {
    /// The same pod had it before.
    Unchanged,
    /// No pod had it before.
    New,
    /// Its pod is gone.
    PodGone,
    /// Its pod is about to end.
    PodLeaving,
    /// Its pod exceeded the cap, and this one had capacity.
    OverCapacity {
        /// How far its pod was over the cap, in thousandths.
        over_permille: i64,
    },
    /// Its pod had more than its share, or this one too little. Thousandths of the fair share.
    Balance {
        /// How far its pod was from the fair share.
        from_permille: i64,
        /// How far this pod was.
        to_permille: i64,
    },
    /// Its pod had more targets than a collector scrapes.
    PodFull,
    /// Its pod had too many targets of its job.
    Spread,
    /// This pod is in its zone.
    Zone,
    /// Every pod is at its cap, and the policy omits new targets.
    CapacityReached,
    /// Every pod has as many targets as a collector scrapes.
    PodsFull,
    /// No pod is ready.
    NoPod,
}

impl PlacementReason {
    /// Returns one word, for metrics and counts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "Unchanged",
            Self::New => "New",
            Self::PodGone => "PodGone",
            Self::PodLeaving => "PodLeaving",
            Self::OverCapacity { .. } => "OverCapacity",
            Self::Balance { .. } => "Balance",
            Self::PodFull => "PodFull",
            Self::Spread => "Spread",
            Self::Zone => "Zone",
            Self::CapacityReached => "CapacityReached",
            Self::PodsFull => "PodsFull",
            Self::NoPod => "NoPod",
        }
    }
}

/// Renders thousandths as percent, with the direction.
struct From(i64);

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.0 < 0 { "under" } else { "over" };
        let permille = self.0.unsigned_abs();
        write!(f, "{}.{} % {side}", permille / 10, permille % 10)
    }
}

impl fmt::Display for PlacementReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("unchanged"),
            Self::New => f.write_str("new"),
            Self::PodGone => f.write_str("moved: its pod no longer exists"),
            Self::PodLeaving => f.write_str("moved: its pod is terminating"),
            Self::OverCapacity { over_permille } => {
                write!(f, "moved: its pod was {} the cap", From(*over_permille))
            }
            Self::Balance { from_permille, to_permille } => {
                let (from, to) = (From(*from_permille), From(*to_permille));
                write!(f, "moved: its pod was {from} the fair share, this one {to}")
            }
            Self::PodFull => f.write_str("moved: its pod has as many targets as it can scrape"),
            Self::Spread => f.write_str("moved: its pod had too many targets of its job"),
            Self::Zone => f.write_str("moved: into its zone"),
            Self::CapacityReached => {
                f.write_str("waiting: every pod is at its cap; add pods or raise the cap")
            }
            Self::PodsFull => {
                f.write_str("waiting: every pod has as many targets as it can scrape; add pods")
            }
            Self::NoPod => f.write_str("waiting: no pod is ready"),
        }
    }
}

/// The pod of a target, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod that is to scrape it.
    pub pod: Option<PodName>,
    /// The pod that had it, if that was another one.
    pub from: Option<PodName>,
    /// The weight that the decision used.
    pub weight: Weight,
    /// The reason.
    pub reason: PlacementReason,
}

/// A ready pod's load after the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodLoad {
    /// The sum of its targets' weights, in thousandths of a sample per second.
    pub millisamples_per_second: u64,
    /// The number of its targets.
    pub targets: u64,
    /// Whether the load exceeds the cap.
    pub over_cap: bool,
}

/// Sums of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionFigures {
    /// A pod's fair share, in thousandths of a sample per second.
    pub fair_millisamples_per_second: u64,
    /// How far the fullest pod is over the fair share, in thousandths of it. A pod with only one
    /// target that is heavier than the share doesn't count.
    pub imbalance_permille: i64,
    /// Targets that leave a working pod by choice: `moves_max` bounds them.
    pub moved: u64,
    /// Their weights.
    pub moved_millisamples_per_second: u64,
    /// Targets of pods that leave, are gone or have more than a collector scrapes.
    pub rescued: u64,
    /// Their weights.
    pub rescued_millisamples_per_second: u64,
    /// Targets that no pod has.
    pub unplaced: u64,
    /// Pods over the cap.
    pub pods_over_capacity: u64,
    /// Pods that the load needs to stay below the cap, if any, and that the number of targets
    /// needs: the size to which a pool of edges should grow. `None` without a cap where one pod is
    /// enough.
    pub needed_pods: Option<u64>,
    /// Whether `moves_max` deferred moves: the next decision continues.
    pub more_to_move: bool,
}

/// The new assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Each target once.
    pub placements: BTreeMap<TargetId, Placement>,
    /// Each ready pod once.
    pub pods: BTreeMap<PodName, PodLoad>,
    /// Sums.
    pub figures: DecisionFigures,
}

impl Decision {
    /// Returns the pod of each placed target: the present assignment of the next decision.
    #[must_use]
    pub fn to_assignment(&self) -> BTreeMap<TargetId, PodName> {
        let placed = self.placements.iter();
        placed.filter_map(|(id, at)| Some((*id, at.pod.clone()?))).collect()
    }
}
