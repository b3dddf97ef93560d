//! What is asked of the sharing. Plain values; each default with its source.

use crate::target::Weight;

/// A share in whole percent, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// Of this number, brought into 1 to 100.
    #[must_use]
    pub const fn new(percent: u8) -> Self {
        match percent {
            0 => Self(1),
            1..=100 => Self(percent),
            _ => Self(100),
        }
    }

    /// Thousandths.
    #[must_use]
    pub const fn permille(self) -> u64 {
        self.0 as u64 * 10
    }
}

/// What becomes of a new target when every pod is at its cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCap {
    /// It is scraped, and the excess spread evenly: a target that nobody scrapes has no `up`, so
    /// alerts on it are silent. A pod's memory is bounded all the same: what its budget has no room
    /// for is given up and counted.
    #[default]
    Scrape,
    /// It is left out and reported until there is room. One that is being scraped stays.
    LeaveOut,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Most samples per second of a pod; none: no cap.
    pub cap: Option<Weight>,
    /// What becomes of new targets that fit nowhere.
    pub at_cap: AtCap,
    /// How far a pod may be from the fair share before targets move. They move until it is within
    /// half of that, so that small changes don't move some again at once.
    pub tolerance: Percent,
    /// Targets of working pods that may move in one decision; those of pods that leave or are gone
    /// don't count. 0 holds what isn't forced, such as during a rollout.
    pub moves_max: u32,
    /// Whether one job's targets are kept apart: no pod has more than twice the job's mean.
    pub spread: bool,
    /// Whether targets prefer pods of their zone, as far as the tolerance allows.
    pub zones: bool,
}

impl Default for Policy {
    /// - 5 %: at most 10 % is asked for; with 100,000 targets and skewed weights it is
    ///   met (docs/sharing/results.md).
    /// - 1,000 moves: 1 % of 100,000 targets. A decision every 15 s then settles 20 pods more on
    ///   200 within some minutes, and each moved target may miss one scrape.
    fn default() -> Self {
        Self {
            cap: None,
            at_cap: AtCap::Scrape,
            tolerance: Percent::new(5),
            moves_max: 1_000,
            spread: true,
            zones: true,
        }
    }
}
