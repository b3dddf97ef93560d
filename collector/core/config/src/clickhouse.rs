//! The ClickHouse exporter's section.

use serde::{Deserialize, Serialize};

use crate::names::Identifier;
use crate::network::HttpEndpoint;
use crate::secret::{ClientTls, SecretFile};
use crate::section::section;
use crate::units::ByteSize;

section! {
    /// Tables in ClickHouse.
    pub struct ClickHouseExporter {
        /// HTTP endpoints of replicas that hold the same tables; at least one. With several shards,
        /// list the same number of endpoints for each shard, shard by shard.
        pub endpoints: Vec<HttpEndpoint> = Vec::new(),
        /// Number of shards, each with its own servers, 1 to 256. All rows of a Kafka partition go
        /// to one shard. Change it only while no insert waits for a retry.
        pub shards: u16 = 1,
        /// Name of the database.
        pub database: Identifier = Identifier::of_literal("otel"),
        /// Prefix of the table names: `otel` gives `otel_traces`.
        pub table_prefix: Identifier = Identifier::of_literal("otel"),
        /// Credentials of the ClickHouse user; the server's `default` user when absent.
        pub credentials: Option<Credentials> = None,
        /// TLS towards the server, for `https` endpoints.
        pub tls: Option<ClientTls> = None,
        /// Type of the attribute columns; must match the tables. Default: `Map`.
        pub attributes: Option<Attributes> = None,
        /// Nesting depth of key-value lists inside attribute values that become separate JSON
        /// paths, 0 to 30; deeper lists are stored as JSON text. Map attributes always hold text.
        pub nested_depth: u8 = 8,
        /// When a batch is inserted: at the first limit reached.
        pub batch: Batch = Batch::default(),
        /// Concurrent inserts into a table of a shard, over all workers, 1 to 64.
        pub max_inserts_in_flight: u16 = 4,
        /// Timeout of one insert, in seconds, 1 to 600.
        pub insert_timeout_seconds: u32 = 60,
        /// When a client is answered if OTLP is written directly into these tables.
        pub acknowledge: AcknowledgeInsert = AcknowledgeInsert::AfterInsert,
    }
}

/// When a client is answered whose records are written directly into ClickHouse.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcknowledgeInsert {
    /// After ClickHouse has stored the records. A crash of this process loses no acknowledged
    /// records.
    AfterInsert,
    /// Once the records are in memory, up to `batch.maxAgeMillis` earlier. A crash loses the
    /// records in memory.
    AfterBuffering,
}

section! {
    /// A user with a password or a client certificate, or a token.
    pub struct Credentials {
        /// User name. Either it or `usernameFile` is required, except with `tokenFile`.
        pub username: Option<String> = None,
        /// File with the user name.
        pub username_file: Option<SecretFile> = None,
        /// File with the password. Without it the user is identified by the client certificate of
        /// `tls`.
        pub password_file: Option<SecretFile> = None,
        /// File with a bearer token (JWT), which names its user; for ClickHouse Cloud.
        pub token_file: Option<SecretFile> = None,
    }
}

/// The type of attribute columns.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attributes {
    /// The JSON type: values keep their types, and each path is a separate column.
    #[serde(rename = "JSON")]
    Json,
    /// Map(LowCardinality(String), String): for any server, and for queries written for the
    /// OpenTelemetry Collector's tables.
    #[default]
    Map,
}

section! {
    /// When a batch is inserted: at the first limit reached.
    pub struct Batch {
        /// Rows of a batch, 1 to 750,000. ClickHouse prefers few, large inserts: inserts of 200,000
        /// rows cost a third less than inserts of 50,000, merges included; more rows gain little. A
        /// server accepts up to 1,048,449 rows as one block.
        pub max_rows: u32 = 200_000,
        /// Bytes of columns of a batch before compression, 64 KiB to 1 GiB. Must be below the 64
        /// MiB at which one insert ends.
        pub max_bytes: ByteSize = ByteSize::mib(48),
        /// Age of the oldest record of a batch, in milliseconds, 1 to 60,000. If OTLP is written
        /// directly into these tables, it must be below the receiver's `answerSeconds`.
        pub max_age_millis: u32 = 1000,
    }
}
