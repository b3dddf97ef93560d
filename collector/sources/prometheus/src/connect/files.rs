//! Caches values made from files, and remakes them when the files change.
//!
//! The next caller reads the files, at most once per [`CHECK_PERIOD`], and compares their contents
//! with the last ones: no time-stamp has to be trusted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::SecretFile;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::fault::FileFault;

/// The minimum time between two reads: the 1,000 targets of a job share one read per second.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The reaction to changed files that can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFault {
    /// The former value stays in use, and a warning is logged.
    Retain,
    /// The caller gets the error.
    Fail,
}

/// A value made from files.
pub(super) struct FileValue<T> {
    files: Vec<SecretFile>,
    on_fault: OnFault,
    cached: Mutex<Option<CachedValue<T>>>,
}

struct CachedValue<T> {
    at: Instant,
    contents: Result<Vec<Vec<u8>>, String>,
    made: Result<Arc<T>, Arc<FileFault>>,
}

impl<T> FileValue<T>
where
    T: Send + Sync + 'static,
{
    pub(super) fn new(files: Vec<SecretFile>, on_fault: OnFault) -> Self {
        Self { files, on_fault, cached: Mutex::new(None) }
    }

    /// Returns the current value. `make` receives the files' contents in their order.
    pub(super) async fn get<F>(&self, make: F) -> Result<Arc<T>, Arc<FileFault>>
    where
        F: FnOnce(Vec<Vec<u8>>) -> Result<T, FileFault> + Send + 'static,
    {
        let mut slot = self.cached.lock().await;
        if let Some(cached) = &mut *slot {
            let is_for_good = self.files.is_empty() && cached.made.is_ok();
            if is_for_good || cached.at.elapsed() < CHECK_PERIOD {
                return cached.made.clone();
            }
        }
        let files = self.files.clone();
        let read =
            read_blocking(move || files.iter().map(|it| Ok(it.read_bytes()?)).collect()).await;
        let at = Instant::now();
        let contents = read.as_ref().map(Vec::clone).map_err(FileFault::to_string);
        if let Some(cached) = &mut *slot
            && cached.contents == contents
        {
            cached.at = at;
            return cached.made.clone();
        }
        let made = match read {
            Ok(contents) => read_blocking(move || make(contents)).await,
            Err(fault) => Err(fault),
        };
        let before = slot.take().and_then(|cached| cached.made.ok());
        let made = match (made, before) {
            (Err(error), Some(before)) if self.on_fault == OnFault::Retain => {
                tracing::warn!(%error,
                    "renewed files are invalid; their previous content stays in use");
                Ok(before)
            }
            (made, _) => made.map(Arc::new).map_err(Arc::new),
        };
        *slot = Some(CachedValue { at, contents, made: made.clone() });
        made
    }
}

/// Runs file work on the blocking pool: files of a mounted Secret are small, but would still block
/// the I/O threads.
async fn read_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileFault> + Send + 'static,
) -> Result<T, FileFault> {
    spawn_blocking(work).await.unwrap_or(Err(FileFault::BrokenOff))
}

/// Never shows the contents.
impl<T> fmt::Debug for FileValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("files", &self.files).finish_non_exhaustive()
    }
}
