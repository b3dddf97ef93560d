//! What an edge pool that reads its nodes' logs reports of them. Observations only: nothing here is
//! ever asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far the reading of nodes' logs is, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesStatus {
    /// Nodes whose pod is ready, answers the operator and reads logs.
    pub reading: i32,
    /// Nodes whose pod is ready and does not answer the operator; they are in no sum.
    pub silent: i32,
    /// Bytes of log files that are there and not yet confirmed by Kafka, on all nodes that answer.
    /// Whole MiB of each node; less counts as none.
    pub behind_bytes: i64,
    /// The node that is behind by most bytes. Absent while none is by a MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<NodeBehind>,
    /// When pods were asked. Figures that change are written once a minute at most.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}

/// A node that is behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeBehind {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Bytes of its log files that are there and not yet confirmed, in whole MiB.
    pub bytes: i64,
    /// For how many seconds the oldest of these bytes have waited at least. Absent where the pod
    /// does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

/// What was lost of nodes' logs before it was read, summed over pods and their restarts. Losses
/// less than an hour apart are one episode. It may lack what a process counts in its last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogsLostStatus {
    /// Bytes of log files that were deleted or truncated unread, since the pool was made.
    pub bytes: i64,
    /// Records of kernels' logs that were overwritten unread, since the pool was made.
    pub records: i64,
    /// When the last episode was first observed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// When a loss was last observed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub grew_at: Time,
    /// Bytes of log files lost in the last episode.
    pub episode_bytes: i64,
    /// Records of kernels' logs lost in the last episode.
    pub episode_records: i64,
    /// The nodes that lost something, by name: at most 300.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 300))]
    pub nodes: Vec<NodeLost>,
}

/// One node's part of what was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLost {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Bytes lost in the last episode.
    pub bytes: i64,
    /// Records of its kernel's log lost in the last episode.
    pub records: i64,
    /// When the process that counted last began, in seconds since 1970, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Bytes that this process counted, as far as they are in the sums.
    pub counted_bytes: i64,
    /// Records that it counted, likewise.
    pub counted_records: i64,
}
