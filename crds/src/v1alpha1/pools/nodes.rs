//! Status of an edge pool that reads its nodes' logs. Observations only: no desired state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Progress of reading nodes' logs, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesStatus {
    /// Number of nodes whose pod is ready, answers the operator and reads logs.
    pub reading: i32,
    /// Number of nodes whose pod is ready but does not answer the operator; sums lack them.
    pub unreachable: i32,
    /// Bytes of log files not yet confirmed by Kafka, on all nodes that answer; each node's part is
    /// rounded down to MiB.
    pub behind_bytes: i64,
    /// The node with the largest backlog. Absent if none is behind by 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub furthest_behind: Option<NodeBehind>,
    /// Time of the observation. Changed figures are written at most once a minute.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}

/// A node that is behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeBehind {
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Bytes of its log files not yet confirmed, rounded down to MiB.
    pub bytes: i64,
    /// Minimum age of the oldest of these bytes, in seconds. Absent if the pod does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

/// Node logs lost before they were read, summed over pods and restarts. Losses within an hour of
/// each other are one episode. Losses in a process's last minute may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogsLostStatus {
    /// Bytes of log files deleted or truncated unread since the pool was created.
    pub bytes: i64,
    /// Kernel log records overwritten unread since the pool was created.
    pub records: i64,
    /// Start of the last episode.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// Time of the last observed loss.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_increase_at: Time,
    /// Bytes of log files lost in the last episode.
    pub episode_bytes: i64,
    /// Kernel log records lost in the last episode.
    pub episode_records: i64,
    /// Nodes with losses, by name, at most 300.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 300))]
    pub nodes: Vec<NodeLost>,
}

/// Losses of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLost {
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Bytes lost in the last episode.
    pub bytes: i64,
    /// Kernel log records lost in the last episode.
    pub records: i64,
    /// Start of the process that counted last, in seconds since 1970, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Bytes that the node's last known process has counted and that the sums include.
    pub process_bytes: i64,
    /// Records that the node's last known process has counted and that the sums include.
    pub process_records: i64,
}
