//! Connections to Kafka and ClickHouse: addresses, and references to Secrets.
//!
//! Never holds a secret, only its name; Secrets are in the object's namespace.
//!
//! Limits: 32 bootstrap servers, 64 ClickHouse endpoints.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::coordination::Coordination;
use super::rules;
use crate::names::{
    BootstrapServer, ClickHouseEndpoint, ClusterName, DatabaseName, SecretKey, SecretName,
    TablePrefix,
};

/// A Secret in the object's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: SecretName,
}

/// A user name and a password in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRef {
    /// Name of the Secret. A change of its content rolls the pods that use it.
    pub name: SecretName,
    /// Key that holds the user name. Default: username.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username_key: Option<SecretKey>,
    /// Key that holds the password. Default: password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_key: Option<SecretKey>,
}

impl CredentialsRef {
    /// Key of the user name, the default filled in.
    pub fn username_key(&self) -> &str {
        self.username_key.as_ref().map_or("username", SecretKey::as_str)
    }

    /// Key of the password, the default filled in.
    pub fn password_key(&self) -> &str {
        self.password_key.as_ref().map_or("password", SecretKey::as_str)
    }
}

/// A certificate authority in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// Name of the Secret.
    pub name: SecretName,
    /// Key that holds the certificates in PEM form. Default: ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretKey>,
}

impl CaRef {
    /// Key of the certificates, the default filled in.
    pub fn key(&self) -> &str {
        self.key.as_ref().map_or("ca.crt", SecretKey::as_str)
    }
}

/// How to reach Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaConnection {
    /// Bootstrap brokers, each host:port, through which the rest of the cluster is found; two or
    /// more survive the loss of one. 1 to 32.
    #[schemars(length(min = 1, max = 32))]
    pub bootstrap_servers: Vec<BootstrapServer>,
    /// Encrypts the connection. `{}` trusts the system's authorities. Default: not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<KafkaTls>,
    /// Signs in with user name and password. Default: not signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl: Option<KafkaSasl>,
}

/// Encryption towards Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaTls {
    /// The authority that signed the brokers' certificates. Default: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
    /// A Secret of type kubernetes.io/tls (keys tls.crt and tls.key) to show to the brokers.
    /// Default: no client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_secret_ref: Option<SecretRef>,
}

/// Signing in to Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaSasl {
    /// PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Without tls, PLAIN sends the password unencrypted.
    pub mechanism: SaslMechanism,
    /// The Secret with user name and password.
    pub credentials_secret_ref: CredentialsRef,
}

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SaslMechanism {
    /// The password itself is sent.
    #[serde(rename = "PLAIN")]
    Plain,
    /// A proof of the password, with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// A proof of the password, with SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl SaslMechanism {
    /// The mechanism's registered name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// How to reach ClickHouse, and the place of the tables in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = clickhouse_rules)]
pub struct ClickHouseTarget {
    /// HTTP interfaces, http://host:8123 or https://host:8443. Inserts go to one and, when it
    /// fails, to the next of its shard. With several shards list the same number for each, shard by
    /// shard. 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    pub endpoints: Vec<ClickHouseEndpoint>,
    /// Number of shards that the endpoints belong to. The rows of a Kafka partition always go to
    /// the same shard. Another number moves partitions; rows in flight at that moment may be stored
    /// on both shards. 1 to 64. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub shards: Option<u16>,
    /// Database of the tables, made if missing. Can't be changed afterwards. Default: otel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseName>,
    /// Prefix of table names: otel gives otel_traces. Can't be changed afterwards. Default: otel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_prefix: Option<TablePrefix>,
    /// Makes tables on every host of this cluster (ON CLUSTER). Default: on the endpoint asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// Makes a table named <table>_distributed over this cluster's shards beside each table, for
    /// reading; gateways write to the shards' own tables. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<ClusterName>,
    /// The Secret with user name and password. Default: user default without a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<CredentialsRef>,
    /// Settings for https endpoints. Default: the system's authorities are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClickHouseTls>,
    /// Where the Keeper or ZooKeeper of replicated tables is asked how it is, for the condition
    /// CoordinationHealthy of the TelemetrySchema. A GatewayPool doesn't use it. Default: it is
    /// seen through ClickHouse alone.
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

/// Encryption towards ClickHouse.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClickHouseTls {
    /// The authority that signed the servers' certificates. Default: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
}

fn clickhouse_rules(schema: &mut Schema) {
    let advice = "rows already written would be left behind. Keep it, and make a second object \
                  for the new place";
    rules::unchangeable(schema, &["database"], ClickHouseTarget::DEFAULT_DATABASE, advice);
    rules::unchangeable(schema, &["tablePrefix"], ClickHouseTarget::DEFAULT_TABLE_PREFIX, advice);
    rules::rule(
        schema,
        "!has(self.tls) || self.endpoints.all(e, e.startsWith('https://'))",
        "tls is set but an endpoint starts with http://: write https:// endpoints, or remove tls",
    );
    rules::rule(
        schema,
        "self.endpoints.all(e, self.endpoints.exists_one(o, o == e))",
        "an endpoint is named twice: name each once",
    );
    rules::rule(
        schema,
        "!has(self.shards) || size(self.endpoints) % self.shards == 0",
        "the endpoints can't be shared out evenly among the shards: write as many for each, shard \
         by shard",
    );
}
