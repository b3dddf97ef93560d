//! Shares code between edge and gateway pools: names, labels, secrets as files, the pod template,
//! observation of workloads and pods, trial pods, and the replica count that autoscalers write.
//!
//! `settings` translates a spec to the collector's settings, `pod` builds the pod template,
//! `objects` the other objects; `rollout` plans trial pods and describes pods for rollouts.
//!
//! Only `access`, `common`, `observe`, `scale` and `trial_pods` hold a client. All other modules
//! turn values into values.

pub mod names;
pub mod objects;
pub mod observe;
mod pod;
pub mod rollout;
pub mod scale;
pub(crate) mod settings;
pub mod status;

pub use objects::{access, common};
pub use pod::{draft, merge, secrets, template, volumes};
pub use rollout::{member, preflight, trial_pods, workload};
pub use settings::{attributes, connection, discover, memory, overrides, processing, scrape};
pub use status::process_counts;
