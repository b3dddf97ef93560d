//! What is made of files, made anew when they change.
//!
//! Files are read at most once a [`CHECK_PERIOD`], by whoever needs them then, and compared with
//! what they held before: no time-stamp has to be trusted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::SecretFile;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::fault::FileFault;

/// How often files are read at most: 1,000 targets of a job read them once a second together.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// What happens when changed files can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFault {
    /// What was made before stays, and the log says so.
    Keep,
    /// There is nothing.
    Fail,
}

/// A value made of files.
pub(super) struct Watched<T> {
    files: Vec<SecretFile>,
    on_fault: OnFault,
    seen: Mutex<Option<Seen<T>>>,
}

struct Seen<T> {
    at: Instant,
    contents: Result<Vec<Vec<u8>>, String>,
    made: Result<Arc<T>, Arc<FileFault>>,
}

impl<T> Watched<T>
where
    T: Send + Sync + 'static,
{
    pub(super) fn new(files: Vec<SecretFile>, on_fault: OnFault) -> Self {
        Self { files, on_fault, seen: Mutex::new(None) }
    }

    /// The newest value. `make` gets the files' contents in their order.
    pub(super) async fn get<F>(&self, make: F) -> Result<Arc<T>, Arc<FileFault>>
    where
        F: FnOnce(Vec<Vec<u8>>) -> Result<T, FileFault> + Send + 'static,
    {
        let mut seen = self.seen.lock().await;
        if let Some(seen) = &mut *seen {
            let is_for_good = self.files.is_empty() && seen.made.is_ok();
            if is_for_good || seen.at.elapsed() < CHECK_PERIOD {
                return seen.made.clone();
            }
        }
        let files = self.files.clone();
        let read = blocking(move || files.iter().map(|it| Ok(it.read_bytes()?)).collect()).await;
        let at = Instant::now();
        let contents = read.as_ref().map(Vec::clone).map_err(FileFault::to_string);
        if let Some(seen) = &mut *seen
            && seen.contents == contents
        {
            seen.at = at;
            return seen.made.clone();
        }
        let made = match read {
            Ok(contents) => blocking(move || make(contents)).await,
            Err(fault) => Err(fault),
        };
        let before = seen.take().and_then(|seen| seen.made.ok());
        let made = match (made, before) {
            (Err(error), Some(before)) if self.on_fault == OnFault::Keep => {
                tracing::warn!(%error, "renewed files can't be used; what they held before stays");
                Ok(before)
            }
            (made, _) => made.map(Arc::new).map_err(Arc::new),
        };
        *seen = Some(Seen { at, contents, made: made.clone() });
        made
    }
}

/// Files on a mounted Secret are small but still files: not on the I/O threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileFault> + Send + 'static,
) -> Result<T, FileFault> {
    spawn_blocking(work).await.unwrap_or(Err(FileFault::BrokenOff))
}

/// Contents are never shown.
impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("files", &self.files).finish_non_exhaustive()
    }
}
