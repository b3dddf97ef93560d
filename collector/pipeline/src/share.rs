//! The interface between the scraper of targets and the watch of this pod's share.
//!
//! The scraper takes up what is told, never waits here, and knows no Kubernetes client.

use std::sync::Arc;

use millrace_shares::Share;
use tokio::sync::watch;

/// What is known of this pod's share.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The newest whole version. None until the API server has given one: nothing is scraped then.
    pub share: Option<Arc<Share>>,
    /// Why nothing newer may be known; empty if all is well.
    pub fault: String,
}

/// Where the share is told. Its other end lives as long as the process.
pub type Shares = watch::Receiver<Told>;
