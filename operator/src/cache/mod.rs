//! The process's memory between two reconciles, and how stale it can be.
//!
//! | what | whose | retained until | wrong by at most |
//! | --- | --- | --- | --- |
//! | [`children`]: versions observed and verified | a child's | its deletion | 30 min |
//! | [`objects`]: our own kinds ([`packed`]) | an object's | its deletion | a watch's delay |
//! | [`gateway_pods`]: pods of gateways | a scope's | its deletion | a watch's delay |
//! | [`gateway`]: a StatefulSet at rest | a pool's | 10 min | a watch's delay |
//! | [`gateway`]: digests of its Secrets at rest | a pool's | 10 min | 30 s |
//! | [`secret_references`]: pools that use a Secret | a pool's | its deletion | a watch's delay |
//! | [`claims`]: holders of topics, groups, tables | an object's | its deletion | a watch's delay |
//! | [`scraping`]: result of sharing out its targets | a pool's | 10 min | one round |
//! | [`holders`]: what an object has on record | an object's | its deletion | one sample |
//! | [`failures`]: failures in a row | an object's | it succeeds | - |
//! | [`queue_time`]: when it began to wait | an object's | its reconcile | - |
//! | [`access`]: who may watch what | two bindings' | the process ends | a manual edit |
//! | [`inserts`]: insert rates of tables | a pool's | 10 min unobserved | one sample |
//! | [`shown`]: what the console shows | a pool's, a schema's | newer ones evict it | - |
//! | [`sizing`], [`baseline`], [`absent`], by pool ([`by_pool`]) | a pool's | 10 min | one sample |
//!
//! All of it only saves work or measures a time: a process that starts without it reaches the same
//! decisions, later. So no decision is stored here; those are in statuses. No I/O.

pub mod access;
pub mod claims;
pub mod failures;
pub mod holders;
pub mod objects;
mod pools;
pub mod queue_time;
pub mod secret_references;
pub mod shown;
pub mod slots;

pub use objects::{children, packed};
pub use pools::{
    absent, baseline, by_pool, gateway, gateway_pods, inserts, replays, scraping, sizing,
};

use kube::{Resource, ResourceExt};

/// Returns the key that identifies an object in logs, counts and caches.
#[must_use]
pub fn object_key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// Returns [`key`] of an object.
#[must_use]
pub fn key_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    object_key(&K::kind(&()), &object.namespace().unwrap_or_default(), &object.name_any())
}
