//! From what was read of a pipeline to what is said of it: its path, what is wrong and what to do,
//! lag, sizing, rollouts, pods, what was set aside. For `kubectl millrace` and the operator's
//! console, which render the same structs; these are also the JSON of `-o json`.
//!
//! No client, no clock, no text for a medium: whoever reads the facts says when. What is not known
//! is absent, never zero. Limits: as much as the facts hold.

pub mod facts;

mod aside;
mod findings;
mod lag;
mod path;
mod pods;
mod rollout;
mod sizing;
mod sources;
mod status;
mod summary;
pub mod units;

pub use aside::{Aside, Fate, aside};
pub use findings::{Finding, Severity, findings};
pub use lag::{LagReport, PartitionLag, TopicLag, lag};
pub use path::{EdgeHop, GatewayHop, Path, TablesHop, Told, TopicHop, paths};
pub use pods::{PodLine, pod_lines};
pub use rollout::{RolloutLine, rollouts};
pub use sizing::{Decided, Fixed, SizingReport, sizing};
pub use sources::{PlannedStep, Sources, sources};
pub use status::{StatusReport, status};
pub use summary::{Summary, Verdict, summary};
