//! From facts to what is reported of them: pure functions and plain structs, which are also the
//! JSON of `-o json`. Those that the console shows too are in `millrace-reports`.

mod effects;
pub mod mask;
mod plan;
mod test_run;
mod uninstall;

pub use millrace_reports::{
    Finding, LagReport, Path, PodLine, RolloutLine, Severity, SizingReport, StatusReport, Told,
    lag, pod_lines, rollouts, sizing, status,
};
pub use plan::{Change, Effect, EffectKind, Pending, PlanReport, plan};
pub use test_run::{Entrance, InKafka, Seen, TestRun, entrances, hints};
pub use uninstall::{Installed, UninstallReport, uninstall};
