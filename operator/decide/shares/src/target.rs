//! Targets as the decision uses them: a job, a weight, a zone. No addresses.

use millrace_share_documents::Weight;

/// A target to assign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its job: an unmeasured target gets the median weight of its job.
    pub job: String,
    /// Its cost, if measured.
    pub weight: Option<Weight>,
    /// Its zone, if known.
    pub zone: Option<String>,
    /// It moved, and its new pod hasn't scraped it yet. It stays there as long as that pod works:
    /// two hand-overs without a scrape in between would miss two scrapes.
    pub awaits_scrape: bool,
}
