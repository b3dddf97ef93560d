//! TelemetryPipeline: the kind that most users write. It owns objects of the other kinds.

pub(super) mod signals;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connections::connection::{ClickHouseTarget, KafkaConnection};
use super::edge::{EdgeSettings, no_number_of_daemons, service_stays};
use super::gateway::{GatewaySettings, group_stays};
use super::pipeline::signals::PipelineSignals;
use super::pools::collector::CollectorSettings;
use super::pools::rollout::RolloutSettings;
use super::pools::status::{LagStatus, PodCount};
use super::pools::tuning::attributes_map;
use super::processing::ProcessingStep;
use super::processing::routes::RouteStatus;
use super::rules;
use super::schema::SchemaApproval;
use super::signals::{DeletionPolicy, Ownership, Signal, is_not_set};
use super::table::{Attributes, Engine};
use crate::conditions::Condition;
use crate::kinds::{MillraceKind, PIPELINE_NAME_LENGTH};
use crate::names::EdgeName;

/// Moves telemetry through Kafka into ClickHouse.
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
    doc = "Moves telemetry through Kafka into ClickHouse: the operator creates and maintains \
           topics, tables, edge pools and a gateway pool.",
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
        description = "Ready and desired pods"
    ),
    printcolumn(name = "Schema", type_ = "string", json_path = ".status.schemaRevision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = pipeline_rules)]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryPipelineSpec {
    /// Connection to the Kafka between edge pools and gateways.
    pub kafka: KafkaConnection,
    /// Connection to the ClickHouse that rows are written to.
    pub clickhouse: ClickHouseTarget,
    /// Signals of the pipeline, with the topic and tables of each.
    pub signals: PipelineSignals,
    /// Approval of changes to the tables. A field that is not written here can be written in the
    /// TelemetrySchema. Default: each field's own.
    #[serde(default, skip_serializing_if = "SchemaApproval::is_empty")]
    pub schema: SchemaApproval,
    /// Rules that edit, drop, redact, sample, route or enrich records in all edge pools before they
    /// are stored in Kafka, in this order; each pool's own processing follows. At most 32 steps. A
    /// change triggers a rollout of the edge pools. Default: records are stored as they were
    /// received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub processing: Vec<ProcessingStep>,
    /// Resource attributes of everything that edge pools send, at most 64, for example
    /// k8s.cluster.name. An attribute that a client sent stays; one of an
    /// edge pool overrides. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = attributes_map)]
    pub resource_attributes: BTreeMap<String, String>,
    /// Edge pools, which receive telemetry from clients or on each node. 1 to 8. A removed pool is
    /// drained and deleted. Without a list one pool named clients exists; the first list of an
    /// existing pipeline must contain clients, so that no list removes it unnoticed. Default: one
    /// pool named clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub edges: Vec<PipelineEdge>,
    /// Gateway pool, which writes to ClickHouse.
    #[serde(default)]
    pub gateway: GatewaySettings,
    /// Collector image of all pools.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// Rollout of a changed image or configuration. canary applies to gateways and to edge pools in
    /// mode DaemonSet, autoRollback to all pools.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// What happens to topics and tables when the pipeline is deleted. Retain leaves them with all
    /// data. Delete deletes edge pools, then the gateway pool, then topics and tables, including
    /// records that gateways have not stored yet. Topics and tables of a removed signal always
    /// stay.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Ownership of the topics, tables and consumer group: with Exclusive a second pipeline is
    /// rejected, even in another cluster, because both would mix their data. Shared allows others
    /// that are also Shared. Default: Exclusive.
    #[serde(default, skip_serializing_if = "Ownership::is_exclusive")]
    pub ownership: Ownership,
    /// Pauses reconciliation of the pipeline: the operator only updates its status and does not
    /// block deletion. Its child objects are still reconciled. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub paused: bool,
}

impl MillraceKind for TelemetryPipeline {
    const NAME_LENGTH: usize = PIPELINE_NAME_LENGTH;
    const INTRODUCTION: &'static str = include_str!("../reference/telemetrypipeline.md");

    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn kafka(&self) -> Option<&KafkaConnection> {
        Some(&self.spec.kafka)
    }

