//! Parts of a status that several kinds share. Observations only: nothing here is ever asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a gateway is behind, as last observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagStatus {
    /// Messages in Kafka that are not committed yet, over all partitions. A message holds many
    /// records.
    pub messages: i64,
    /// Age of the oldest message not committed yet, in seconds; 0 when there is none. Absent when
    /// it could not be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// Whether every message older than the bound is committed.
    pub within_bound: bool,
    /// The bound this was judged by, in seconds.
    pub bound_seconds: i64,
    /// When Kafka was asked.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}

/// Pods of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCount {
    /// Pods wanted.
    pub wanted: i32,
    /// Pods that are ready.
    pub ready: i32,
}
