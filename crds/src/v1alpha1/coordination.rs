//! Keeper or ZooKeeper beneath replicated tables: where its servers are asked how they are, and
//! what was seen.
//!
//! Never holds a secret, only its name. Millrace runs no such server: nothing here makes one.
//!
//! Limits: 9 servers. An ensemble has 3 or 5 that vote, rarely 7, and observers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::{CaRef, CredentialsRef};
use super::rules;
use crate::amounts::MemoryQuantity;
use crate::names::CoordinationServer;

/// Keeper or ZooKeeper, as its own servers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = reachable)]
pub struct Coordination {
    /// Every server of the ensemble: host:port, where it answers mntr (ZooKeeper 2181, Keeper
    /// 9181), or Keeper's HTTP API, http://host:9182 or https://host:9443. They are asked once a
    /// minute. 1 to 9.
    #[schemars(length(min = 1, max = 9))]
    pub servers: Vec<CoordinationServer>,
    /// Encrypts connections to servers of the form host:port, which must be their secure ports;
    /// for https servers, the authority. Default: host:port is not encrypted, https trusts the
    /// system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<CoordinationTls>,
    /// The Secret with user name and password for HTTP basic authentication, where a proxy in
    /// front of Keeper's HTTP API asks for it. Default: not signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<CredentialsRef>,
    /// Figures above which CoordinationHealthy is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<CoordinationLimits>,
}

/// Encryption towards Keeper or ZooKeeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationTls {
    /// The authority that signed the servers' certificates. Default: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
}

/// Figures of one server that are too high.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationLimits {
    /// Requests that wait. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub outstanding_requests: Option<u32>,
    /// Mean latency since the server's counters were reset, in milliseconds. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub latency_milliseconds: Option<u32>,
    /// Nodes in its tree. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub znodes: Option<u32>,
    /// Bytes of these nodes, as the server estimates them. All of them are in its memory. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_size: Option<MemoryQuantity>,
    /// Bytes of its snapshots and logs on disk. With it, the server is also asked dirs. Default:
    /// none, and not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<MemoryQuantity>,
}

fn reachable(schema: &mut Schema) {
    rules::rule(
        schema,
        "self.servers.all(s, self.servers.exists_one(o, o == s))",
        "a server is named twice: name each once",
    );
    rules::rule(
        schema,
        "!has(self.tls) || self.servers.all(s, !s.startsWith('http://'))",
        "tls is set but a server starts with http://: write https:// or host:port, or remove tls",
    );
    rules::rule(
        schema,
        "!has(self.credentialsSecretRef) || self.servers.all(s, s.startsWith('https://'))",
        "a password would be sent unencrypted or not at all: write https:// servers, or remove \
         credentialsSecretRef",
    );
}

/// What was seen of coordination. Figures are those of the server with the highest, and at most ten
/// minutes old.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationStatus {
    /// Servers that serve, of those in spec.clickhouse.coordination, for people: 3/3. Absent
    /// without servers there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub servers: Option<String>,
    /// The server that leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 269))]
    pub leader: Option<String>,
    /// Its synced followers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_followers: Option<i64>,
    /// ClickHouse servers with a live session, of those in spec.clickhouse.endpoints: 2/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub sessions: Option<String>,
    /// Requests that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_requests: Option<i64>,
    /// Mean latency, as the server states it, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_microseconds: Option<i64>,
    /// Nodes in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub znodes: Option<i64>,
    /// Bytes of these nodes, as the server estimates them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<i64>,
    /// Watches of all servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watches: Option<i64>,
    /// Bytes of snapshots and logs on disk; only with limits.diskSize.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<i64>,
    /// Requests that the ClickHouse servers made to Keeper for a million rows inserted into any of
    /// their tables, since the look before or since they started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_million_rows: Option<i64>,
    /// How long one of these requests took in the mean, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_microseconds: Option<i64>,
    /// What each of our tables asked within the ten minutes before, by system.part_log of the
    /// ClickHouse servers. Absent where nothing was inserted or merged, or there is no such table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["table"])
    )]
    pub tables: Vec<CoordinationTable>,
    /// When it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub observed_at: Option<Time>,
}

/// What one table asks of Keeper or ZooKeeper: requests of its inserts, fetches and merges, by
/// whoever inserts. Pulling and cleaning its queue isn't counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationTable {
    /// The table.
    #[schemars(length(max = 128))]
    pub table: String,
    /// Requests for a million inserted rows. Absent, like the next two, without inserts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_million_rows: Option<i64>,
    /// Requests for an inserted part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_part: Option<i64>,
    /// Rows of an inserted part, in the mean. The more, the fewer requests for a million rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_part: Option<i64>,
    /// Requests in these ten minutes.
    pub requests: i64,
}
