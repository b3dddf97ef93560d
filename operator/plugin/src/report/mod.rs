//! From facts to what is reported of them: pure functions and plain structs, which are also the
//! JSON of `-o json`.

mod effects;
mod findings;
mod lag;
pub mod mask;
mod path;
mod plan;
mod pods;
mod rollout;
mod sizing;
mod status;
mod uninstall;

pub use findings::{Finding, Severity, findings};
pub use lag::{LagReport, PartitionLag, TopicLag, lag};
pub use path::{EdgeHop, GatewayHop, Path, TablesHop, Told, TopicHop, paths};
pub use plan::{Change, Effect, EffectKind, Pending, PlanReport, plan};
pub use pods::{PodLine, pod_lines};
pub use rollout::{RolloutLine, rollouts};
pub use sizing::{SizingReport, sizing};
pub use status::{StatusReport, status};
pub use uninstall::{Installed, UninstallReport, uninstall};
