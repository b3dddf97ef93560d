//! Builds reports from the facts read of a pipeline: its path, problems and remedies, lag, sizing,
//! rollouts, pods, records that were not stored. `kubectl millrace` and the operator's console
//! render the same structs; these are also the JSON of `-o json`.
//!
//! No client, no clock, no rendering: the reader of the facts sets the time. Unknown values are
//! absent, never zero. Limits: those of the facts.

pub mod facts;
mod lag;
mod path;
mod pools;
mod problems;
mod resources;
mod status;
mod summary;
pub mod units;

pub use pools::day;

pub use lag::{LagReport, PartitionLag, TopicLag, lag_report};
pub use path::{EdgeHop, GatewayHop, ReportingPods, SignalPath, TablesHop, TopicHop, signal_paths};
pub use pools::dead_letters::{
    DeadLetterEntry, DeadLetterReport, DeadLetterSample, merge_dead_letters,
};
pub use pools::pods::{PodLine, pod_lines};
pub use pools::producers::{
    ProducedBytes, ProducerRate, ProducerReport, ProducerSample, rank_producers,
};
pub use pools::rollout::{RolloutLine, rollout_lines};
pub use pools::sizing::{FixedReplicas, SizingDecision, SizingReport, sizing_report};
pub use pools::sources::{PlannedStep, PoolSources, pool_sources};
pub use problems::findings::{Finding, RolloutCause, Severity, pipeline_findings};
pub use problems::problem_groups::{ProblemGroup, group_findings};
pub use problems::unstored::{Fate, UnstoredRecords, unstored_records};
pub use resources::{ResourceNode, resource_tree};
pub use status::{StatusReport, status_report};
pub use summary::{ReadyState, Summary, summarize_pipeline};
