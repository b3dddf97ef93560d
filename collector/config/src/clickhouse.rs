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
        /// HTTP endpoints of replicas that hold the same tables: one at least. With several shards
        /// as many for each, shard by shard.
        pub endpoints: Vec<HttpEndpoint> = Vec::new(),
        /// Parts of the data, each with servers of its own, 1 to 256. A Kafka partition's rows all
        /// go to one of them. Change it only while nothing waits to be repeated.
        pub shards: u16 = 1,
        /// The database.
        pub database: Identifier = Identifier::of_literal("otel"),
        /// What the tables' names begin with: `otel` gives `otel_traces`.
        pub table_prefix: Identifier = Identifier::of_literal("otel"),
        /// Who to log in as; the server's `default` user when absent.
        pub credentials: Option<Credentials> = None,
        /// TLS towards the server, for `https` endpoints.
        pub tls: Option<ClientTls> = None,
        /// The type of attribute columns; must be what the tables were made with.
        pub attributes: Attributes = Attributes::Json,
        /// Levels of key-value lists inside attribute values that become JSON paths of their own,
        /// 0 to 30; deeper lists are stored as JSON text. Map attributes hold text always.
        pub nested_depth: u8 = 8,
        /// When a batch is sent.
        pub batch: Batch = Batch::default(),
        /// Inserts at once, over all workers, 1 to 64.
        pub max_inserts_in_flight: u16 = 4,
        /// How long one insert may take, in seconds, 1 to 600.
        pub insert_timeout_seconds: u32 = 60,
        /// When a client is answered, where OTLP goes straight into these tables.
        pub acknowledge: AcknowledgeInsert = AcknowledgeInsert::AfterInsert,
    }
}

/// When a client is answered whose records go straight into ClickHouse.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcknowledgeInsert {
    /// After ClickHouse has stored the records. A crash of this process loses nothing answered.
    AfterInsert,
    /// Once the records are in memory, up to `batch.maxAgeMillis` earlier. A crash loses what was
    /// in memory.
    AfterBuffering,
}

/// A log-in by files.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    /// A file with the user name.
    pub username_file: SecretFile,
    /// A file with the password.
    pub password_file: SecretFile,
}

/// The type of attribute columns.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attributes {
    /// The JSON type: values keep their types and each path is a column of its own.
    #[serde(rename = "JSON")]
    Json,
    /// Map(LowCardinality(String), String): for servers and dashboards without the JSON type.
    Map,
}

section! {
    /// When a batch is sent: at the first of these.
    pub struct Batch {
        /// Rows, 1 to 750,000. Few and big inserts are what ClickHouse likes: of 200,000 rows they
        /// cost it a third less than of 50,000, merges included; more rows gain little. A server
        /// takes up to 1,048,449 as one block.
        pub max_rows: u32 = 200_000,
        /// Bytes of columns before compression, 64 KiB to 1 GiB. Under the 64 MiB at which one
        /// insert ends.
        pub max_bytes: ByteSize = ByteSize::mib(48),
        /// Age of the oldest record in it, in milliseconds, 1 to 60,000.
        pub max_age_millis: u32 = 1000,
    }
}
