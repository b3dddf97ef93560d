//! The rules of a spec: the steps of a pipeline and of one of its pools as one list, that list as
//! the collector's settings, and whether it compiles.
//!
//! Used by the operator, the plugin and the converter, so that all of them refuse the same rules
//! with the same words. Types only come from `millrace-crds`, rules from `millrace-processing`.
//!
//! No clock, no I/O: a key of hashes is a path in the settings, and a stand-in when rules are only
//! checked.

mod check;
mod pool;
mod settings;

pub use check::{RuleError, compile_rules};
pub use pool::{POOL_STEPS_MAX, PoolStepsError, pool_steps};
pub use settings::build_settings;
