//! The rules as users write them: an ordered list of named steps.

use millrace_wire::Signal;
use serde::{Deserialize, Serialize};

use crate::enrich::{EnrichConfig, PodMetadataConfig};
use crate::redact::RedactConfig;
use crate::sample::SampleConfig;

/// The steps of a pipeline or pool, in the order in which they run.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Config {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step: exactly one of its actions is set.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// The step's name in messages and metrics.
    pub name: String,
    /// What happens to a record on which a rule of this step fails.
    #[serde(default)]
    pub error_mode: ErrorMode,
    /// The signals to which the step applies: by default all that its rules can apply to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalName>,
    /// The context of `statements`: by default the lowest that a path in them names, as in
    /// `log.attributes["a"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextName>,
    /// Statements in OTTL, which run in order on each object of the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    /// Conditions in OTTL: objects on which any of them is true are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropConditions>,
    /// Secrets and personal data that are removed from attributes, bodies and names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<Box<RedactConfig>>,
    /// The ratio of spans and log records that are passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Box<SampleConfig>>,
    /// Records that go to another topic instead: later steps don't apply to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteConfig>,
    /// Metadata that records of OTLP clients get, as resource attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrich: Option<Box<EnrichConfig>>,
}

/// The action of a step.
#[derive(Clone, Copy, Debug)]
pub enum StepAction<'a> {
    /// Statements in OTTL.
    Statements(&'a [String]),
    /// Conditions for dropping.
    Drop(&'a DropConditions),
    /// What is redacted.
    Redact(&'a RedactConfig),
    /// What is sampled.
    Sample(&'a SampleConfig),
    /// What goes to another topic.
    Route(&'a RouteConfig),
    /// What is added.
    Enrich(&'a EnrichConfig),
}

impl Config {
    /// Returns the settings of the step that adds pods' metadata. A rule set has at most one.
    #[must_use]
    pub fn pod_metadata(&self) -> Option<&PodMetadataConfig> {
        self.steps.iter().find_map(|step| Some(&step.enrich.as_ref()?.pod_metadata))
    }
}

impl Step {
    /// Whether the step applies to a signal, as far as `signals` states.
    #[must_use]
    pub fn applies_to(&self, signal: Signal) -> bool {
        self.signals.is_empty() || self.signals.iter().any(|name| Signal::from(*name) == signal)
    }

    /// Returns the step's action.
    ///
    /// # Errors
    /// A message, if it has none or several.
    pub fn action(&self) -> Result<StepAction<'_>, &'static str> {
        let mut actions = [
            (!self.statements.is_empty()).then_some(StepAction::Statements(&self.statements)),
            self.drop.as_ref().map(StepAction::Drop),
            self.redact.as_deref().map(StepAction::Redact),
            self.sample.as_deref().map(StepAction::Sample),
            self.route.as_ref().map(StepAction::Route),
            self.enrich.as_deref().map(StepAction::Enrich),
        ]
        .into_iter()
        .flatten();
        match (actions.next(), actions.next()) {
            (Some(StepAction::Statements(texts)), None) => Ok(StepAction::Statements(texts)),
            (Some(_), None) if self.context.is_some() => {
                Err("context applies to statements only: conditions name theirs in their paths")
            }
            (Some(action), None) => Ok(action),
            (None, _) => Err("the step has no action; write statements, drop, redact, sample, \
                            route or enrich"),
            (Some(_), Some(_)) => Err("the step has two actions; write one step for each"),
        }
    }
}

/// The conditions of a `drop` step, by the objects that they drop.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DropConditions {
    /// Resources with all their records, of all signals of the step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Instrumentation scopes with all their records, of all signals of the step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Log records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Spans.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<String>,
    /// Events of spans.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub span_events: Vec<String>,
    /// Metrics with all their data points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Data points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_points: Vec<String>,
}

/// The records of a `route` step, and the topic that gets them: exactly one of the lists is set.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteConfig {
    /// A Kafka topic of the same cluster. It holds records of one signal, and isn't one of
    /// `exporters.kafka.topics`.
    pub topic: String,
    /// Conditions in OTTL on log records: those on which any is true are routed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Conditions on spans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<String>,
    /// Conditions on metrics, which go with all their data points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
}

/// What happens to a record on which a rule fails, for example because a value has the wrong type.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ErrorMode {
    /// The failure is counted and logged; the next rule runs.
    #[default]
    Ignore,
    /// The failure is counted; the next rule runs.
    Silent,
    /// The request is refused.
    Propagate,
}

/// A signal.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum SignalName {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Data points.
    Metrics,
}

impl From<SignalName> for Signal {
    fn from(name: SignalName) -> Self {
        match name {
            SignalName::Traces => Self::Traces,
            SignalName::Logs => Self::Logs,
            SignalName::Metrics => Self::Metrics,
        }
    }
}

/// The objects on which statements run, by the names that OTTL gives them.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextName {
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
