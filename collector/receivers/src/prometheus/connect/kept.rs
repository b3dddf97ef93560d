//! A connection that is kept from one scrape of a target to the next.
//!
//! It is used again only if it still is what a new one would be: straight to the target, encrypted
//! with the newest files, not too old. A server that closed it meanwhile is asked by a new one.
//!
//! # Limits
//! [`KEPT_MAX`] in the process; one for a target.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link::Link;

/// Most connections that are kept, so that 10,000 targets don't hold as many files and buffers:
/// with [`KEPT_BYTES`] each they are 40 MB, within the byte budget.
pub(super) const KEPT_MAX: usize = 1000;

/// What one takes: what was read ahead (32 KiB at most), what is to be written, TLS.
pub(in super::super) const KEPT_BYTES: u64 = 40 * 1024;

/// A name may mean another address by then.
const AGE_MAX: Duration = Duration::from_secs(300);

/// A target's connection, while it isn't scraped.
#[derive(Debug)]
pub(in super::super) struct Kept {
    permits: Arc<Semaphore>,
    idle: Mutex<Option<Idle>>,
}

/// A connection that nobody uses.
#[derive(Debug)]
struct Idle {
    link: Link,
    _permit: OwnedSemaphorePermit,
}

impl Kept {
    pub(super) fn new(permits: Arc<Semaphore>) -> Self {
        Self { permits, idle: Mutex::default() }
    }

    /// The connection, if there is one that isn't too old.
    pub(super) fn take(&self) -> Option<Link> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(idle.link).filter(is_young)
    }

    /// Keeps a connection whose answer was read to its end, if that makes sense.
    pub(super) fn put(&self, link: Link) {
        if !link.is_straight || !is_young(&link) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return };
        let idle = Idle { link, _permit: permit };
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }

    /// Whether there is one.
    pub(in super::super) fn is_held(&self) -> bool {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes it.
    pub(in super::super) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn is_young(link: &Link) -> bool {
    link.since.elapsed() < AGE_MAX
}
