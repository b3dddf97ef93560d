//! Builds reports from facts: pure functions and plain structs, which are also the JSON of `-o
//! json`. `millrace-reports` has those that the console shows too.

mod effects;
mod explain_defaults;
pub mod mask;
mod plan;
mod test_run;
mod uninstall;

pub use effects::{ChangeEffect, EffectKind, FieldChange};
pub use explain_defaults::{EffectiveField, EffectiveSpec, explain_defaults};
pub use millrace_reports::{
    Finding, LagReport, PodLine, ProblemGroup, ReportingPods, RolloutLine, Severity, SignalPath,
    SizingReport, StatusReport, group_findings, lag_report, pod_lines, rollout_lines,
    sizing_report, status_report,
};
pub use plan::{Pending, PlanReport, plan_report};
pub use test_run::{Entrance, InKafka, RowCounts, TestRun, collect_hints, find_entrances};
pub use uninstall::{Installed, UninstallReport, uninstall_report};
