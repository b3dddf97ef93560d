//! Keeper or ZooKeeper of replicated tables: the servers to monitor, and what was observed.
//!
//! Never holds a secret, only its name. Millrace runs no such server: nothing here makes one.
//!
//! Limits: 9 servers. An ensemble has 3 or 5 that vote, rarely 7, and observers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::authentication::CaSource;
use super::secrets::CredentialsRef;
use crate::amounts::MemoryQuantity;
use crate::names::CoordinationServer;
use crate::v1alpha1::rules;

/// The Keeper or ZooKeeper servers to monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = reachable)]
pub struct Coordination {
    /// All servers of the ensemble, polled once a minute: host:port with the command mntr
    /// (ZooKeeper 2181, Keeper 9181), or Keeper's HTTP API, http://host:9182 or https://host:9443.
    /// 1 to 9.
    #[schemars(length(min = 1, max = 9))]
    pub servers: Vec<CoordinationServer>,
    /// TLS to host:port servers, which must be their secure ports, and the CA of https servers.
    /// Default: host:port is not encrypted, https trusts the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<CoordinationTls>,
    /// Secret with user name and password for HTTP basic authentication, if a proxy in front of
    /// Keeper's HTTP API requires it. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<CredentialsRef>,
    /// Limits above which CoordinationHealthy is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<CoordinationLimits>,
}

/// TLS to Keeper or ZooKeeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationTls {
    /// CA of the servers' certificates. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
}

/// Limits for the figures of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationLimits {
    /// Outstanding requests of a server, 1 to 1,000,000. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub outstanding_requests: Option<u32>,
    /// Mean latency since the server's counters were reset, 1 to 60,000 milliseconds. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub latency_milliseconds: Option<u32>,
    /// Number of znodes, 1 to 1,000,000,000. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub znodes: Option<u32>,
    /// Size of the znodes, as estimated by the server, which has them in memory, for example 1Gi.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_size: Option<MemoryQuantity>,
    /// Size of snapshots and logs on disk, for example 20Gi; the server must allow the command
    /// dirs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<MemoryQuantity>,
}

fn reachable(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "self.servers.all(s, self.servers.exists_one(o, o == s))",
        "a server is listed twice: list each once",
    );
    rules::add_rule(
        schema,
        "!has(self.tls) || self.servers.all(s, !s.startsWith('http://'))",
        "tls is set but a server starts with http://: write https:// or host:port, or remove tls",
    );
    rules::add_rule(
        schema,
        "!has(self.credentialsSecret) || self.servers.all(s, s.startsWith('https://'))",
        "a password would be sent unencrypted or not at all: write https:// servers, or remove \
         credentialsSecret",
    );
}

/// Observed state of coordination. Figures are the highest of all servers, at most ten minutes old.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationStatus {
    /// Servers that serve, of those in spec.clickhouse.coordination, for example 3/3. Absent
    /// without servers there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub servers: Option<String>,
    /// Address of the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 269))]
    pub leader: Option<String>,
    /// Number of followers that are in sync with the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_followers: Option<i64>,
    /// ClickHouse servers with a live session, of those in spec.clickhouse.endpoints, for example
    /// 2/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub sessions: Option<String>,
    /// Largest number of outstanding requests of a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_requests: Option<i64>,
    /// Largest mean latency that a server reports, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_microseconds: Option<i64>,
    /// Number of znodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub znodes: Option<i64>,
    /// Size of the znodes in bytes, as estimated by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<i64>,
    /// Number of watches on all servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watches: Option<i64>,
    /// Size of snapshots and logs on disk, in bytes; only with limits.diskSize.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<i64>,
    /// Keeper requests of the ClickHouse servers per million rows inserted into any table, since
    /// the last poll or their start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_million_rows: Option<i64>,
    /// Mean duration of the ClickHouse servers' Keeper requests, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_microseconds: Option<i64>,
    /// Keeper requests of each of the schema's tables within the last ten minutes, from
    /// system.part_log. Absent if nothing was inserted or merged, or without part_log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["table"])
    )]
    pub tables: Vec<CoordinationTable>,
    /// Time of the observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub observed_at: Option<Time>,
}

/// Keeper requests of one table: of its inserts, fetches and merges, whoever inserts. Processing of
/// the replication queue is not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationTable {
    /// Name of the table.
    #[schemars(length(max = 128))]
    pub table: String,
    /// Requests per million inserted rows. Absent without inserts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_million_rows: Option<i64>,
    /// Requests per inserted part. Absent without inserts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_part: Option<i64>,
    /// Mean rows per inserted part. More rows per part mean fewer requests per row. Absent without
    /// inserts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_part: Option<i64>,
    /// Requests in the last ten minutes.
    pub requests: i64,
}
