//! What became of routed records: what pools report of their route steps, and a pipeline of who
//! reads the topics. Observations only: no desired state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProcessedSignal;
use crate::v1alpha1::pools::status::LagStatus;

/// One route step of an edge pool, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRouteStatus {
    /// Name of the step.
    #[schemars(length(max = 63))]
    pub step: String,
    /// Signal of the records.
    pub signal: ProcessedSignal,
    /// Topic that gets the records.
    #[schemars(length(max = 249))]
    pub topic: String,
    /// Records that the answering pods have routed since they started. Absent until a pod has
    /// answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<i64>,
    /// Time of the observation. Absent until a pod has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub observed_at: Option<Time>,
}

/// One route of a pipeline: what its edge pools sent to a topic, and who reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// Name of the step.
    #[schemars(length(max = 63))]
    pub step: String,
    /// Signal of the records.
    pub signal: ProcessedSignal,
    /// Topic that gets the records.
    #[schemars(length(max = 249))]
    pub topic: String,
    /// Records that the answering edge pods have routed since they started. Absent until a pod has
    /// answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<i64>,
    /// Consumer of the topic: the first by namespace and name. Absent without one, or if it is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<RouteConsumer>,
    /// Lag of the consumer, over all of its topics, as its own status has it. Absent until it has
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// What is wrong, for example that nobody reads the topic. Absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// The object whose gateways read a routed topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteConsumer {
    /// Its kind: TelemetryPipeline, or GatewayPool if no pipeline owns the pool.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
}
