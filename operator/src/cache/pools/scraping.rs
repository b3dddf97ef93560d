//! The results of the last round of sharing out a pool's targets, for its status. Losing them costs
//! one round.

use jiff::Timestamp;
use millrace_crds::Reason;

/// The result of a pool's last round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scraping {
    /// When the round ended; `None` before the first round.
    pub at: Option<Timestamp>,
    /// Targets to scrape.
    pub targets: u64,
    /// Targets that are in a pod's document.
    pub assigned: u64,
    /// Targets that are assigned to no pod.
    pub excluded: u64,
    /// Targets whose last scrape succeeded, as reported by pods.
    pub up: u64,
    /// Targets whose last scrape failed.
    pub down: u64,
    /// Monitors that are applied completely.
    pub monitors: u64,
    /// Monitors that are applied in part.
    pub invalid_monitors: u64,
    /// The number of refused jobs and targets, and of faults in monitors.
    pub refused: u64,
    /// The number of those in the pool's own spec.
    pub refused_in_spec: u64,
    /// The first refusals, with their reasons.
    pub refusals: Vec<String>,
    /// Pods that should scrape and don't answer.
    pub unreachable_pods: u64,
    /// Ready pods.
    pub ready_pods: u64,
    /// Pods over the cap.
    pub pods_over_capacity: u64,
    /// Pods that the load needs to stay below the cap.
    pub needed_pods: Option<u64>,
    /// Samples per second of all targets.
    pub samples_per_second: u64,
    /// Why the last round did not finish.
    pub failure: Option<(Reason, String)>,
}
