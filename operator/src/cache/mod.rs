//! What the process remembers between two reconciles, and what it promises about it.
//!
//! | what | whose | kept until | wrong by at most |
//! | --- | --- | --- | --- |
//! | [`children`]: versions seen and verified | a child's | it is gone | 30 min |
//! | [`objects`]: our own kinds ([`packed`]) | an object's | it is gone | a watch's delay |
//! | [`secret_references`]: pools that use a Secret | a pool's | it is gone | a watch's delay |
//! | [`claims`]: who holds a topic, a group, tables | an object's | it is gone | a watch's delay |
//! | [`scraping`]: what sharing out found of its targets | a pool's | 10 min | one round |
//! | [`holders`]: what an object has on record | an object's | it is gone | one sample |
//! | [`scraping`] | what sharing out found of a pool's targets, for its status | one round |
//! | [`failures`]: failures in a row | an object's | it succeeds | - |
//! | [`queue_time`]: since when it waits | an object's | its reconcile | - |
//! | [`access`]: who may watch what | two bindings' | the process ends | an edit by hand |
//! | [`inserts`]: what pools insert into tables | a pool's | 10 min unseen | one sample |
//! | [`shown`]: what the console shows | a pool's, a schema's | newer ones push it out | - |
//! | [`sizing`], [`baseline`], by pool ([`by_pool`]) | a pool's | 10 min unseen | one sample |
//!
//! All of it only saves work or asks for a time: a process that starts with none of it decides the
//! same, later. So nothing here is a decision; those are in statuses. No I/O.

pub mod access;
pub mod baseline;
pub mod by_pool;
pub mod children;
pub mod claims;
pub mod failures;
pub mod holders;
pub mod inserts;
pub mod objects;
pub mod packed;
pub mod queue_time;
pub mod replays;
pub mod scraping;
pub mod secret_references;
pub mod shown;
pub mod sizing;

use kube::{Resource, ResourceExt};

/// What an object is called in logs and counts, and here.
#[must_use]
pub fn key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// What an object is called in logs and counts, and here.
#[must_use]
pub fn key_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    key(&K::kind(&()), &object.namespace().unwrap_or_default(), &object.name_any())
}
