//! The rules of an edge pool: an ordered list of named steps that edit, drop, redact, sample, route
//! or enrich records before they are stored. The fields are those of the collector's setting
//! `processing`.
//!
//! Statements and conditions are OTTL. The operator compiles them; the API server only bounds them.
//!
//! Limits: 32 steps, 128 statements or conditions in a list, 8,192 characters each.

pub(super) mod enrichment;
pub(super) mod redaction;
pub(super) mod routes;
pub(super) mod sampling;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::processing::enrichment::EnrichStep;
use super::processing::redaction::RedactStep;
use super::processing::sampling::SampleStep;
use super::rules;
use super::signals::Signal;
use crate::names::TopicName;

/// One step: exactly one of statements, drop, redact, sample, route and enrich.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = step_rules)]
pub struct ProcessingStep {
    /// Name in messages and metrics: lower-case letters, digits and dashes, starting with a letter.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Signals to which the step applies: Traces, Logs, Metrics. Default: all that have the objects
    /// of its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub signals: Vec<ProcessedSignal>,
    /// What happens if a rule fails on a record, for example because a value has the wrong type:
    /// Ignore (counted and logged, the next rule runs), Silent (only counted) or Propagate (the
    /// request is rejected). Default: Ignore.
    #[serde(default, skip_serializing_if = "ErrorMode::is_default")]
    pub error_mode: ErrorMode,
    /// Context of the statements, by its name in OTTL. Default: the lowest that a path in them
    /// names, such as log in log.attributes["key"].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<StatementContext>,
    /// Statements in OTTL, which run in order on each object of the context, for example
    /// set(log.attributes["team"], "web"). At most 128. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub statements: Vec<String>,
    /// Drops the objects on which any of these conditions is true. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropStep>,
    /// Replaces or removes secrets and personal data in attributes, bodies and names. An empty
    /// object masks all ready sets. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<RedactStep>,
    /// Retains a ratio of spans and log records. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleStep>,
    /// Sends the records on which any condition is true to another topic, usually one of another
    /// TelemetryPipeline with its own tables and retention. Later steps do not apply to them.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteStep>,
    /// Adds metadata to the records of OTLP clients. A pool has at most one such step. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrich: Option<EnrichStep>,
}

fn step_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "(has(self.statements) && size(self.statements) > 0 ? 1 : 0) + (has(self.drop) ? 1 : 0) \
         + (has(self.redact) ? 1 : 0) + (has(self.sample) ? 1 : 0) + (has(self.route) ? 1 : 0) \
         + (has(self.enrich) ? 1 : 0) == 1",
        "write exactly one of statements, drop, redact, sample, route and enrich in each step",
    );
    rules::add_rule(
        schema,
        "!has(self.context) || (has(self.statements) && size(self.statements) > 0)",
        "context applies to statements only: remove it",
    );
}

/// The conditions of a drop step, by the objects that they drop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = drop_rules)]
pub struct DropStep {
    /// Resources with all their records. At most 128, as of each list. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub resources: Vec<String>,
    /// Instrumentation scopes with all their records. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub scopes: Vec<String>,
    /// Log records, for example log.severity_number < SEVERITY_NUMBER_INFO. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub logs: Vec<String>,
    /// Spans. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub spans: Vec<String>,
    /// Events of spans. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub span_events: Vec<String>,
    /// Metrics with all their data points. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub metrics: Vec<String>,
    /// Data points. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub data_points: Vec<String>,
}

fn drop_rules(schema: &mut Schema) {
    let lists = ["resources", "scopes", "logs", "spans", "spanEvents", "metrics", "dataPoints"];
    let any: Vec<String> =
        lists.iter().map(|it| format!("(has(self.{it}) && size(self.{it}) > 0)")).collect();
    rules::add_rule(
        schema,
        &any.join(" || "),
        "write a condition, for example logs: ['log.severity_number < SEVERITY_NUMBER_INFO']",
    );
}

/// The records of a route step, and the topic that gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = route_rules)]
pub struct RouteStep {
    /// Topic of the same Kafka cluster, which holds records of one signal. It must exist, and the
    /// pool's credentials must allow writing to it; its gateways read it like any other.
    pub topic: TopicName,
    /// Conditions on log records, for example log.attributes["audit"] == true. At most 128, as of
    /// each list. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub logs: Vec<String>,
    /// Conditions on spans. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub spans: Vec<String>,
    /// Conditions on metrics, which go with all their data points. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub metrics: Vec<String>,
}

impl RouteStep {
    /// Returns the signal of the routed records.
    #[must_use]
    pub fn signal(&self) -> ProcessedSignal {
        // The API server accepts exactly one list.
        match (self.logs.is_empty(), self.spans.is_empty()) {
            (false, _) => ProcessedSignal::Logs,
            (true, false) => ProcessedSignal::Traces,
            (true, true) => ProcessedSignal::Metrics,
        }
    }
}

fn route_rules(schema: &mut Schema) {
    let count: Vec<String> = ["logs", "spans", "metrics"]
        .iter()
        .map(|it| format!("(has(self.{it}) && size(self.{it}) > 0 ? 1 : 0)"))
        .collect();
    rules::add_rule(
        schema,
        &format!("{} == 1", count.join(" + ")),
        "write exactly one of logs, spans and metrics: a topic holds one signal",
    );
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProcessedSignal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Data points.
    Metrics,
}

impl From<ProcessedSignal> for Signal {
    fn from(signal: ProcessedSignal) -> Self {
        match signal {
            ProcessedSignal::Traces => Self::Traces,
            ProcessedSignal::Logs => Self::Logs,
            ProcessedSignal::Metrics => Self::Metrics,
        }
    }
}

/// What happens if a rule fails on a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorMode {
    /// The failure is counted and logged; the next rule runs.
    #[default]
    Ignore,
    /// The failure is counted; the next rule runs.
    Silent,
    /// The request is rejected.
    Propagate,
}

impl ErrorMode {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The objects on which statements run, by their names in OTTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StatementContext {
    /// Resources.
    Resource,
    /// Instrumentation scopes.
    Scope,
    /// Log records.
    Log,
    /// Spans.
    Span,
    /// Events of spans.
    SpanEvent,
    /// Metrics.
    Metric,
    /// Data points.
    DataPoint,
}
