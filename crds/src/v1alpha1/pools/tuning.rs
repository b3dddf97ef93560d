//! Limits and batches of collectors, and `config`, which reaches every other setting.
//!
//! An absent field leaves the collector's own default. The collector checks all ranges again.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::amounts::MemoryQuantity;
use crate::v1alpha1::rules;

/// When a gateway inserts a batch: at the first limit reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = batch_rules)]
pub struct GatewayBatch {
    /// Rows of a batch, 1 to 750000. Fewer, larger inserts cost ClickHouse less. Default: 200000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 750_000))]
    pub max_rows: Option<u32>,
    /// Bytes of a batch's columns before compression, 64Ki to 1Gi. Default: 48Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<MemoryQuantity>,
    /// Age of a batch's oldest record in milliseconds, 1 to 60000. A higher age makes fewer inserts
    /// and rows appear later. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub max_age_millis: Option<u32>,
}

impl GatewayBatch {
    pub(in crate::v1alpha1) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn batch_rules(schema: &mut Schema) {
    bytes_within(schema, "maxBytes", "64Ki", "1Gi");
}

/// How an edge produces messages to Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = producer_rules)]
pub struct EdgeProducer {
    /// How long requests wait to share a message with others, in milliseconds, 0 to 1000. Default:
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000))]
    pub linger_millis: Option<u32>,
    /// Longest message before compression, 16Ki to 8Mi; at most the topic's max.message.bytes.
    /// Default: 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_bytes: Option<MemoryQuantity>,
    /// Time within which Kafka must store a message, in seconds, 1 to 600; below
    /// receivers.otlp.limits.requestSeconds. Default: 25.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub delivery_timeout_seconds: Option<u32>,
}

impl EdgeProducer {
    pub(in crate::v1alpha1) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn producer_rules(schema: &mut Schema) {
    bytes_within(schema, "maxMessageBytes", "16Ki", "8Mi");
}

/// Limits for clients, per listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = limits_rules)]
pub struct OtlpLimits {
    /// Longest gRPC message, 1Ki to 128Mi. Default: 4Mi, less if the memory can't hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_message_bytes: Option<MemoryQuantity>,
    /// Longest HTTP body, 1Ki to 128Mi. Default: 20Mi, less if the memory can't hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_body_bytes: Option<MemoryQuantity>,
    /// Concurrent connections on one listener, 1 to 100000. Default: 8192.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: Option<u32>,
    /// Timeout for the answer to a client that states none, in seconds, 1 to 600. Default: 9; SDKs
    /// time out after 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub answer_seconds: Option<u32>,
    /// Timeout of a complete request, in seconds, 1 to 600. Default: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub request_seconds: Option<u32>,
}

impl OtlpLimits {
    pub(in crate::v1alpha1) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn limits_rules(schema: &mut Schema) {
    for field in ["grpcMessageBytes", "httpBodyBytes"] {
        bytes_within(schema, field, "1Ki", "128Mi");
    }
}

fn bytes_within(schema: &mut Schema, field: &str, least: &str, most: &str) {
    rules::add_rule(
        schema,
        &format!(
            "!has(self.{field}) || !isQuantity(self.{field}) \
             || (quantity(self.{field}).compareTo(quantity('{least}')) >= 0 \
             && quantity(self.{field}).compareTo(quantity('{most}')) <= 0)"
        ),
        &format!("{field} must be from {least} to {most}"),
    );
}

/// Limits static resource attributes: 64 keys of 1 to 256 characters, values of up to 256.
pub(in crate::v1alpha1) fn attributes_map(schema: &mut Schema) {
    rules::map::<64, 256>(schema);
    rules::add_rule(
        schema,
        "self.all(key, key.size() >= 1 && key.size() <= 256)",
        "a key has 1 to 256 characters: write for example k8s.cluster.name",
    );
}

/// The schema of an object whose fields someone else describes: the collector's settings, or a
/// PodSpec. With two copies of a PodSpec's schema, a pipeline's definition would nearly exceed the
/// annotation limit of `kubectl apply`, even without descriptions: the operator checks the fields
/// instead.
pub(in crate::v1alpha1) fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
