//! TelemetryPipeline: what most users write. It owns objects of each of the other kinds.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::collector::CollectorSettings;
use super::connection::{ClickHouseTarget, KafkaConnection};
use super::edge::{EdgeSettings, no_number_of_daemons};
use super::gateway::{GatewaySettings, group_stays};
use super::rollout::RolloutSettings;
use super::rules;
use super::signals::{DeletionPolicy, PerSignal, Signal, TopicSettings, is_not_set, partitions};
use super::status::{LagStatus, PodCount};
use super::table::{Attributes, TableSettings, signal_table_rules, table_stays};
use crate::conditions::Condition;
use crate::names::{EdgeName, TopicName};

/// A way for telemetry, through Kafka, into ClickHouse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "millrace.dev",
    version = "v1alpha1",
    kind = "TelemetryPipeline",
    plural = "telemetrypipelines",
    shortname = "tp",
    category = "millrace",
    namespaced,
    status = "TelemetryPipelineStatus",
    derive = "PartialEq",
    doc = "A way for telemetry, through Kafka, into ClickHouse: topics, tables, edge pools and a \
           gateway pool, made and kept by the operator.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Lag",
        type_ = "integer",
        json_path = ".status.lag.seconds",
        description = "Age of the oldest message not yet in ClickHouse, in seconds"
    ),
    printcolumn(
        name = "Pods",
        type_ = "string",
        json_path = ".status.pods",
        description = "Ready pods of wanted pods"
    ),
    printcolumn(name = "Schema", type_ = "string", json_path = ".status.schemaRevision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = pipeline_rules)]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryPipelineSpec {
    /// The Kafka between edges and gateways.
    pub kafka: KafkaConnection,
    /// The ClickHouse that rows go to.
    pub clickhouse: ClickHouseTarget,
    /// The signals handled, with the topic and tables of each.
    #[schemars(transform = signals_fit)]
    pub signals: PerSignal<PipelineSignal>,
    /// The pools that take telemetry, side by side: from clients, or on each node. At most 8. A
    /// pool that is taken out is drained and deleted. Default: one, named clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub edges: Vec<PipelineEdge>,
    /// The pool that writes to ClickHouse.
    #[serde(default)]
    pub gateway: GatewaySettings,
    /// Which collector image all pools run.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// How a change of image or configuration reaches the gateways' pods, and those of edge pools
    /// in mode DaemonSet. A Deployment's edge pods are replaced as it does it, without a canary;
    /// autoRollback is for all pools.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// What happens to topics and tables when this pipeline is deleted. Retain: they stay, with all
    /// data. Delete: edge pools are deleted first, then the gateway pool, then topics and tables,
    /// with records that gateways have not stored yet. The topics and tables of a removed signal
    /// always stay.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Shares topics, tables and consumer group with other pipelines that also set this. Otherwise
    /// the second one is refused, also one of another cluster, because two would mix their data.
    /// Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub shared: bool,
}

/// One edge pool of a pipeline. Its settings are those of an EdgePool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = |schema: &mut Schema| no_number_of_daemons(schema, &[], true))]
pub struct PipelineEdge {
    /// Its name among the pipeline's edge pools. The EdgePool is named PIPELINE-NAME. Under another
    /// name it is another pool, with its own Service, and reads log files from startAt.
    pub name: EdgeName,
    /// How it runs.
    #[serde(flatten)]
    pub settings: EdgeSettings,
}

/// One signal's topic and tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSignal {
    /// Name of the topic in Kafka. Can't be changed afterwards. Default: otlp_traces, otlp_logs or
    /// otlp_metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// The topic's settings.
    #[serde(default)]
    pub topic: TopicSettings,
    /// How the tables are made.
    #[serde(default)]
    pub table: TableSettings,
}

fn pipeline_rules(schema: &mut Schema) {
    group_stays(schema, &["gateway"]);
}

fn signals_fit(schema: &mut Schema) {
    topics_differ(schema);
    signal_table_rules(schema, &["table"]);
    for signal in Signal::ALL {
        signal_stays(schema, signal);
    }
}

