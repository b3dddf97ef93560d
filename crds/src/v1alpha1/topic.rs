//! TelemetryTopic: a Kafka topic with its desired partitions and settings.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connections::connection::KafkaConnection;
use super::rules;
use super::signals::{DeletionPolicy, Ownership, TopicSettings, is_not_set, partitions_grow};
use crate::conditions::Condition;
use crate::kinds::{MillraceKind, OBJECT_NAME_LENGTH};
use crate::names::TopicName;

/// A Kafka topic. The operator creates it, adds partitions and adjusts settings. Deleting the
/// object retains the topic by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "millrace.dev",
    version = "v1alpha1",
    kind = "TelemetryTopic",
    plural = "telemetrytopics",
    shortname = "tt",
    category = "millrace",
    namespaced,
    status = "TelemetryTopicStatus",
    derive = "PartialEq",
    doc = "A Kafka topic. The operator creates it, adds partitions and adjusts settings. Deletion \
           retains it by default. Part of a pipeline, or standalone.",
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
    printcolumn(name = "Topic", type_ = "string", json_path = ".status.topicName"),
    printcolumn(name = "Partitions", type_ = "integer", json_path = ".status.partitions"),
    printcolumn(name = "Replication", type_ = "integer", json_path = ".status.replicationFactor"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = name_rules)]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryTopicSpec {
    /// Connection to Kafka.
    pub kafka: KafkaConnection,
    /// Name of the topic in Kafka. Cannot be changed later: records would stay in the old topic.
    /// For another one create a new TelemetryTopic. Default: the object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// Settings of the topic.
    #[serde(flatten)]
    pub settings: TopicSettings,
    /// Retain leaves the topic and its records when the object is deleted; Delete deletes them.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Ownership of the topic: with Exclusive a second object is rejected, even in another cluster,
    /// because both would mix their data. Shared allows others that are also Shared. Default:
    /// Exclusive.
    #[serde(default, skip_serializing_if = "Ownership::is_exclusive")]
    pub ownership: Ownership,
    /// Pauses reconciliation: the operator only updates the status and does not block deletion. The
    /// topic is unchanged. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub paused: bool,
    /// Takes over what another object holds, even in another cluster: the holder
    /// CLUSTER/NAMESPACE/KIND/NAME, exactly as the message of HeldByAnother names it. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^\S+$"))]
    pub takes_over: Option<String>,
}

impl MillraceKind for TelemetryTopic {
    const NAME_LENGTH: usize = OBJECT_NAME_LENGTH;
    const INTRODUCTION: &'static str = include_str!("../reference/telemetrytopic.md");

    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }

    fn kafka(&self) -> Option<&KafkaConnection> {
        Some(&self.spec.kafka)
    }
}

fn name_rules(schema: &mut Schema) {
    partitions_grow(schema, &[], "restore the old number, or write a larger one");
    rules::make_immutable(
        schema,
        &["topicName"],
        "",
        "records would stay in the old topic. Restore the old value, or create another \
         TelemetryTopic",
    );
}

/// The observed state of a topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryTopicStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, of the types that `conditions/table.rs` lists for this kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Name of the topic in Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 249))]
    pub topic_name: Option<String>,
    /// Number of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// Replication factor; the lowest if partitions differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<i32>,
    /// The newest generation of the spec whose settings were in effect. The settings of a shared
    /// topic are written until then, and later differences are only reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings_generation: Option<i64>,
}
