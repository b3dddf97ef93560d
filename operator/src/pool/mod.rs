//! What edge and gateway pools share: names, labels, secrets as files, the pod template, and how
//! their workloads and pods are read; pods that try a change; the number that autoscalers write.
//!
//! Only `access`, `observe`, `scale` and `try_pods` hold a client. Everything
//! else turns values into values.

pub mod access;
pub mod connection;
pub mod discover;
pub mod draft;
pub mod member;
pub mod memory;
pub mod merge;
pub mod names;
pub mod objects;
pub mod observe;
pub mod preflight;
pub mod scale;
pub mod scrape;
pub mod secrets;
pub mod status;
pub mod template;
pub mod try_pods;
pub mod workload;

use kube::{Resource, ResourceExt};
use millrace_crds::ROLLOUT_ANNOTATION;
use millrace_rollout::Wish;

/// The user's annotation about a pool's rollout. An unknown value holds it: it was meant to do
/// something.
pub fn wish<K: Resource>(pool: &K) -> Wish {
    match pool.annotations().get(ROLLOUT_ANNOTATION).map(String::as_str) {
        None | Some("" | "resume") => Wish::Go,
        Some("abort") => Wish::Abort,
        Some(_) => Wish::Pause,
    }
}
