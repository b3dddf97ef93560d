//! Caches the accounts in the ClusterRoleBindings that allow watching pods or namespaces, so that a
//! reconcile need not read the bindings. Losing the cache costs one read of each.

use std::collections::BTreeSet;

use tokio::sync::{Mutex, MutexGuard};

/// A service account: its namespace and name.
pub type Account = (String, String);

/// The cached accounts of one binding.
#[derive(Debug, Default)]
pub struct AccountBinding {
    binding: Option<String>,
    known: Mutex<Known>,
}

/// The last state of the binding that was read or written.
#[derive(Debug, Default)]
pub struct Known {
    /// The binding's accounts; `None` before the first read and after a failure.
    pub accounts: Option<BTreeSet<Account>>,
    /// When the binding was last read, in seconds.
    pub read_at: i64,
    /// Whether the log already reported that the binding doesn't exist.
    pub is_named: bool,
}

impl AccountBinding {
    /// Creates the cache of the named binding; `None` if rights are granted by other means.
    #[must_use]
    pub fn new(binding: Option<String>) -> Self {
        Self { binding, known: Mutex::default() }
    }

    /// Returns the binding's name.
    #[must_use]
    pub fn binding(&self) -> Option<&str> {
        self.binding.as_deref()
    }

    /// Locks the cached state for a caller that reads and writes the binding. Other callers wait.
    pub async fn lock_known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().await
    }
}
