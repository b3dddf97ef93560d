//! What a decision says: where each target is, why, and what that does to the pods.

use std::collections::BTreeMap;
use std::fmt;

use crate::pod::PodName;
use crate::target::{TargetId, Weight};

/// Why a target is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was there.
    Kept,
    /// It was nowhere.
    New,
    /// Its pod is gone.
    PodGone,
    /// Its pod is about to end.
    PodLeaving,
    /// Its pod had more than the cap, and this one had room.
    OverCap {
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
    /// Its pod had too many targets of its job.
    Spread,
    /// This pod is in its zone.
    Zone,
    /// Every pod is at its cap, and the policy leaves new targets out.
    CapReached,
    /// No pod is ready.
    NoPod,
}

impl Reason {
    /// One word, for metrics and counts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "Kept",
            Self::New => "New",
            Self::PodGone => "PodGone",
            Self::PodLeaving => "PodLeaving",
            Self::OverCap { .. } => "OverCap",
            Self::Balance { .. } => "Balance",
            Self::Spread => "Spread",
            Self::Zone => "Zone",
            Self::CapReached => "CapReached",
            Self::NoPod => "NoPod",
        }
    }
}

/// Thousandths as percent, with the side.
struct From(i64);

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.0 < 0 { "under" } else { "over" };
        let permille = self.0.unsigned_abs();
        write!(f, "{}.{} % {side}", permille / 10, permille % 10)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::New => f.write_str("new"),
            Self::PodGone => f.write_str("moved: its pod is gone"),
            Self::PodLeaving => f.write_str("moved: its pod is about to end"),
            Self::OverCap { over_permille } => {
                write!(f, "moved: its pod was {} the cap", From(*over_permille))
            }
            Self::Balance { from_permille, to_permille } => {
                let (from, to) = (From(*from_permille), From(*to_permille));
                write!(f, "moved: its pod was {from} the fair share, this one {to}")
            }
            Self::Spread => f.write_str("moved: its pod had too many targets of its job"),
            Self::Zone => f.write_str("moved: into its zone"),
            Self::CapReached => {
                f.write_str("left out: every pod is at its cap; add pods or raise the cap")
            }
            Self::NoPod => f.write_str("not placed: no pod is ready"),
        }
    }
}

/// Where a target is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod that is to scrape it.
    pub pod: Option<PodName>,
    /// The pod that had it, if that was another one.
    pub from: Option<PodName>,
    /// What it was taken to cost.
    pub weight: Weight,
    /// Why.
    pub reason: Reason,
}

/// What a ready pod has after the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodLoad {
    /// The sum of its targets' weights, in thousandths of a sample per second.
    pub millisamples_per_second: u64,
    /// Its targets.
    pub targets: u64,
    /// Whether that is over the cap.
    pub over_cap: bool,
}

/// Sums of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// A pod's fair share, in thousandths of a sample per second.
    pub fair_millisamples_per_second: u64,
    /// How far the fullest pod is over the fair share, in thousandths of it. A pod with nothing but
    /// one target that is heavier than the share doesn't count.
    pub imbalance_permille: i64,
    /// Targets that move from a working pod by choice: what `moves_max` bounds.
    pub moved: u64,
    /// Their weights.
    pub moved_millisamples_per_second: u64,
    /// Targets of pods that leave or are gone.
    pub rescued: u64,
    /// Their weights.
    pub rescued_millisamples_per_second: u64,
    /// Targets that no pod has.
    pub left_out: u64,
    /// Pods over the cap.
    pub pods_over_cap: u64,
    /// Pods that the load needs to stay below the cap, where there is one: what a pool of edges is
    /// to grow to.
    pub needed_pods: Option<u64>,
    /// Whether `moves_max` held moves back: the next decision goes on.
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
    pub figures: Figures,
}

impl Decision {
    /// Where each placed target is: the present assignment of the next decision.
    #[must_use]
    pub fn assignment(&self) -> BTreeMap<TargetId, PodName> {
        let placed = self.placements.iter();
        placed.filter_map(|(id, at)| Some((*id, at.pod.clone()?))).collect()
    }
}
