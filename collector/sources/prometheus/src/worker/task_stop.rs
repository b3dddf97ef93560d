//! How a target's task is stopped, and how long its last scrape may take.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// How long a running scrape may take once another pod has its target, or its settings changed: no
/// other task scrapes the target until it ends. Most take milliseconds; a hand-over takes 15 s in
/// all.
pub(crate) const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The fate of a stopped target's series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SeriesFate {
    /// The task marks them as stale.
    #[default]
    MarkStale,
    /// Another pod continues them, or this one with other settings.
    Continue,
}

/// A request to stop scraping a target.
#[derive(Debug, Default)]
pub(crate) struct StopRequest {
    pub(crate) series: SeriesFate,
    /// Dropped when the last scrape has ended. With `None` no task waits for that, and the scrape
    /// may use its normal time.
    pub(crate) scraping: Option<mpsc::Sender<()>>,
}

/// A task's view of its stop request.
#[derive(Debug)]
pub(crate) struct TaskStop {
    stopped: oneshot::Receiver<StopRequest>,
    leave: Option<StopRequest>,
}

impl TaskStop {
    pub(crate) fn new(stopped: oneshot::Receiver<StopRequest>) -> Self {
        Self { stopped, leave: None }
    }

    /// Waits for the stop request.
    pub(super) async fn wait_for_stop(&mut self) {
        if self.leave.is_none() {
            self.leave = Some((&mut self.stopped).await.unwrap_or_default());
        }
    }

    /// Waits until a running scrape must be aborted.
    pub(super) async fn wait_for_abort(&mut self) {
        self.wait_for_stop().await;
        match &self.leave {
            Some(StopRequest { scraping: Some(_), .. }) => sleep(RELEASE_TIME).await,
            _ => std::future::pending().await,
        }
    }

    pub(super) fn into_request(self) -> StopRequest {
        self.leave.unwrap_or_default()
    }
}
