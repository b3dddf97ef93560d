//! The policy of sharing: plain values, each default with its source.

use millrace_share_documents::Weight;

/// Maximum targets of a collector: each is a task there.
const POD_TARGETS_MAX: u64 = 10_000;

/// A share in percent, an integer from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// Clamps `percent` to 1 to 100.
    #[must_use]
    pub const fn new(percent: u8) -> Self {
        match percent {
            0 => Self(1),
            1..=100 => Self(percent),
            _ => Self(100),
        }
    }

    /// Returns the share in thousandths.
    #[must_use]
    pub const fn permille(self) -> u64 {
        self.0 as u64 * 10
    }
}

/// What happens to a new target when every pod is at its cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// It is scraped, and the excess is spread evenly: a target that nobody scrapes has no `up`, so
    /// alerts on it are silent. A pod's memory is bounded anyway: it drops and counts what exceeds
    /// its budget.
    #[default]
    Scrape,
    /// It is omitted and reported until a pod has capacity. A target that is already scraped stays.
    Wait,
}

/// How targets are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingPolicy {
    /// Maximum samples per second of a pod; `None` for no cap.
    pub cap: Option<Weight>,
    /// What happens to new targets that fit no pod.
    pub overflow_policy: OverflowPolicy,
    /// Maximum targets of a pod: a collector scrapes no more, whatever they cost.
    pub targets_max: u64,
    /// How far a pod may be from the fair share before targets move. They move until it is within
    /// half of that, so that small changes don't move some again at once.
    pub tolerance: Percent,
    /// Targets that may leave working pods in one decision; those of pods that leave or are gone
    /// don't count. 0 allows only forced moves, for example during a rollout.
    pub moves_max: u32,
    /// Whether the targets of one job are spread: no pod has more than twice the job's mean.
    pub spread: bool,
    /// Whether targets prefer pods of their zone, as far as the tolerance allows.
    pub zones: bool,
}

impl Default for SharingPolicy {
    ///
    /// - 5 %: the requirement is at most 10 %; it is met with 100,000 targets and skewed weights
    ///   (docs/internals/sharing/results.md).
    /// - 1,000 moves: 1 % of 100,000 targets. A decision every 15 s then settles 20 more pods on
    ///   200 within some minutes, and each moved target may miss one scrape.
    fn default() -> Self {
        Self {
            cap: None,
            overflow_policy: OverflowPolicy::Scrape,
            targets_max: POD_TARGETS_MAX,
            tolerance: Percent::new(5),
            moves_max: 1_000,
            spread: true,
            zones: true,
        }
    }
}
