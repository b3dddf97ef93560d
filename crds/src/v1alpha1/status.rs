//! Parts of a status that several kinds share. Observations only: nothing here is ever asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a gateway is behind, as last observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagStatus {
    /// Messages in Kafka that are not committed yet, in all partitions. A message holds many
    /// records.
    pub messages: i64,
    /// Age of the oldest message not committed yet, in seconds; 0 when there is none. Absent when
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// Whether every message older than the bound is committed.
    pub within_bound: bool,
    /// That bound, in seconds.
    pub bound_seconds: i64,
    /// When Kafka was asked.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}

/// A count summed over the pool's pods and their restarts. It lacks what a process counts after the
/// last observation before it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyStatus {
    /// The total since the pool was made.
    pub total: i64,
    /// When it last grew.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub grew_at: Time,
    /// The total by topic or signal, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub parts: Vec<TallyPart>,
    /// The part of the total that each process counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 300))]
    pub counted: Vec<TallyCounted>,
}

/// A topic's or signal's part of a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyPart {
    /// The topic, or the signal.
    #[schemars(length(max = 249))]
    pub name: String,
    /// Its part of the total.
    pub count: i64,
}

/// One process's count of one topic or signal when it was last added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyCounted {
    /// Its pod.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// The topic, or the signal.
    #[schemars(length(max = 249))]
    pub name: String,
    /// When the process began, in seconds since 1970, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Its count.
    pub count: i64,
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
