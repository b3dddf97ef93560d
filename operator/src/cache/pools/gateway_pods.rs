//! The pods of gateway pools, from one watch per scope, so that a pool at rest need not list them.
//!
//! A scope answers only while its view is complete: from the end of a list until the next one
//! begins, and not within [`DISTRUSTED_FOR`] of an error of its watch. Otherwise, as where the
//! operator may not watch pods, pools list theirs. Pods are stored as JSON, without the fields that
//! nothing reads: typed ones would use several times as much memory.
//!
//! Limits: [`PODS_BYTES_MAX`] in each scope. Whoever may create pods with the labels of ours could
//! otherwise fill the operator's memory; beyond it, all pools of the scope list their pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher;

/// The label with the pool's name.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// Maximum memory of stored pods: 13,000 at some 2.5 kB each. A part of the limit in the chart's
/// values.
pub const PODS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A watch that fails is retried at least this often, so one without an error for longer works.
const DISTRUSTED_FOR: SignedDuration = SignedDuration::from_secs(60);

/// One pool: namespace and name.
type PoolKey = (String, String);

/// The watched pods of one scope.
#[derive(Debug, Default)]
struct ScopePods {
    /// The namespace, or `None` for all.
    namespace: Option<String>,
    is_complete: bool,
    is_full: bool,
    failed_at: Option<Timestamp>,
    pools: HashMap<PoolKey, BTreeMap<String, Box<[u8]>>>,
    bytes: usize,
}

/// Identifies a scope to its watch.
#[derive(Clone, Copy, Debug)]
pub struct ScopeId(usize);

/// The watched pods of all gateway pools.
#[derive(Debug, Default)]
pub struct GatewayPods {
    scopes: Mutex<Vec<ScopePods>>,
}

impl GatewayPods {
    /// Adds a scope that a watch covers: a namespace, or all.
    pub fn add_scope(&self, namespace: Option<&str>) -> ScopeId {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.push(ScopePods { namespace: namespace.map(str::to_owned), ..ScopePods::default() });
        ScopeId(scopes.len() - 1)
    }

    /// Records an event of a scope's watch. Returns whether the scope is full from now on.
    pub fn record_event(&self, ScopeId(index): ScopeId, event: watcher::Event<Pod>) -> bool {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(scope) = scopes.get_mut(index) else { return false };
        match event {
            watcher::Event::Init => {
                let namespace = scope.namespace.take();
                *scope =
                    ScopePods { namespace, failed_at: scope.failed_at, ..ScopePods::default() };
            }
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                return scope.store_pod(&pod);
            }
            watcher::Event::Delete(pod) => scope.remove_pod(&pod),
            watcher::Event::InitDone => scope.is_complete = true,
        }
        false
    }

    /// Records that a scope's watch failed.
    pub fn record_failure(&self, ScopeId(index): ScopeId, now: Timestamp) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = scopes.get_mut(index) {
            scope.failed_at = Some(now);
        }
    }

    /// Returns the pods of a pool; `None` unless a watch knows them all.
    #[must_use]
    pub fn pods_of_pool(&self, namespace: &str, pool: &str, now: Timestamp) -> Option<Vec<Pod>> {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let covers = |scope: &&ScopePods| {
            scope.namespace.as_deref().is_none_or(|watched| watched == namespace)
        };
        let scope = scopes.iter().find(covers).filter(|scope| scope.is_trusted(now))?;
        let Some(pods) = scope.pools.get(&(namespace.to_owned(), pool.to_owned())) else {
            return Some(Vec::new());
        };
        pods.values().map(|json| serde_json::from_slice(json).ok()).collect()
    }
}

impl ScopePods {
    fn is_trusted(&self, now: Timestamp) -> bool {
        let has_failed = |at: Timestamp| now.duration_since(at) < DISTRUSTED_FOR;
        self.is_complete && !self.is_full && !self.failed_at.is_some_and(has_failed)
    }

    fn store_pod(&mut self, pod: &Pod) -> bool {
        self.remove_pod(pod);
        if self.is_full {
            return false;
        }
        let Ok(json) = serde_json::to_vec(pod) else { return false };
        if self.bytes + json.len() > PODS_BYTES_MAX {
            self.is_full = true;
            self.pools = HashMap::new();
            return true;
        }
        self.bytes += json.len();
        let pods = self.pools.entry(pool_of(pod)).or_default();
        pods.insert(pod.name_any(), json.into_boxed_slice());
        false
    }

    fn remove_pod(&mut self, pod: &Pod) {
        let key = pool_of(pod);
        let Some(pods) = self.pools.get_mut(&key) else { return };
        self.bytes -= pods.remove(&pod.name_any()).map_or(0, |json| json.len());
        if pods.is_empty() {
            self.pools.remove(&key);
        }
    }
}

fn pool_of(pod: &Pod) -> PoolKey {
    let instance = pod.labels().get(INSTANCE).cloned().unwrap_or_default();
    (pod.namespace().unwrap_or_default(), instance)
}

#[cfg(test)]
mod tests;