    fn clickhouse(&self) -> Option<&ClickHouseTarget> {
        Some(&self.spec.clickhouse)
    }

    fn table_engines(&self) -> Vec<(Signal, Engine)> {
        let signals = self.spec.signals.with_defaults();
        signals.iter().map(|(signal, is)| (signal, is.table.engine())).collect()
    }
}

/// One edge pool of a pipeline, with the settings of an EdgePool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = |schema: &mut Schema| no_number_of_daemons(schema, &[], true))]
pub struct PipelineEdge {
    /// Name in the pipeline; the EdgePool is named PIPELINE-NAME. A renamed pool is a new one, with
    /// another Service, and reads log files from startAt.
    pub name: EdgeName,
    /// Settings of the pool.
    #[serde(flatten)]
    pub settings: EdgeSettings,
}

fn pipeline_rules(schema: &mut Schema) {
    group_stays(schema, &["gateway"]);
    default_edge_stays(schema);
    for (rule, message) in service_stays("edge", "old") {
        let rule = format!(
            "!has(self.edges) || !has(oldSelf.edges) || self.edges.all(edge, \
             oldSelf.edges.all(old, old.name != edge.name || ({rule})))"
        );
        rules::add_rule(schema, &rule, &format!("edges: service.{message}"));
    }
}

/// A list of edge pools replaces the default pool. Whoever adds the first list may not know of that
/// pool, so removing it takes a second change.
fn default_edge_stays(schema: &mut Schema) {
    let name = EdgeName::default();
    rules::add_rule(
        schema,
        &format!(
            "has(oldSelf.edges) || !has(self.edges) || self.edges.exists(edge, edge.name == \
             '{name}')"
        ),
        &format!(
            "edges replaces the default edge pool {name}, which would be deleted with its Service: \
             add {{name: {name}}} to the list. If no client sends to it, remove it in a later change"
        ),
    );
}

impl TelemetryPipelineSpec {
    /// The desired edge pools: those written, or the default one.
    #[must_use]
    pub fn edge_pools(&self) -> Vec<PipelineEdge> {
        match self.edges.is_empty() {
            true => vec![PipelineEdge::default()],
            false => self.edges.clone(),
        }
    }
}

/// The observed state of a pipeline: a summary of its children's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryPipelineStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, of the types that `conditions/table.rs` lists for this kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 24),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Lag of the gateway pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// Ready and desired pods of all pools, for example 5/5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pods: Option<String>,
    /// Pods and address of each edge pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub edges: Vec<PipelineEdgeStatus>,
    /// Route steps of the edge pools, with the records that each has sent to its topic and the
    /// lag of whoever reads it. At most 256: eight pools of 32 steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub routes: Vec<RouteStatus>,
    /// Pods of the gateway pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<PodCount>,
    /// Schema revision of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema_revision: Option<String>,
    /// Retention of each signal's tables, for example traces 30d, logs Forever, metrics not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub retention: Option<String>,
    /// Type of the tables' attribute columns. Recorded so that a new default changes no existing
    /// pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// Address of the documentation of the operator's release, as its chart sets it (docsUrl).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub documentation_url: Option<String>,
    /// Address of the first edge pool for OTLP over gRPC inside the cluster, host:4317 (HTTP: port
    /// 4318).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
    /// Child objects with their state: at most six topics, eight edge pools, a schema and a gateway
    /// pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub children: Vec<ChildStatus>,
}

/// The observed state of one edge pool of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineEdgeStatus {
    /// Name of the edge pool in the pipeline.
    #[schemars(length(max = 16))]
    pub name: String,
    /// Whether the pool exists because the spec has no edges. Absent for listed pools.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub default: bool,
    /// Its pods.
    #[serde(flatten)]
    pub pods: PodCount,
    /// Address for OTLP over gRPC inside the cluster, host:4317 (HTTP: port 4318).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
}

/// One child object of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildStatus {
    /// Kind of the child.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Name of the child, in the pipeline's namespace.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whether the child is ready at its newest generation.
    pub ready: bool,
    /// Reason in CamelCase.
    #[schemars(length(max = 63))]
    pub reason: String,
}
