//! Shares code between edge and gateway pools: names, labels, secrets as files, the pod template,
//! observation of workloads and pods, trial pods, and the replica count that autoscalers write.
//!
//! Only `access`, `common`, `observe`, `scale` and `trial_pods` hold a client. All other modules
//! turn values into values.

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
pub mod process_counts;
pub mod processing;
pub mod rollout;
pub mod scale;
pub mod scrape;
pub mod secrets;
pub mod status;
pub mod template;
pub mod trial_pods;
pub(crate) mod variants;
pub mod volumes;
pub mod workload;
