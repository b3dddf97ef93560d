//! How a target's task is told to end, and how long its last scrape may take then.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// How long a scrape that is under way may take once its target is another pod's, or has other
/// settings: nobody else scrapes it meanwhile. Most take milliseconds; a hand-over takes 15 s in
/// all.
pub(super) const RELEASE_TIME: Duration = Duration::from_secs(5);

/// What becomes of the series of a target that is scraped no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Series {
    /// They are marked as gone.
    #[default]
    End,
    /// Another pod goes on with them, or this one by other settings.
    GoOn,
}

/// That a target is to be scraped no more.
#[derive(Debug, Default)]
pub(super) struct Leave {
    pub(super) series: Series,
    /// Dropped when the last scrape has ended. None where nobody waits for that: the scrape has all
    /// the time that it would have had.
    pub(super) scraping: Option<mpsc::Sender<()>>,
}

/// A task's end.
#[derive(Debug)]
pub(super) struct End {
    stopped: oneshot::Receiver<Leave>,
    leave: Option<Leave>,
}

impl End {
    pub(super) fn new(stopped: oneshot::Receiver<Leave>) -> Self {
        Self { stopped, leave: None }
    }

    /// Waits until the task is to end.
    pub(super) async fn is_told(&mut self) {
        if self.leave.is_none() {
            self.leave = Some((&mut self.stopped).await.unwrap_or_default());
        }
    }

    /// Waits until a scrape that is under way is to be given up.
    pub(super) async fn is_over(&mut self) {
        self.is_told().await;
        match &self.leave {
            Some(Leave { scraping: Some(_), .. }) => sleep(RELEASE_TIME).await,
            _ => std::future::pending().await,
        }
    }

    pub(super) fn leave(self) -> Leave {
        self.leave.unwrap_or_default()
    }
}
