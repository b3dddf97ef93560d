//! Starts one watch after another, forever, with waits after failed ones.

use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::random_seed::random_seed;
use tokio::time::{sleep, timeout};

use crate::api::ApiError;

/// The duration of one watch, plus a part that differs by process: the watches of many nodes that
/// start together shouldn't all end together.
const WATCH: Duration = Duration::from_secs(300);

/// A watch that the server doesn't end within this time after its duration is dead.
const WATCH_SLACK: Duration = Duration::from_secs(30);

/// A watch that ends sooner, without an event, is not restarted at once.
const WATCH_LEAST: Duration = Duration::from_secs(1);

/// A source that is watched.
pub(crate) trait WatchSource: Send {
    /// Runs one watch of this duration to its end.
    fn watch_once(
        &mut self,
        duration: Duration,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Returns whether the server has sent anything since the last call.
    fn take_progress(&mut self) -> bool;

    /// Handles a failed watch.
    fn record_failure(&mut self, error: &ApiError);

    /// Handles the start of a wait.
    fn begin_wait(&mut self) {}
}

/// Watches until the process ends.
pub(crate) async fn watch_forever(mut watched: impl WatchSource, policy: BackoffPolicy) {
    let seed = random_seed();
    let mut backoff = Backoff::new(policy, seed);
    let duration = WATCH + Duration::from_secs(seed % 60);
    loop {
        let (began, ended) = (Instant::now(), watched.watch_once(duration).await);
        let was_well = watched.take_progress() || began.elapsed() >= WATCH_LEAST;
        if was_well {
            backoff.reset();
        }
        match ended {
            Ok(()) if was_well => continue,
            Ok(()) => {}
            Err(error) => watched.record_failure(&error),
        }
        watched.begin_wait();
        sleep(backoff.next_wait()).await;
    }
}

/// Runs a watch to its end, at most [`WATCH_SLACK`] longer than its duration.
///
/// # Errors
/// The watch's own error, or [`ApiError::Broken`] after that time.
pub(crate) async fn limit_watch(
    duration: Duration,
    watch: impl Future<Output = Result<(), ApiError>>,
) -> Result<(), ApiError> {
    let late = || ApiError::Broken("the watch did not end in time".to_owned());
    timeout(duration + WATCH_SLACK, watch).await.map_err(|_| late())?
}
