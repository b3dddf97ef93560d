//! The three signals, and what is said about each one's topic.
//!
//! Limits: 32 topic settings; 1 to 10,000 partitions.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::amounts::Period;

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metric points.
    Metrics,
}

impl Signal {
    /// All of them, in the order used everywhere.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// The name in specs, labels and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// The default topic: the OpenTelemetry ecosystem's.
    pub const fn default_topic(self) -> &'static str {
        match self {
            Self::Traces => "otlp_traces",
            Self::Logs => "otlp_logs",
            Self::Metrics => "otlp_metrics",
        }
    }
}

/// Settings for each signal in use. A signal that is left out is not handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = at_least_one)]
pub struct PerSignal<T> {
    /// Spans. `{}` takes every default; left out, traces are not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<T>,
    /// Log records. `{}` takes every default; left out, logs are not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<T>,
    /// Metric points. `{}` takes every default; left out, metrics are not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<T>,
}

impl<T> PerSignal<T> {
    /// The settings of one signal.
    pub fn get(&self, signal: Signal) -> Option<&T> {
        match signal {
            Signal::Traces => self.traces.as_ref(),
            Signal::Logs => self.logs.as_ref(),
            Signal::Metrics => self.metrics.as_ref(),
        }
    }

    /// The signals in use, with their settings.
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &T)> {
        Signal::ALL.into_iter().filter_map(|signal| Some((signal, self.get(signal)?)))
    }

    /// The same signals with other settings.
    pub fn map<U>(&self, mut make: impl FnMut(Signal, &T) -> U) -> PerSignal<U> {
        let mut one = |signal| self.get(signal).map(|value| make(signal, value));
        PerSignal {
            traces: one(Signal::Traces),
            logs: one(Signal::Logs),
            metrics: one(Signal::Metrics),
        }
    }
}

fn at_least_one(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.traces) || has(self.logs) || has(self.metrics)",
        "name at least one signal, for example traces: {}",
    );
}

/// A topic's settings. An omitted setting keeps its value, or gets the broker's default when the
/// topic is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = topic_rules)]
pub struct TopicSettings {
    /// Number of partitions, 1 to 10000: also the most gateway pods that can share the topic.
    /// Grows when raised; can't be lowered, because Kafka can't.
    #[serde(default = "TopicSettings::default_partitions")]
    #[schemars(range(min = 1, max = 10_000))]
    pub partitions: u32,
    /// Copies of each partition, 1 to 16; with 3 writing continues after the loss of a broker. Used
    /// when the topic is made, not changed later. Default: the broker's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub replication_factor: Option<u16>,
    /// How long Kafka keeps records (retention.ms), for example 6h: the longest outage of
    /// ClickHouse that loses nothing. Default: the broker's default (7d as shipped).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Period>,
    /// Other topic settings by Kafka's names, for example {"min.insync.replicas": "2"}. Values are
    /// text. At most 32; settings not named here stay, except message.timestamp.type: LogAppendTime
    /// unless named here, so that senders' clocks don't matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 1_024>)]
    pub settings: BTreeMap<String, String>,
}

impl TopicSettings {
    /// Partitions of a topic when none are asked for: 12 shares evenly among 1, 2, 3, 4, 6 or 12
    /// gateway pods.
    pub const DEFAULT_PARTITIONS: u32 = 12;

    fn default_partitions() -> u32 {
        Self::DEFAULT_PARTITIONS
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            partitions: Self::DEFAULT_PARTITIONS,
            replication_factor: None,
            retention: None,
            settings: BTreeMap::new(),
        }
    }
}

/// Rules of a topic's settings, for every place that embeds them.
fn topic_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.settings) || !('retention.ms' in self.settings)",
        "write retention: 6h instead of the setting retention.ms",
    );
    rules::rule(
        schema,
        "!has(self.settings) || self.settings.all(name, name.matches('^[a-z][a-z.]*$') \
         && size(name) <= 64)",
        "write settings by Kafka's own names, for example min.insync.replicas: \"2\"",
    );
}

/// Partitions never shrink: `steps` lead from the value that has the rule, which is always there,
/// to the topic's settings.
pub(crate) fn partitions_grow(schema: &mut Schema, steps: &[&str], advice: &str) {
    let rule = format!("{} >= {}", partitions("self", steps), partitions("oldSelf", steps));
    rules::rule(schema, &rule, &format!("partitions never shrink: {advice}"));
}

/// The partitions that a topic's settings ask for, as a CEL expression.
pub(crate) fn partitions(owner: &str, steps: &[&str]) -> String {
    let default = TopicSettings::DEFAULT_PARTITIONS.to_string();
    rules::deep_or(owner, &[steps, &["partitions"]].concat(), &default)
}

/// What happens to something outside Kubernetes when its object is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays, with all data.
    #[default]
    Retain,
    /// It is deleted, with all data.
    Delete,
}

/// An unset value is not written: objects without it stay as they are.
pub(crate) fn is_not_set(flag: &bool) -> bool {
    !flag
}
