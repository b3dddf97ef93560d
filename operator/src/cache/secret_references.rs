//! Which pools refer to which Secrets, so that a changed Secret triggers their reconcile where the
//! operator may watch Secrets (`--watch-secrets`). Stores names and counts of changes only.
//!
//! Limits: one entry per reference of an existing pool.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use kube::Resource;

/// References by Secret and by pool.
#[derive(Debug, Default)]
pub struct References {
    names: Mutex<SecretIndex>,
}

/// A Secret or a pool, as `kind/namespace/name`; the kind is the pool's.
type ObjectPath = String;

#[derive(Debug, Default)]
struct SecretIndex {
    by_secret: HashMap<ObjectPath, BTreeSet<String>>,
    by_pool: HashMap<ObjectPath, PoolReferences>,
}

/// The Secrets of a pool, and how many changes of them were reported.
#[derive(Debug, Default)]
struct PoolReferences {
    secrets: BTreeSet<String>,
    changes: u64,
}

impl References {
    /// Replaces the Secrets that `pool`, of kind `K`, refers to.
    pub fn set_secrets<'a, K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        pool: &str,
        secrets: impl Iterator<Item = &'a str>,
    ) {
        let path = path_of::<K>(namespace, pool);
        let now: BTreeSet<String> = secrets.map(str::to_owned).collect();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let PoolReferences { secrets: before, changes } =
            names.by_pool.remove(&path).unwrap_or_default();
        for removed in before.difference(&now) {
            let secret = path_of::<K>(namespace, removed);
            if let Some(pools) = names.by_secret.get_mut(&secret) {
                pools.remove(pool);
                if pools.is_empty() {
                    names.by_secret.remove(&secret);
                }
            }
        }
        for new in now.difference(&before) {
            let secret = path_of::<K>(namespace, new);
            names.by_secret.entry(secret).or_default().insert(pool.to_owned());
        }
        if !now.is_empty() {
            names.by_pool.insert(path, PoolReferences { secrets: now, changes });
        }
    }

    /// Records that `secret` changed, and returns the pools of kind `K` that refer to it.
    pub fn record_change<K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        secret: &str,
    ) -> Vec<String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = names.by_secret.get(&path_of::<K>(namespace, secret));
        let pools: Vec<String> = pools.into_iter().flatten().cloned().collect();
        for pool in &pools {
            if let Some(known) = names.by_pool.get_mut(&path_of::<K>(namespace, pool)) {
                known.changes += 1;
            }
        }
        pools
    }

    /// Returns how many changes of the pool's Secrets were reported.
    #[must_use]
    pub fn change_count<K: Resource<DynamicType = ()>>(&self, namespace: &str, pool: &str) -> u64 {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.by_pool.get(&path_of::<K>(namespace, pool)).map_or(0, |known| known.changes)
    }
}

fn path_of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectPath {
    super::object_key(&K::kind(&()), namespace, name)
}

#[cfg(test)]
mod tests {
    use millrace_crds::v1alpha1::{EdgePool, GatewayPool};

    use super::*;

    /// Scenario: pools change to other Secrets, then to none. Guarantee: exactly the pools of the
    /// kind that refer to a Secret are returned, and no entry remains of one that refers to none.
    #[test]
    fn the_pools_of_a_secret_are_those_that_refer_to_it_now() {
        let references = References::default();
        let pools = |secret| references.record_change::<EdgePool>("ns", secret);
        references.set_secrets::<EdgePool>("ns", "a", ["user", "ca"].into_iter());
        references.set_secrets::<EdgePool>("ns", "b", ["user"].into_iter());
        references.set_secrets::<EdgePool>("other", "c", ["user"].into_iter());
        references.set_secrets::<GatewayPool>("ns", "d", ["user"].into_iter());
        assert_eq!(pools("user"), ["a", "b"]);
        assert_eq!(references.record_change::<GatewayPool>("ns", "user"), ["d"]);
        references.set_secrets::<EdgePool>("ns", "a", ["ca"].into_iter());
        assert_eq!(pools("user"), ["b"]);
        assert_eq!(pools("ca"), ["a"]);
        for (namespace, pool) in [("ns", "a"), ("ns", "b"), ("other", "c")] {
            references.set_secrets::<EdgePool>(namespace, pool, std::iter::empty());
        }
        references.set_secrets::<GatewayPool>("ns", "d", std::iter::empty());
        let names = references.names.into_inner().unwrap();
        assert!(names.by_secret.is_empty() && names.by_pool.is_empty());
    }

    /// Scenario: Secrets of a pool and of others change, and the pool is reconciled in between.
    /// Guarantee: exactly the changes of its own are counted, and a reconcile loses none.
    #[test]
    fn changes_of_a_pools_secrets_are_counted() {
        let references = References::default();
        let count = || references.change_count::<GatewayPool>("ns", "a");
        references.record_change::<GatewayPool>("ns", "user");
        assert_eq!(count(), 0);
        for expected in 1..=2 {
            references.set_secrets::<GatewayPool>("ns", "a", ["user"].into_iter());
            references.record_change::<GatewayPool>("ns", "user");
            references.record_change::<GatewayPool>("ns", "other");
            references.record_change::<EdgePool>("ns", "user");
            assert_eq!(count(), expected);
        }
    }
}
