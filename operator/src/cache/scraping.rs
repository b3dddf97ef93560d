//! What the last round of sharing out found of a pool's targets: for its status. Losing it costs
//! one round.

use jiff::Timestamp;
use millrace_crds::Reason;

/// A pool's targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scraping {
    /// When; none before the first round.
    pub at: Option<Timestamp>,
    /// Targets that are to be scraped.
    pub targets: u64,
    /// Of them those that are in a pod's document.
    pub shared: u64,
    /// Of them those that no pod is to have.
    pub left_out: u64,
    /// Targets whose last scrape succeeded, as pods say.
    pub up: u64,
    /// Targets whose last scrape failed.
    pub down: u64,
    /// What can't be shared out.
    pub refused: u64,
    /// The first of these, and why.
    pub refusals: Vec<String>,
    /// Pods that are to scrape and don't answer.
    pub silent_pods: u64,
    /// Ready pods.
    pub ready_pods: u64,
    /// Pods over the cap.
    pub pods_over_cap: u64,
    /// Pods that the load needs to stay below the cap.
    pub needed_pods: Option<u64>,
    /// Samples per second of all targets.
    pub samples_per_second: u64,
    /// Why the last round did not come to its end.
    pub failure: Option<(Reason, String)>,
}
