//! Checked names: text that has passed its rule, one type for each meaning.
//!
//! One pattern serves both sides: the CEL rule in the CRD (refused by the API server, with a
//! message that says what to write instead) and the check when an object is read. Must not reach
//! out to anything: controllers check whether a host exists.
//!
//! Limits: each type states its longest text; patterns are the common subset of RE2 and Rust.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex_lite::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Text that does not follow the rule of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {what}: {says}")]
pub struct InvalidText {
    /// The offered text, cut to its first 80 characters.
    pub text: String,
    /// The type that refused it.
    pub what: &'static str,
    /// What to write instead.
    pub says: &'static str,
}

impl InvalidText {
    pub(crate) fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        /// Enough to recognise the text in a message; a longer one would fill a status.
        const SHOWN_CHARACTERS: usize = 80;
        Self { text: text.chars().take(SHOWN_CHARACTERS).collect(), what, says: rule }
    }
}

/// The schema of a checked string: length limits for the CEL cost, the pattern as a rule.
pub(crate) fn checked_schema(max_length: usize, pattern: &str, rule: &str) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": max_length,
        "x-kubernetes-validations": [{
            "rule": format!("self.matches(r'{pattern}')"),
            "message": rule,
        }],
    })
}

pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
    // Every pattern is a constant of this crate; a test compiles them all.
    Regex::new(pattern).ok()
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $pattern:expr, $says:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Longest text allowed, in bytes.
            pub const MAX_LENGTH: usize = $max;

            pub(crate) const PATTERN: &'static str = $pattern;

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidText;

            fn try_from(text: String) -> Result<Self, InvalidText> {
                static CHECK: LazyLock<Option<Regex>> = LazyLock::new(|| compiled($name::PATTERN));
                let matches = CHECK.as_ref().is_some_and(|check| check.is_match(&text));
                if matches && text.len() <= Self::MAX_LENGTH {
                    Ok(Self(text))
                } else {
                    Err(InvalidText::new(&text, $what, $says))
                }
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;

            fn from_str(text: &str) -> Result<Self, InvalidText> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                checked_schema(Self::MAX_LENGTH, Self::PATTERN, $says)
            }
        }
    };
}

/// A host name, an IPv4 address, or an IPv6 address in brackets.
macro_rules! host {
    () => {
        r"([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    };
}

/// A TCP port, 1 to 65535.
macro_rules! port {
    () => {
        concat!(
            r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}",
            r"|655[0-2][0-9]|6553[0-5])"
        )
    };
}

checked_text!(
    /// A Kafka broker's address: `host:port`.
    BootstrapServer,
    "bootstrap server",
    261,
    concat!("^", host!(), ":", port!(), "$"),
    "write host:port, for example kafka-0.kafka:9092"
);

checked_text!(
    /// The address of a ClickHouse HTTP interface: `http://host:8123` or `https://host:8443`.
    ClickHouseEndpoint,
    "ClickHouse endpoint",
    269,
    concat!("^https?://", host!(), "(:", port!(), ")?$"),
    "write http://host:8123 or https://host:8443, with no path, query or user name (credentials \
     go into authentication)"
);

checked_text!(
    /// An OTLP server over HTTP: `http://host:4318` or `https://host:4318`.
    OtlpEndpoint,
    "OTLP endpoint",
    269,
    concat!("^https?://", host!(), "(:", port!(), ")?$"),
    "write http://host:4318 or https://host:4318, without a path: /v1/traces and /v1/logs are \
     appended"
);

checked_text!(
    /// Address to monitor a Keeper or ZooKeeper server: `host:port` for four-letter words,
    /// `http://host:port` or `https://host:port` for Keeper's HTTP API.
    CoordinationServer,
    "coordination server",
    269,
    concat!("^(https?://)?", host!(), ":", port!(), "$"),
    "write host:port, for example zk-0.zk:2181, or Keeper's HTTP API, for example \
     http://keeper-0:9182"
);

checked_text!(
    /// A Kafka topic. Kafka allows 249 characters; the dead-letter topic's ending
    /// (`_dead_letter`, 12 characters) must fit behind it.
    TopicName,
    "topic name",
    237,
    "^[A-Za-z0-9_][-._A-Za-z0-9]*$",
    "write letters, digits, '.', '_' and '-', not starting with '.' or '-', at most 237 \
     characters, for example otlp_traces"
);

