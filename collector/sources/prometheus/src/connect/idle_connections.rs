//! Retains a target's connection from one scrape to the next.
//!
//! It is reused only if it still is what a new one would be: directly to the target, encrypted with
//! the newest files, not too old. If the server has closed it, the scrape opens a new one.
//!
//! # Limits
//! [`IDLE_MAX`](super::address::IDLE_MAX) connections in the process, one per target.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link::HttpConnection;

/// The memory of one connection: data read ahead (32 KiB at most), data to write, TLS.
pub(in super::super) const IDLE_BYTES: u64 = 40 * 1024;

/// The longest life of a connection: its name may resolve to another address by then.
const AGE_MAX: Duration = Duration::from_secs(300);

/// The slot of one target's connection between scrapes.
#[derive(Debug)]
pub(in super::super) struct IdleSlot {
    permits: Arc<Semaphore>,
    idle: Mutex<Option<IdleConnection>>,
}

/// A connection that no request uses.
#[derive(Debug)]
struct IdleConnection {
    link: HttpConnection,
    _permit: OwnedSemaphorePermit,
}

impl IdleSlot {
    pub(super) fn new(permits: Arc<Semaphore>) -> Self {
        Self { permits, idle: Mutex::default() }
    }

    /// Takes the connection, if there is one that isn't too old.
    pub(super) fn take_link(&self) -> Option<HttpConnection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(idle.link).filter(is_young)
    }

    /// Retains a connection whose response was read to its end, unless it has a proxy or is too
    /// old.
    pub(super) fn retain_link(&self, link: HttpConnection) {
        if !link.is_unproxied || !is_young(&link) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return };
        let idle = IdleConnection { link, _permit: permit };
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }

    /// Whether a connection is retained.
    pub(in super::super) fn is_held(&self) -> bool {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes the connection.
    pub(in super::super) fn close_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn is_young(link: &HttpConnection) -> bool {
    link.since.elapsed() < AGE_MAX
}
