//! Builds reports from the facts read of a pipeline: its path, problems and remedies, lag, sizing,
//! rollouts, pods, records that were not stored. `kubectl millrace` and the operator's console
//! render the same structs; these are also the JSON of `-o json`.
//!
//! No client, no clock, no rendering: the reader of the facts sets the time. Unknown values are
//! absent, never zero. Limits: those of the facts.

pub mod day;
pub mod facts;

mod findings;
mod lag;
mod path;
mod pods;
mod problem_groups;
mod producers;
mod resources;
mod rollout;
mod sizing;
mod sources;
mod status;
mod summary;
pub mod units;
mod unstored;

pub use findings::{Finding, RolloutCause, Severity, pipeline_findings};
pub use lag::{LagReport, PartitionLag, TopicLag, lag_report};
pub use path::{EdgeHop, GatewayHop, ReportingPods, SignalPath, TablesHop, TopicHop, signal_paths};
pub use pods::{PodLine, pod_lines};
pub use problem_groups::{ProblemGroup, group_findings};
pub use producers::{ProducedBytes, ProducerRate, ProducerReport, ProducerSample, rank_producers};
pub use resources::{ResourceNode, resource_tree};
pub use rollout::{RolloutLine, rollout_lines};
pub use sizing::{FixedReplicas, SizingDecision, SizingReport, sizing_report};
pub use sources::{PlannedStep, PoolSources, pool_sources};
pub use status::{StatusReport, status_report};
pub use summary::{ReadyState, Summary, summarize_pipeline};
pub use unstored::{Fate, UnstoredRecords, unstored_records};