checked_text!(
    /// The name of an edge pool in its pipeline. The EdgePool is named after both: a pipeline's 30
    /// characters, this and a dash make 47, and its workload has `-edge` behind them: 52.
    EdgeName,
    "edge pool's name",
    16,
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "write lower-case letters, digits and '-', starting with a letter, at most 16 characters, for \
     example clients"
);

impl Default for EdgeName {
    /// The edge pool of a pipeline without `edges`.
    fn default() -> Self {
        Self("clients".to_owned())
    }
}

checked_text!(
    /// A Kafka consumer group.
    ConsumerGroup,
    "consumer group",
    200,
    "^[A-Za-z0-9_][-._A-Za-z0-9]*$",
    "write letters, digits, '.', '_' and '-', at most 200 characters, for example millrace-prod"
);

checked_text!(
    /// A ClickHouse database.
    DatabaseName,
    "database name",
    63,
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "write letters, digits and '_', not starting with a digit, at most 63 characters, for \
     example otel"
);

checked_text!(
    /// Prefix of table names: `otel` gives `otel_traces`.
    TablePrefix,
    "table prefix",
    40,
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "write letters, digits and '_', not starting with a digit, at most 40 characters, for \
     example otel"
);

checked_text!(
    /// A ClickHouse cluster, or the macro that names it.
    ClusterName,
    "cluster name",
    63,
    r"^(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][-A-Za-z0-9_]*)$",
    "write the cluster's name as system.clusters shows it, or a macro such as {cluster}"
);

checked_text!(
    /// A Keeper path above replicated tables; macros in braces are ClickHouse's own.
    KeeperPath,
    "Keeper path",
    253,
    r"^(/([-A-Za-z0-9_.]|\{[-A-Za-z0-9_.]+\})+)+$",
    "write an absolute path with ClickHouse's macros and no slash at its end, for example \
     /clickhouse/tables/{shard}; the names of database and table are added below it"
);

checked_text!(
    /// A replica's name in Keeper, usually the macro `{replica}`.
    ReplicaName,
    "replica name",
    63,
    r"^([-A-Za-z0-9_.]|\{[-A-Za-z0-9_.]+\})+$",
    "write the replica's name or a macro, for example {replica}"
);

checked_text!(
    /// A storage policy or volume of ClickHouse's configuration.
    StorageName,
    "storage name",
    63,
    "^[-A-Za-z0-9_.]+$",
    "write the name of a storage policy or volume as system.storage_policies shows it"
);
checked_text!(
    /// A column of a table.
    ColumnName,
    "column name",
    63,
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "write letters, digits and '_', not starting with a digit, at most 63 characters, for \
     example PodName"
);
checked_text!(
    /// The name of an attribute.
    AttributePath,
    "attribute",
    128,
    "^[A-Za-z][-A-Za-z0-9_/]*([.][-A-Za-z0-9_/]+)*$",
    "write an attribute's name: letters, digits, '_', '-', '/' and single '.', beginning with a \
     letter, at most 128 characters, for example k8s.pod.name"
);
checked_text!(
    /// The name of a Secret in the object's own namespace.
    SecretName,
    "Secret name",
    253,
    "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    "write the name of a Secret in this namespace: lower-case letters, digits, '-' and '.'"
);

checked_text!(
    /// The name of a ConfigMap in the object's own namespace.
    ConfigMapName,
    "ConfigMap name",
    253,
    "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    "write the name of a ConfigMap in this namespace: lower-case letters, digits, '-' and '.'"
);

checked_text!(
    /// A key inside a Secret.
    SecretKey,
    "Secret key",
    253,
    "^[-._A-Za-z0-9]+$",
    "write a key of the Secret: letters, digits, '-', '_' and '.'"
);

checked_text!(
    /// A released version: `major.minor.patch` with an optional pre-release part.
    Version,
    "version",
    64,
    "^[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z]+([-.][0-9A-Za-z]+)*)?$",
    "write a version such as 0.1.0 or 0.2.0-rc.1, without a leading v"
);

checked_text!(
    /// An image without tag or digest: `registry/path/name`.
    ImageRepository,
    "image repository",
    253,
    "^[a-z0-9]([-._a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([-._a-z0-9]*[a-z0-9])?)*$",
    "write registry/path/name without a tag, for example registry.example.com/millrace/collector \
     (version and allocator make the tag)"
);

checked_text!(
    /// The name of a StorageClass.
    StorageClassName,
    "storage class name",
    253,
    "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    "write the name of a StorageClass: lower-case letters, digits, '-' and '.'"
);

#[cfg(test)]
mod tests;
