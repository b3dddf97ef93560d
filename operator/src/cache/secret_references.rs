//! Which pools refer to which Secrets, so that a changed Secret triggers their reconcile where the
//! operator may watch Secrets (`--watch-secrets`). Stores names only.
//!
//! Limits: one entry per reference of an existing pool.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// References by Secret and by pool.
#[derive(Debug, Default)]
pub struct References {
    names: Mutex<SecretIndex>,
}

/// A Secret or a pool, as `namespace/name`.
type ObjectPath = String;

#[derive(Debug, Default)]
struct SecretIndex {
    by_secret: HashMap<ObjectPath, BTreeSet<String>>,
    by_pool: HashMap<ObjectPath, BTreeSet<String>>,
}

impl References {
    /// Replaces the Secrets that `pool` refers to.
    pub fn set_secrets<'a>(
        &self,
        namespace: &str,
        pool: &str,
        secrets: impl Iterator<Item = &'a str>,
    ) {
        let path = format!("{namespace}/{pool}");
        let now: BTreeSet<String> = secrets.map(str::to_owned).collect();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let before = names.by_pool.remove(&path).unwrap_or_default();
        for gone in before.difference(&now) {
            let secret = format!("{namespace}/{gone}");
            if let Some(pools) = names.by_secret.get_mut(&secret) {
                pools.remove(pool);
                if pools.is_empty() {
                    names.by_secret.remove(&secret);
                }
            }
        }
        for new in now.difference(&before) {
            let secret = format!("{namespace}/{new}");
            names.by_secret.entry(secret).or_default().insert(pool.to_owned());
        }
        if !now.is_empty() {
            names.by_pool.insert(path, now);
        }
    }

    /// Returns the pools that refer to `secret`.
    #[must_use]
    pub fn pools_of_secret(&self, namespace: &str, secret: &str) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = names.by_secret.get(&format!("{namespace}/{secret}"));
        pools.into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: pools change to other Secrets, then to none. Guarantee: exactly the pools that
    /// refer to a Secret are returned, and no entry remains of a pool that refers to none.
    #[test]
    fn the_pools_of_a_secret_are_those_that_refer_to_it_now() {
        let references = References::default();
        references.set_secrets("ns", "a", ["user", "ca"].into_iter());
        references.set_secrets("ns", "b", ["user"].into_iter());
        references.set_secrets("other", "c", ["user"].into_iter());
        assert_eq!(references.pools_of_secret("ns", "user"), ["a", "b"]);
        references.set_secrets("ns", "a", ["ca"].into_iter());
        assert_eq!(references.pools_of_secret("ns", "user"), ["b"]);
        assert_eq!(references.pools_of_secret("ns", "ca"), ["a"]);
        for (namespace, pool) in [("ns", "a"), ("ns", "b"), ("other", "c")] {
            references.set_secrets(namespace, pool, std::iter::empty());
        }
        let names = references.names.into_inner().unwrap();
        assert!(names.by_secret.is_empty() && names.by_pool.is_empty());
    }
}
