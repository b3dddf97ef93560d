//! A job, ready to scrape.

use std::sync::Arc;

use super::connect::Connector;
use super::rules::RuledJob;

/// A job and its connector.
#[derive(Debug, Clone)]
pub(super) struct ConnectedJob {
    pub(super) settings: Arc<RuledJob>,
    /// The connector of its targets.
    pub(super) connector: Arc<Connector>,
}