/// A signal may come and go; one that stays keeps its topic and its tables' shape.
fn signal_stays(schema: &mut Schema, signal: Signal) {
    let name = signal.as_str();
    let mut stays = |rule: &str, message: &str| {
        let rule = format!("!has(self.{name}) || !has(oldSelf.{name}) || {rule}");
        rules::rule(schema, &rule, &format!("{name}.{message}"));
    };
    let topic = |owner| rules::deep_or_default(owner, &[name, "topicName"], signal.default_topic());
    stays(
        &format!("{} == {}", topic("self"), topic("oldSelf")),
        "topicName can't be changed: records would be left behind in the old topic. Keep it, or \
         make a second pipeline",
    );
    for (rule, message) in table_stays("self", "oldSelf", &[name, "table"], None) {
        stays(&rule, &format!("table.{message}"));
    }
    let asked = |owner| partitions(owner, &[name, "topic"]);
    let grows = format!("{} >= {}", asked("self"), asked("oldSelf"));
    stays(
        &format!("!has(self.{name}.topic) || {grows}"),
        "topic: partitions never shrink: keep the number, or write a larger one",
    );
    stays(
        &format!("has(self.{name}.topic) || {grows}"),
        "topic: partitions never shrink: keep topic.partitions, or write a larger number",
    );
}

/// Two signals in one topic could not be told apart.
fn topics_differ(schema: &mut Schema) {
    let [traces, logs, metrics] = Signal::ALL.map(|signal| {
        let name = signal.as_str();
        format!(
            "(has(self.{name}) ? (has(self.{name}.topicName) ? self.{name}.topicName : '{}') \
             : '/{name}')",
            signal.default_topic()
        )
    });
    rules::rule(
        schema,
        &format!("{traces} != {logs} && {traces} != {metrics} && {logs} != {metrics}"),
        "two signals have the same topicName: write a different topicName for each",
    );
}

impl TelemetryPipelineSpec {
    /// The edge pools asked for: those written, or the one that is meant when none is.
    #[must_use]
    pub fn edge_pools(&self) -> Vec<PipelineEdge> {
        match self.edges.is_empty() {
            true => vec![PipelineEdge::default()],
            false => self.edges.clone(),
        }
    }
}

/// What was observed of a pipeline: its children's status, summed up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryPipelineStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Ready, Progressing, Stalled, TopicsReady, SchemaReady, EdgeReady, GatewayReady,
    /// LagWithinBound, SecretsFound, DataLost, LogsLost, DeadLettersKept, DeduplicationAtRisk,
    /// PasswordExposed, RowsSpread, CoordinationHealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 24),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// How far the gateway is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// Ready pods of wanted pods over all pools, for people: 5/5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pods: Option<String>,
    /// Each edge pool: its pods, and where clients reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub edges: Vec<PipelineEdgeStatus>,
    /// Pods of the gateway pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<PodCount>,
    /// Revision of the schema that the tables are at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema_revision: Option<String>,
    /// How the tables store attributes. Recorded so that another default changes no pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// Where clients inside the cluster send OTLP over gRPC: host:4317 (HTTP: port 4318). That of
    /// the first edge pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
    /// The objects this pipeline made, and how each one is: at most six topics, eight edge pools,
    /// a schema and a gateway pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub children: Vec<ChildStatus>,
}

/// What was observed of one edge pool of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineEdgeStatus {
    /// Its name among the pipeline's edge pools.
    #[schemars(length(max = 16))]
    pub name: String,
    /// Its pods.
    #[serde(flatten)]
    pub pods: PodCount,
    /// Where clients inside the cluster send OTLP over gRPC: host:4317 (HTTP: port 4318).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
}

/// One object that a pipeline made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildStatus {
    /// Its kind.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its name, in the pipeline's namespace.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whether it is ready, at its newest generation.
    pub ready: bool,
    /// Why, as one stable word.
    #[schemars(length(max = 63))]
    pub reason: String,
}
