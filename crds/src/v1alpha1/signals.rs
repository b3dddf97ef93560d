//! The three signals, and the settings of their topics.
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

/// Settings of each signal in use. Signals without an entry are not handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = at_least_one)]
pub struct PerSignal<T> {
    /// Traces: `{}` for all defaults. If omitted, traces are not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<T>,
    /// Logs: `{}` for all defaults. If omitted, logs are not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<T>,
    /// Metrics: `{}` for all defaults. If omitted, metrics are not handled.
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
    rules::add_rule(
        schema,
        "has(self.traces) || has(self.logs) || has(self.metrics)",
        "write at least one signal, for example traces: {}",
    );
}

/// Who changes a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TopicManagement {
    /// The operator creates the topic, adds partitions and adjusts settings.
    #[default]
    Managed,
    /// The operator only reads the topic, and reports what differs from the spec.
    Observed,
}

/// Settings of a topic. An omitted setting is not changed; a new topic gets the broker's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = topic_rules)]
pub struct TopicSettings {
    /// Who changes the topic. With Observed, for topics of Strimzi's Topic Operator or a platform
    /// team, the operator only reads it and reports what differs: it never creates, changes or
    /// deletes it, nor records its holder. Default: Managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<TopicManagement>,
    /// Number of partitions, 1 to 10000: also the maximum number of gateway pods. Cannot be lowered
    /// later: Kafka only adds partitions. For fewer create a pipeline with another topicName.
    /// Default: 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub partitions: Option<u32>,
    /// Replication factor, 1 to 16; 3 tolerates the loss of a broker. Only for a new topic: the
    /// operator does not change it later; reassign partitions in Kafka instead. Default: the
    /// broker's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub replication_factor: Option<u16>,
    /// Kafka's retention (retention.ms), for example 6h: the longest outage of ClickHouse without
    /// data loss. Default: the broker's default (Kafka ships 7d).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Period>,
    /// Other topic settings by Kafka's names, for example {"min.insync.replicas": "2"}. Values are
    /// strings. At most 32; other settings are not changed, except message.timestamp.type:
    /// LogAppendTime unless written here, so that clients' clocks don't matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 1_024>)]
    pub settings: BTreeMap<String, String>,
}

impl TopicSettings {
    /// Default number of partitions: 12 divides evenly among 1, 2, 3, 4, 6 or 12 gateway pods.
    pub const DEFAULT_PARTITIONS: u32 = 12;

    /// Who changes the topic, the default filled in.
    pub fn management(&self) -> TopicManagement {
        self.management.unwrap_or_default()
    }

    /// The number of partitions, the default filled in.
    pub fn partitions(&self) -> u32 {
        self.partitions.unwrap_or(Self::DEFAULT_PARTITIONS)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings, with `defaults` for those that are not written.
    #[must_use]
    pub(crate) fn with_defaults(&self, defaults: &Self) -> Self {
        let Self { management, partitions, replication_factor, retention, settings } = self.clone();
        let mut merged = defaults.settings.clone();
        merged.extend(settings);
        Self {
            management: management.or(defaults.management),
            partitions: partitions.or(defaults.partitions),
            replication_factor: replication_factor.or(defaults.replication_factor),
            retention: retention.or_else(|| defaults.retention.clone()),
            settings: merged,
        }
    }
}

/// Rules of a topic's settings, for every place that embeds them.
fn topic_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.settings) || !('retention.ms' in self.settings)",
        "write retention: 6h instead of the setting retention.ms",
    );
    rules::add_rule(
        schema,
        "!has(self.settings) || self.settings.all(name, name.matches('^[a-z][a-z.]*$') \
         && size(name) <= 64)",
        "write settings by Kafka's own names, for example min.insync.replicas: \"2\"",
    );
}

/// Partitions never shrink: `steps` lead from the value that has the rule, which is always there,
/// to the topic's settings.
pub(crate) fn partitions_grow(schema: &mut Schema, steps: &[&str], advice: &str) {
    let rule = grow_expression(&[steps]);
    rules::add_rule(schema, &rule, &format!("partitions never shrink: {advice}"));
}

/// Whether partitions don't shrink, or are another's to decide, as a CEL expression. `paths` lead
/// to the topic's settings and to their defaults.
pub(crate) fn grow_expression(paths: &[&[&str]]) -> String {
    let management = rules::first_of("self", paths, &["management"], "'Managed'");
    let default = TopicSettings::DEFAULT_PARTITIONS.to_string();
    let partitions = |owner| rules::first_of(owner, paths, &["partitions"], &default);
    let (now, before) = (partitions("self"), partitions("oldSelf"));
    format!("({management} == 'Observed' || {now} >= {before})")
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

/// Whether others may use the same topic, consumer group or tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Ownership {
    /// One object only.
    #[default]
    Exclusive,
    /// All objects that are Shared.
    Shared,
}

impl Ownership {
    /// Whether others may use the same.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Shared)
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        !self.is_shared()
    }
}

/// An unset value is not written: objects without it stay as they are.
pub(crate) fn is_not_set(flag: &bool) -> bool {
    !flag
}
