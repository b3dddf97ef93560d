//! Parts of a status that several kinds share. Observations only: no desired state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lag of a gateway pool, as last observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagStatus {
    /// Uncommitted messages in all partitions. A message contains many records.
    pub messages: i64,
    /// Age of the oldest uncommitted message, in seconds; 0 without any. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// Whether every message older than the bound is committed.
    pub within_bound: bool,
    /// Bound of the lag (scaling.lagBoundSeconds), in seconds.
    pub bound_seconds: i64,
    /// Time of the observation.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}

/// A count summed over the pool's pods and restarts. Counts after a process's last observation are
/// missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyStatus {
    /// Total since the pool was created.
    pub total: i64,
    /// Time of the last increase.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_increase_at: Time,
    /// Total by topic or signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub parts: Vec<TallyPart>,
    /// Count of each process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 300))]
    pub processes: Vec<TallyProcess>,
}

/// Total of a topic or signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyPart {
    /// Topic or signal.
    #[schemars(length(max = 249))]
    pub name: String,
    /// Messages or records counted.
    pub count: i64,
}

/// The last observed count of one process, for one topic or signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TallyProcess {
    /// Pod of the process.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// Topic or signal.
    #[schemars(length(max = 249))]
    pub name: String,
    /// Start of the process, in seconds since 1970, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Messages or records counted.
    pub count: i64,
}

/// Pods of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCount {
    /// Number of desired pods.
    pub desired: i32,
    /// Number of ready pods.
    pub ready: i32,
}
