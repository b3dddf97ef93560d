//! OpenTelemetry's consistent probability sampling, as pure functions.
//!
//! A record's [`Randomness`] is 56 bits of its trace id, the explicit `rv` of its trace state, or a
//! hash of something else that it carries. A [`Threshold`] says how many of the 2^56 values are
//! rejected. A record is sampled if its randomness is at least the threshold, so whoever samples a
//! trace at a higher ratio keeps each record that others keep at a lower one.
//!
//! - [`TraceState`] reads and writes `th` and `rv` in W3C's `tracestate`;
//! - [`Sampling`] decides about one record;
//! - [`RatioTable`] selects the sampling of a record by ordered rules.

mod config;
mod decision;
mod randomness;
mod rules;
mod threshold;
mod trace_state;

pub use config::{LogRandomness, MissingRandomness, Mode, Ratio, RuleConfig, SampleConfig};
pub use decision::{Outgoing, Reason, Sampling, SamplingDecision, SamplingItem};
pub use randomness::Randomness;
pub use rules::{
    Choice, NAME_BYTES_MAX, RULES_MAX, RatioTable, ResourceRules, SampleProblem, SampleProblemKind,
};
pub use threshold::{HEX_DIGITS_MAX, HexDigits, MAX_ADJUSTED_COUNT, Threshold};
pub use trace_state::{
    MEMBERS_MAX, TRACE_STATE_BYTES_MAX, TRACE_STATE_READ_BYTES_MAX, TraceState, TraceStateFault,
};

/// The attribute in which a log record carries its threshold, in the digits of `th`. The
/// Collector's probabilistic sampler uses the same name.
pub const LOG_THRESHOLD_ATTRIBUTE: &str = "sampling.threshold";

/// The attribute in which a log record carries its explicit randomness, in the digits of `rv`.
pub const LOG_RANDOMNESS_ATTRIBUTE: &str = "sampling.randomness";
