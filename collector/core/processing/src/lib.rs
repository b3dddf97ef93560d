//! Rules over OTLP requests as bytes: a rule set is compiled once, then runs over requests without
//! a tree of messages. Bytes that no rule touches are copied as ranges, undecoded.
//!
//! - [`Config`] is the list of steps as users write it; [`RuleSet::compile`] compiles it, or
//!   reports each error with its line, column, the nearest name and what is supported;
//! - [`RuleSet::run`] runs it on a request, with a [`Scratch`] per thread and [`Counts`] by rule.
//!
//! The language is OpenTelemetry's (OTTL): a subset with the results of the Collector 0.161.
//! Differences that are intended: texts are never cut inside of a character (`Substring`,
//! `truncate_all`); times without an offset are in UTC; lists may be members of map literals;
//! lists are compared by their elements, whatever made them; a map may be copied into itself; globs
//! match characters, not bytes; patterns are literals, with a named group for `ExtractPatterns`.
//!
//! - [`redact`] finds secrets and personal data in text, and replaces them: in attributes of all
//!   objects, bodies, span and event names and status messages, also in nested lists and maps, in
//!   links and exemplars. Keys, numbers, names of metrics and unknown fields aren't searched. An
//!   object that exceeds a limit is redacted nevertheless, without growth;
//! - [`sample`] decides which spans and log records OpenTelemetry's consistent probability sampling
//!   passes on. Such a record states its threshold: spans as `ot=th` in their trace state, log
//!   records as the attribute `sampling.threshold`, in hexadecimal digits. It represents `2^56 /
//!   (2^56 - threshold)` records, so readers add these instead of counting records. Log records
//!   without a trace id are sampled by a hash of an attribute or of their content, which is written
//!   as `sampling.randomness`, so that later samplers decide by the same one.
//! - a `route` step divides a request: what its conditions match is a request for another topic,
//!   with the resources and scopes around it, and the steps after it apply to the others.
//!
//! - [`enrich`] labels resources with the metadata of the pod that sent them, from a table of the
//!   caller's.
//!
//! Nothing here has a clock, does I/O, is async or random: a request, a rule set and the pods that
//! are known always give the same bytes. A caller's clock measures rules ([`Scratch::with_clock`]),
//! and changes no byte.

mod config;
mod counts;
mod edit;
pub mod enrich;
mod error;
mod eval;
pub mod explain;
pub mod limits;
mod ottl;
mod program;
pub mod redact;
mod rule_set;
pub mod sample;
mod timer;
mod value;
mod walk;

pub use config::{
    Config, ContextName, DropConditions, ErrorMode, RouteConfig, SignalName, Step, StepAction,
};
pub use counts::{Counts, RuleCounts};
pub use error::{CompileError, CompileErrors, RuleFailure};
pub use ottl::functions::function_signatures;
pub use rule_set::{Outcome, ProcessError, RouteTopic, RoutedRequest, Rule, RuleSet, Scratch};
pub use timer::ClockNanos;
