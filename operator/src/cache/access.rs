//! Which accounts are known to be in the ClusterRoleBindings of those that may watch pods, or
//! namespaces, so that none is read at each reconcile. Losing it costs one read of each.

use std::collections::BTreeSet;

use tokio::sync::{Mutex, MutexGuard};

/// An account: its namespace and name.
pub type Account = (String, String);

/// What is known of a binding.
#[derive(Debug, Default)]
pub struct Access {
    binding: Option<String>,
    known: Mutex<Known>,
}

/// What was read or written last.
#[derive(Debug, Default)]
pub struct Known {
    /// Its accounts; none before the first read, and after a failure.
    pub accounts: Option<BTreeSet<Account>>,
    /// Whether a binding that isn't there was named in the log.
    pub is_named: bool,
}

impl Access {
    /// Of the binding with this name; none if rights are given by others.
    #[must_use]
    pub fn new(binding: Option<String>) -> Self {
        Self { binding, known: Mutex::default() }
    }

    /// The binding's name.
    #[must_use]
    pub fn binding(&self) -> Option<&str> {
        self.binding.as_deref()
    }

    /// What is known, for one who reads and writes the binding meanwhile, alone.
    pub async fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().await
    }
}
