//! The signals of a pipeline: their topics and tables, and the defaults that they share.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::names::TopicName;
use crate::v1alpha1::rules;
use crate::v1alpha1::signals::{PerSignal, Signal, TopicSettings, grow_expression};
use crate::v1alpha1::table::ttl::TableTtl;
use crate::v1alpha1::table::{
    TABLES_STAY, TableSettings, attributes_expression, signal_table_rules, table_stays,
};

/// The signals of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = signals_fit)]
pub struct PipelineSignals {
    /// Settings of every signal that doesn't have its own, field by field. A signal's replication,
    /// storage and lists replace these as a unit; entries of topic.settings are merged. Default:
    /// each field's own.
    #[serde(default, skip_serializing_if = "SignalDefaults::is_empty")]
    pub defaults: SignalDefaults,
    /// The signals, as written.
    #[serde(flatten)]
    pub each: PerSignal<PipelineSignal>,
}

/// Settings of every signal that doesn't have its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignalDefaults {
    /// Settings of the topics.
    #[serde(default, skip_serializing_if = "TopicSettings::is_empty")]
    pub topic: TopicSettings,
    /// Settings of the tables.
    #[serde(default, skip_serializing_if = "TableSettings::is_empty")]
    pub table: TableSettings,
}

impl SignalDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One signal's topic and tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSignal {
    /// Name of the topic in Kafka. Cannot be changed later: records would stay in the old topic.
    /// For another one create a new pipeline. Default: otlp_traces, otlp_logs or otlp_metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// Settings of the topic.
    #[serde(default, skip_serializing_if = "TopicSettings::is_empty")]
    pub topic: TopicSettings,
    /// Settings of the tables.
    #[serde(default, skip_serializing_if = "TableSettings::is_empty")]
    pub table: TableSettings,
}

impl PipelineSignals {
    /// The signals' own settings, as written, without the defaults.
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &PipelineSignal)> {
        self.each.iter()
    }

    /// The settings of each signal, with the defaults for those that it doesn't have.
    #[must_use]
    pub fn with_defaults(&self) -> PerSignal<PipelineSignal> {
        let SignalDefaults { topic, table } = &self.defaults;
        let table = TableSettings {
            ttl: table.ttl.clone().or_else(|| Some(TableTtl::of_pipelines())),
            ..table.clone()
        };
        self.each.map(|_, is| PipelineSignal {
            topic_name: is.topic_name.clone(),
            topic: is.topic.with_defaults(topic),
            table: is.table.with_defaults(&table),
        })
    }
}

const DEFAULT_TABLE: &[&str] = &["defaults", "table"];
const DEFAULT_TOPIC: &[&str] = &["defaults", "topic"];

/// One pool of gateways writes all signals with one type of attributes: a signal's type applies to
/// signals without one.
const TABLES: [&[&str]; 4] =
    [&["traces", "table"], &["logs", "table"], &["metrics", "table"], DEFAULT_TABLE];

fn signals_fit(schema: &mut Schema) {
    topics_differ(schema);
    attributes_stay(schema);
    let attributes = attributes_expression("self", &TABLES);
    for signal in Signal::ALL {
        let paths: [&[&str]; 2] = [&[signal.as_str(), "table"], DEFAULT_TABLE];
        signal_table_rules(schema, signal, &paths, &attributes);
        signal_stays(schema, signal, &paths);
    }
}

/// A signal may come and go; one that stays keeps its topic and its tables' shape.
fn signal_stays(schema: &mut Schema, signal: Signal, tables: &[&[&str]]) {
    let name = signal.as_str();
    let mut stays = |rule: &str, message: &str| {
        let rule = format!("!has(self.{name}) || !has(oldSelf.{name}) || {rule}");
        rules::add_rule(schema, &rule, &format!("{name}.{message}"));
    };
    let topic = |owner| rules::deep_or_default(owner, &[name, "topicName"], signal.default_topic());
    stays(
        &format!("{} == {}", topic("self"), topic("oldSelf")),
        "topicName can't be changed: records would stay in the old topic. Restore the old value, \
         or create another pipeline",
    );
    for (rule, message) in table_stays(tables) {
        stays(&rule, &format!("table.{message}"));
    }
    stays(
        &grow_expression(&[&[name, "topic"], DEFAULT_TOPIC]),
        "topic: partitions never shrink: restore topic.partitions, or write a larger number",
    );
}

fn attributes_stay(schema: &mut Schema) {
    let [traces, logs, metrics, _] = TABLES;
    for (one, other) in [(traces, logs), (traces, metrics), (logs, metrics)] {
        let field = |path: &[&str]| rules::nested_field("self", &[path, &["attributes"]].concat());
        let ((value, is_there), (another, is_also_there)) = (field(one), field(other));
        rules::add_rule(
            schema,
            &format!("!({is_there}) || !({is_also_there}) || {value} == {another}"),
            "table.attributes differs between signals, but one pool of gateways writes one type of \
             attributes: write it once, in defaults.table",
        );
    }
    let value = |owner| attributes_expression(owner, &TABLES);
    rules::add_rule(
        schema,
        &format!("{} == {}", value("self"), value("oldSelf")),
        &format!("table.attributes can't be changed, for no signal: {TABLES_STAY}"),
    );
}

/// Two signals in one topic could not be distinguished.
fn topics_differ(schema: &mut Schema) {
    let [traces, logs, metrics] = Signal::ALL.map(|signal| {
        let name = signal.as_str();
        format!(
            "(has(self.{name}) ? (has(self.{name}.topicName) ? self.{name}.topicName : '{}') \
             : '/{name}')",
            signal.default_topic()
        )
    });
    rules::add_rule(
        schema,
        &format!("{traces} != {logs} && {traces} != {metrics} && {logs} != {metrics}"),
        "two signals have the same topicName: write a different topicName for each",
    );
}
