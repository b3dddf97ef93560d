//! Connections to Kafka and ClickHouse: addresses, TLS and authentication.
//!
//! Never holds a secret, only its name; Secrets are in the object's namespace.
//!
//! Limits: 32 bootstrap servers, 64 ClickHouse endpoints.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::authentication::{CaSource, ClickHouseAuthentication, KafkaAuthentication};
use super::coordination::Coordination;
use crate::names::{BootstrapServer, ClickHouseEndpoint, ClusterName, DatabaseName, TablePrefix};
use crate::v1alpha1::rules;

/// How to reach Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kafka_rules)]
pub struct KafkaConnection {
    /// Bootstrap brokers, host:port; name two or more so that one may fail. 1 to 32.
    #[schemars(length(min = 1, max = 32))]
    pub bootstrap_servers: Vec<BootstrapServer>,
    /// Encrypts the connection with TLS; `{}` trusts the system's CAs. Default: not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<KafkaTls>,
    /// Authentication of operator and pods. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<KafkaAuthentication>,
    /// Credentials for administration: topics, settings, offsets and lag. Only the operator uses
    /// them; no pod mounts their Secrets, and an EdgePool ignores them. Default: authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<KafkaAdmin>,
}

impl KafkaConnection {
    /// The operator's own authentication.
    pub fn operator_authentication(&self) -> Option<&KafkaAuthentication> {
        let admin = self.admin.as_ref().map(|admin| &admin.authentication);
        admin.or(self.authentication.as_ref())
    }
}

/// Credentials for administration of Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaAdmin {
    /// Authentication of the operator.
    pub authentication: KafkaAuthentication,
}

/// TLS to Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaTls {
    /// CA of the brokers' certificates. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
}

fn kafka_rules(schema: &mut Schema) {
    for (path, guard) in [
        ("authentication", "!has(self.authentication)"),
        ("admin.authentication", "!has(self.admin)"),
    ] {
        rules::add_rule(
            schema,
            &format!("has(self.tls) || {guard} || self.{path}.type != 'Tls'"),
            &format!(
                "{path}.type is Tls without tls: write tls: {{}}, or the brokers' CA in tls.ca"
            ),
        );
        rules::add_rule(
            schema,
            &format!("has(self.tls) || {guard} || self.{path}.type != 'AwsMskIam'"),
            &format!("{path}.type is AwsMskIam without tls, which MSK requires: write tls: {{}}"),
        );
    }
}

/// Connection to ClickHouse, and where the tables are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = clickhouse_rules)]
pub struct ClickHouseTarget {
    /// HTTP interfaces, http://host:8123 or https://host:8443. If one fails, inserts go to the next
    /// endpoint of its shard. With several shards, list the same number for each, shard by shard. 1
    /// to 64.
    #[schemars(length(min = 1, max = 64))]
    pub endpoints: Vec<ClickHouseEndpoint>,
    /// Number of shards that the endpoints belong to, 1 to 64. The rows of a Kafka partition go to
    /// one shard. A change moves partitions; rows in flight at that moment may be stored on both
    /// shards. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub shards: Option<u16>,
    /// Database of the tables, created if missing. Cannot be changed later: existing rows would
    /// stay in the old tables. For another one create a new object. Default: otel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseName>,
    /// Prefix of table names, for example otel for otel_traces. Cannot be changed later: existing
    /// rows would stay in the old tables. For another one create a new object. Default: otel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_prefix: Option<TablePrefix>,
    /// ClickHouse cluster for DDL (ON CLUSTER): tables are created on each of its hosts. Default:
    /// only on each endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// ClickHouse cluster for Distributed tables, named <table>_distributed, to read all shards.
    /// Gateways write to the local tables. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<ClusterName>,
    /// Authentication of operator and gateways. Default: the user default, without a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<ClickHouseAuthentication>,
    /// Credentials for administration: databases, tables and system tables. Only the operator uses
    /// them; no pod mounts their Secrets, and a GatewayPool ignores them. Default: authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<ClickHouseAdmin>,
    /// TLS settings for https endpoints. Default: trusts the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClickHouseTls>,
    /// Keeper or ZooKeeper servers to monitor for the condition CoordinationHealthy of the
    /// TelemetrySchema. A GatewayPool ignores it. Default: monitored through ClickHouse only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<Coordination>,
}

impl ClickHouseTarget {
    /// Database used when none is named.
    pub const DEFAULT_DATABASE: &'static str = "otel";

    /// Table prefix used when none is named.
    pub const DEFAULT_TABLE_PREFIX: &'static str = "otel";

    /// Shards when none are named: every endpoint has all of the rows, or replicates them.
    pub const DEFAULT_SHARDS: u16 = 1;

    /// The operator's own authentication.
    pub fn operator_authentication(&self) -> Option<&ClickHouseAuthentication> {
        let admin = self.admin.as_ref().map(|admin| &admin.authentication);
        admin.or(self.authentication.as_ref())
    }

    /// The number of shards, the default filled in.
    pub fn shards(&self) -> u16 {
        self.shards.unwrap_or(Self::DEFAULT_SHARDS)
    }

    /// The database, the default filled in.
    pub fn database(&self) -> &str {
        self.database.as_ref().map_or(Self::DEFAULT_DATABASE, DatabaseName::as_str)
    }

    /// The table prefix, the default filled in.
    pub fn table_prefix(&self) -> &str {
        self.table_prefix.as_ref().map_or(Self::DEFAULT_TABLE_PREFIX, TablePrefix::as_str)
    }
}

/// TLS to ClickHouse.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClickHouseTls {
    /// CA of the servers' certificates. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
}

/// Credentials for administration of ClickHouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClickHouseAdmin {
    /// Authentication of the operator.
    pub authentication: ClickHouseAuthentication,
}

fn clickhouse_rules(schema: &mut Schema) {
    let advice = "existing rows would stay in the old tables. Restore the old value, or create \
                  another object for the new tables";
    rules::make_immutable(schema, &["database"], ClickHouseTarget::DEFAULT_DATABASE, advice);
    rules::make_immutable(schema, &["tablePrefix"], ClickHouseTarget::DEFAULT_TABLE_PREFIX, advice);
    rules::add_rule(
        schema,
        "!has(self.tls) || self.endpoints.all(e, e.startsWith('https://'))",
        "tls is set but an endpoint starts with http://: write https:// endpoints, or remove tls",
    );
    rules::add_rule(
        schema,
        "self.endpoints.all(e, self.endpoints.exists_one(o, o == e))",
        "an endpoint is listed twice: list each once",
    );
    for (path, guard) in [
        ("authentication", "!has(self.authentication)"),
        ("admin.authentication", "!has(self.admin)"),
    ] {
        rules::add_rule(
            schema,
            &format!(
                "{guard} || self.{path}.type != 'Tls' \
                 || self.endpoints.all(e, e.startsWith('https://'))"
            ),
            &format!("{path}.type is Tls but an endpoint starts with http://: write https://"),
        );
    }
    rules::add_rule(
        schema,
        "!has(self.shards) || size(self.endpoints) % self.shards == 0",
        "the number of endpoints is not a multiple of shards: list the same number for each shard, \
         shard by shard",
    );
}
