//! One watch after another, for ever, with waits after those that failed.

use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use tokio::time::{sleep, timeout};

use crate::api::ApiError;

/// How long one watch lasts, but for a share that differs by process: many nodes' watches, begun
/// together, shouldn't all end together.
const WATCH: Duration = Duration::from_secs(300);

/// A watch that the server doesn't end in this time beyond its duration is dead.
const WATCH_SLACK: Duration = Duration::from_secs(30);

/// A watch that ends sooner, without an event, isn't continued at once.
const WATCH_LEAST: Duration = Duration::from_secs(1);

/// Something that is watched.
pub(crate) trait Watched: Send {
    /// One watch of this duration, to its end.
    fn once(&mut self, duration: Duration) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Whether the server has told anything since this was asked last.
    fn take_told(&mut self) -> bool;

    /// A watch failed.
    fn fail(&mut self, error: &ApiError);

    /// A wait begins.
    fn rest(&mut self) {}
}

/// Watches until the process ends.
pub(crate) async fn watch(mut watched: impl Watched, policy: BackoffPolicy) {
    let seed = u64::from(std::process::id());
    let mut backoff = Backoff::new(policy, seed);
    let duration = WATCH + Duration::from_secs(seed % 60);
    loop {
        let (began, ended) = (Instant::now(), watched.once(duration).await);
        let was_well = watched.take_told() || began.elapsed() >= WATCH_LEAST;
        if was_well {
            backoff.reset();
        }
        match ended {
            Ok(()) if was_well => continue,
            Ok(()) => {}
            Err(error) => watched.fail(&error),
        }
        watched.rest();
        sleep(backoff.next_wait()).await;
    }
}

/// What a watch tells, to its end.
///
/// # Errors
/// Its own, and when it goes on beyond its duration.
pub(crate) async fn within(
    duration: Duration,
    told: impl Future<Output = Result<(), ApiError>>,
) -> Result<(), ApiError> {
    let late = || ApiError::Broken("it goes on beyond its time".to_owned());
    timeout(duration + WATCH_SLACK, told).await.map_err(|_| late())?
}
