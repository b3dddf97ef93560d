//! The settings of this sink, resolved from the configuration.

use std::time::Duration;

use millrace_columns::Options;
use millrace_config::{ClickHouseExporter, ClientTls, Credentials, HttpEndpoint, SecretError};
use millrace_ddl::TlsCertificates;
use millrace_schema::{AttributeStorage, Identifier};

/// All settings of the sink.
#[derive(Clone, Debug)]
pub struct SinkSettings {
    /// Shard by shard, the same number for each.
    pub(super) endpoints: Vec<HttpEndpoint>,
    pub(super) shards: usize,
    pub(super) database: Identifier,
    pub(super) table_prefix: Identifier,
    pub(super) credentials: Option<Credentials>,
    pub(super) tls: Option<ClientTls>,
    pub(super) columns: Options,
    pub(super) max_in_flight: usize,
    pub(super) insert_timeout: Duration,
}

/// Why the sink can't be created.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A secret file can't be used.
    #[error("clickhouse credentials: {0}")]
    Secret(#[from] SecretError),
    /// A certificate or key can't be used.
    #[error("clickhouse tls: {0}")]
    Tls(#[from] millrace_ddl::ClientError),
    /// A user name or password that can't be in an HTTP header.
    #[error("clickhouse credentials hold characters that HTTP headers can't carry")]
    Header(#[from] http::header::InvalidHeaderValue),
    /// An invalid name for the tables.
    #[error("clickhouse names: {0}")]
    Name(#[from] millrace_schema::IdentifierError),
    /// No endpoint is configured.
    #[error("no clickhouse endpoint is configured: write at least one under `endpoints`")]
    NoEndpoint,
}

impl SinkSettings {
    /// Resolves the configuration.
    ///
    /// # Errors
    /// There is no endpoint, or a name isn't valid for the tables.
    pub fn new(exporter: &ClickHouseExporter) -> Result<Self, SinkError> {
        if exporter.endpoints.is_empty() {
            return Err(SinkError::NoEndpoint);
        }
        let attributes = match exporter.attributes.unwrap_or_default() {
            millrace_config::Attributes::Json => AttributeStorage::Json,
            millrace_config::Attributes::Map => AttributeStorage::Map,
        };
        Ok(Self {
            endpoints: exporter.endpoints.clone(),
            shards: usize::from(exporter.shards).clamp(1, exporter.endpoints.len()),
            database: Identifier::new(exporter.database.as_str())?,
            table_prefix: Identifier::new(exporter.table_prefix.as_str())?,
            credentials: exporter.credentials.clone(),
            tls: exporter.tls.clone(),
            columns: Options { attributes, nested_depth: exporter.nested_depth.into() },
            max_in_flight: exporter.max_inserts_in_flight.into(),
            insert_timeout: Duration::from_secs(exporter.insert_timeout_seconds.into()),
        })
    }
}

/// Reads the certificates for a connection to a server now.
///
/// # Errors
/// A file can't be used.
pub fn client_tls(settings: Option<&ClientTls>) -> Result<TlsCertificates, SecretError> {
    let Some(ClientTls { ca_file, cert_file, key_file }) = settings else {
        return Ok(TlsCertificates::default());
    };
    let identity = match (cert_file, key_file) {
        (Some(cert), Some(key)) => Some(millrace_ddl::ClientIdentity {
            certificate_pem: cert.read_bytes()?,
            key_pem: millrace_ddl::Secret::new(key.read()?.expose()),
        }),
        // The configuration refuses one without the other.
        _ => None,
    };
    Ok(TlsCertificates {
        ca_pem: ca_file.as_ref().map(|file| file.read_bytes()).transpose()?,
        identity,
    })
}
