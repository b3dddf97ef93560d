//! Caches the accounts in the ClusterRoleBindings that allow watching pods or namespaces, so that a
//! reconcile need not read the bindings. Losing the cache costs one read of each.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{MutexGuard, Notify};

/// A service account: its namespace and name.
pub type Account = (String, String);

/// How long a read of a binding is current, since someone else may write it.
pub const READ_EVERY_SECONDS: i64 = 300;

/// Both bindings.
#[derive(Debug, Default)]
pub struct AccountBindings {
    /// The accounts that may watch pods.
    pub pods: AccountBinding,
    /// The accounts that may watch namespaces.
    pub namespaces: AccountBinding,
    /// Wakes the removal of unneeded accounts.
    pub sweep_requested: Notify,
}

impl AccountBindings {
    /// Creates the caches of the named bindings; `None` if a right is granted by other means.
    #[must_use]
    pub fn new(pods: Option<String>, namespaces: Option<String>) -> Self {
        let of = |binding| AccountBinding { binding, ..AccountBinding::default() };
        Self { pods: of(pods), namespaces: of(namespaces), ..Self::default() }
    }
}

/// The cached accounts of one binding.
#[derive(Debug, Default)]
pub struct AccountBinding {
    binding: Option<String>,
    known: Mutex<Known>,
    /// Locked while the binding is read and written.
    revision: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// The accounts when the binding was last read or written, and when that was, in seconds;
    /// `None` before that and while the binding doesn't exist.
    accounts: Option<(BTreeSet<Account>, i64)>,
    /// Whether the log already reported that the binding doesn't exist.
    is_reported_missing: bool,
}

impl AccountBinding {
    /// Returns the binding's name.
    #[must_use]
    pub fn binding(&self) -> Option<&str> {
        self.binding.as_deref()
    }

    /// Returns whether the binding had the account when it was read, at most
    /// [`READ_EVERY_SECONDS`] before `now`.
    #[must_use]
    pub fn had_recently(&self, account: &Account, now: i64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.accounts.as_ref().is_some_and(|(accounts, read_at)| {
            now < read_at.saturating_add(READ_EVERY_SECONDS) && accounts.contains(account)
        })
    }

    /// Returns whether the binding had the account when it was last read.
    #[must_use]
    pub fn had(&self, account: &Account) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.accounts.as_ref().is_some_and(|(accounts, _)| accounts.contains(account))
    }

    /// Locks the binding for a caller that reads and writes it.
    pub async fn lock_revision(&self) -> MutexGuard<'_, ()> {
        self.revision.lock().await
    }

    /// Records the binding's accounts, read or written at `now`.
    pub fn record_accounts(&self, accounts: BTreeSet<Account>, now: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known { accounts: Some((accounts, now)), is_reported_missing: false };
    }

    /// Records that the binding doesn't exist or can't be read; returns whether the log has not
    /// reported that yet.
    pub fn record_missing(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.accounts = None;
        !std::mem::replace(&mut known.is_reported_missing, true)
    }
}
