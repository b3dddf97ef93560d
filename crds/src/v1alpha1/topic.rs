//! TelemetryTopic: a Kafka topic with the shape asked for.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::KafkaConnection;
use super::rules;
use super::signals::{DeletionPolicy, TopicSettings, is_not_set, partitions_grow};
use crate::conditions::Condition;
use crate::names::TopicName;

/// A Kafka topic. The operator makes it, adds partitions and adjusts settings, and never removes
/// partitions. Deleting the object keeps the topic by default.
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
    doc = "A Kafka topic. The operator makes it, adds partitions and adjusts settings, and never \
           removes partitions. Deletion keeps it by default. A pipeline makes one per signal; it \
           also works by itself.",
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
    /// The Kafka that has the topic.
    pub kafka: KafkaConnection,
    /// Name of the topic in Kafka. Can't be changed afterwards. Default: the object's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// The topic's settings.
    #[serde(flatten)]
    pub settings: TopicSettings,
    /// Retain keeps the topic and its records when this object is deleted; Delete deletes them.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Shares the topic with other objects that also set this. Otherwise the second object is
    /// refused, also one of another cluster, because two would mix their data. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub shared: bool,
}

fn name_rules(schema: &mut Schema) {
    partitions_grow(schema, &[], "keep the number, or write a larger one");
    rules::unchangeable(
        schema,
        &["topicName"],
        "",
        "records would be left behind in the old topic. Keep it, or make a second TelemetryTopic",
    );
}

/// The observed state of a topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetryTopicStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Ready, Progressing, Stalled, TopicReady, SecretsFound, PasswordExposed.
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
    /// Partitions it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// Copies of each partition; the fewest, if partitions differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<i32>,
}
