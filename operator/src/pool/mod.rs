//! Shares code between edge and gateway pools: names, labels, secrets as files, the pod template,
//! observation of workloads and pods, trial pods, and the replica count that autoscalers write.
//!
//! Only `access`, `common`, `observe`, `scale` and `trial_pods` hold a client. All other modules turn
//! values into values.

pub mod access;
pub mod attributes;
pub mod common;
pub mod connection;
pub mod discover;
pub mod draft;
pub mod member;
pub mod memory;
pub mod merge;
pub mod names;
pub mod objects;
pub mod observe;
pub mod overrides;
pub mod preflight;
pub mod processing;
pub mod scale;
pub mod scrape;
pub mod secrets;
pub mod status;
pub mod template;
pub mod trial_pods;
pub(crate) mod variants;
pub mod volumes;
pub mod workload;

use millrace_crds::v1alpha1::{Controlled, RolloutAction};
use millrace_rollout::Wish;

/// Returns the user's action on a pool's rollout.
pub fn rollout_request<K: Controlled>(pool: &K) -> Wish {
    match pool.rollout_action() {
        None => Wish::Continue,
        Some(RolloutAction::Abort) => Wish::Abort,
        Some(RolloutAction::Pause) => Wish::Pause,
    }
}
