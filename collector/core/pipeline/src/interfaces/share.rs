//! The interface between the scraper of targets and the watch of this pod's share.
//!
//! The scraper applies published versions, never waits here, and knows no Kubernetes client.

use std::sync::Arc;

use millrace_share_documents::Share;
use tokio::sync::watch;

/// The known state of this pod's share.
#[derive(Debug, Clone, Default)]
pub struct ShareUpdate {
    /// The newest complete version. `None` until the API server has given one: nothing is scraped
    /// then.
    pub share: Option<Arc<Share>>,
    /// Why newer versions may be unknown; empty if there is no fault.
    pub fault: String,
}

/// Receives the share. Its other end lives as long as the process.
pub type Shares = watch::Receiver<ShareUpdate>;
