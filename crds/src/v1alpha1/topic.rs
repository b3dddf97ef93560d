//! TelemetryTopic: a Kafka topic with the shape asked for.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::KafkaConnection;
use super::rules;
use super::signals::{DeletionPolicy, TopicSettings, is_not_set, partitions_grow};
use crate::conditions::Condition;
use crate::names::TopicName;

/// A Kafka topic. Made when missing, grown and adjusted when asked, never shrunk; kept when the
/// object is deleted, unless asked otherwise.
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
    doc = "A Kafka topic: made when missing, grown and adjusted when asked, never shrunk, kept on \
           deletion unless asked otherwise. A pipeline makes one per signal; it also works by \
           itself.",
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
pub struct TelemetryTopicSpec {
    /// The Kafka that has the topic.
    pub kafka: KafkaConnection,
    /// Name of the topic in Kafka. Can't be changed afterwards. Default: the object's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// The topic's shape.
    #[serde(flatten)]
    pub settings: TopicSettings,
    /// Retain keeps the topic and its records when this object is deleted; Delete deletes them.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Others may have this topic too, if they say so as well. Otherwise the second is refused, in
    /// another cluster too: two that don't know of each other mix their data. Default: false.
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

/// What was observed of a topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryTopicStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Facts: Ready, Progressing, Stalled, TopicReady, SecretsFound, PasswordExposed.
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
