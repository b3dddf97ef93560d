//! The ClickHouse exporter's section.

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::values::names::Identifier;
use crate::values::network::HttpEndpoint;
use crate::values::secret::{ClientTls, SecretFile};
use crate::values::units::ByteSize;

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

impl Checker<'_> {
    pub(crate) fn check_clickhouse(&mut self, exporter: &ClickHouseExporter) {
        let ClickHouseExporter {
            endpoints,
            shards,
            database: _,
            table_prefix: _,
            credentials,
            tls,
            attributes: _,
            nested_depth,
            batch,
            max_inserts_in_flight,
            insert_timeout_seconds,
            // Only a matter of the mode.
            acknowledge: _,
        } = exporter;
        let field = |name: &str| format!("exporters.clickhouse.{name}");
        if endpoints.is_empty() {
            self.add_problem(
                &field("endpoints"),
                "no endpoint is configured: set at least one, as in [http://clickhouse.db:8123]",
            );
        }
        self.check_range(&field("shards"), *shards, 1..=256);
        if !endpoints.len().is_multiple_of(usize::from(*shards).max(1)) {
            let message = format!(
                "the number of endpoints ({}) is not a multiple of the number of shards \
                 ({shards}): list the same number of endpoints for each shard, shard by shard",
                endpoints.len()
            );
            self.add_problem(&field("shards"), message);
        }
        self.check_client_tls(&field("tls"), tls.as_ref());
        if let Some(credentials) = credentials {
            self.check_credentials(&field("credentials"), credentials, tls.as_ref());
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            if tls.is_some() && !endpoint.is_https() {
                self.add_problem(
                    &format!("{}[{index}]", field("endpoints")),
                    format!("`{endpoint}` is not https, but tls is set: use https or remove tls"),
                );
            }
        }
        // 30 levels is all that a request may have.
        self.check_range(&field("nestedDepth"), *nested_depth, 0..=30);
        self.check_range(&field("batch.maxRows"), batch.max_rows, 1..=750_000);
        let bytes = ByteSize::kib(64)..=ByteSize::mib(1024);
        self.check_range(&field("batch.maxBytes"), batch.max_bytes, bytes);
        self.check_range(&field("batch.maxAgeMillis"), batch.max_age_millis, 1..=60_000);
        self.check_range(&field("maxInsertsInFlight"), *max_inserts_in_flight, 1..=64);
        self.check_range(&field("insertTimeoutSeconds"), *insert_timeout_seconds, 1..=600);
    }

    fn check_credentials(
        &mut self,
        field: &str,
        credentials: &Credentials,
        tls: Option<&ClientTls>,
    ) {
        let Credentials { username, username_file, password_file, token_file } = credentials;
        if token_file.is_some() {
            if username.is_some() || username_file.is_some() || password_file.is_some() {
                let message = "a token names its user: remove username, usernameFile and \
                               passwordFile, or remove tokenFile";
                self.add_problem(field, message);
            }
            return;
        }
        if username.is_some() == username_file.is_some() {
            self.add_problem(field, "set either username or usernameFile");
        }
        if password_file.is_none() && tls.is_none_or(|tls| tls.cert_file.is_none()) {
            let message = "a user without passwordFile needs a client certificate: set \
                           passwordFile, or tls.certFile and tls.keyFile";
            self.add_problem(field, message);
        }
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{AcknowledgeInsert, Attributes, Batch, ClickHouseExporter, Credentials};
    use crate::document::round_trip::{parsed, size};
    use crate::values::names::Identifier;
    use crate::values::network::HttpEndpoint;
    use crate::values::secret::arbitrary::{client_tls, file};
    use proptest::option;
    use proptest::prelude::{Just, Strategy, any, prop_oneof};

    pub(crate) fn clickhouse() -> impl Strategy<Value = ClickHouseExporter> {
        let endpoint = parsed::<HttpEndpoint>("https?://[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
        let names = (parsed::<Identifier>("[A-Za-z_][A-Za-z0-9_]{0,20}"), "[a-z]{1,8}");
        let credentials = (option::of(file()), option::of(file()), option::of(file())).prop_map(
            |(username_file, password_file, token_file)| Credentials {
                username: username_file.is_none().then(|| "writer".to_owned()),
                username_file,
                password_file,
                token_file,
            },
        );
        let attributes = prop_oneof![Just(Attributes::Json), Just(Attributes::Map)];
        let acknowledge = prop_oneof![
            Just(AcknowledgeInsert::AfterInsert),
            Just(AcknowledgeInsert::AfterBuffering)
        ];
        let batch = (any::<u32>(), size(), any::<u32>()).prop_map(|(rows, max_bytes, age)| Batch {
            max_rows: rows,
            max_bytes,
            max_age_millis: age,
        });
        (
            proptest::collection::vec(endpoint, 0..3),
            names,
            option::of(credentials),
            option::of(client_tls()),
            option::of(attributes),
            batch,
            (any::<u16>(), any::<u32>(), acknowledge, any::<u16>()),
        )
            .prop_map(
                |(endpoints, (database, prefix), credentials, tls, attributes, batch, numbers)| {
                    ClickHouseExporter {
                        endpoints,
                        database,
                        table_prefix: Identifier::new(prefix).unwrap(),
                        credentials,
                        tls,
                        attributes,
                        batch,
                        nested_depth: (numbers.0 % 31) as u8,
                        max_inserts_in_flight: numbers.0,
                        insert_timeout_seconds: numbers.1,
                        acknowledge: numbers.2,
                        shards: numbers.3,
                    }
                },
            )
    }
}
