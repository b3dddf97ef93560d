//! The start of the export of own traces and logs, from the settings.

use std::fs;

use millrace_config::{OwnOtlp, SecretError};
use millrace_ddl::ClientError;
use millrace_exporters::clickhouse::client_tls;
use millrace_observe::otlp::{self, Collected, Export, Settings};

use crate::common::VERSION;
use crate::sources::HOST_NAME;

/// Why it can't be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// A certificate's or key's file.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A certificate or key.
    #[error("tls: {0}")]
    Tls(#[from] ClientError),
    /// Its thread or endpoint.
    #[error(transparent)]
    Start(#[from] otlp::StartError),
}

/// Starts it.
pub(crate) fn start(own: &OwnOtlp) -> Result<(Export, Collected), ExportError> {
    let OwnOtlp { endpoint, headers, tls, attributes, .. } = own;
    let OwnOtlp { traces_per_second, traces_percent, logs, .. } = own;
    let instance = fs::read_to_string(HOST_NAME).unwrap_or_default();
    let given = attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
    let headers = headers.iter().map(|(name, file)| (name.clone(), file.path().to_owned()));
    Ok(otlp::start(Settings {
        endpoint: endpoint.to_string(),
        headers: headers.collect(),
        tls: client_tls(tls.as_ref())?.config()?,
        resource: otlp::resource("millrace-collector", VERSION, instance.trim(), given),
        traces_per_second: *traces_per_second,
        traces_percent: *traces_percent,
        logs: *logs,
    })?)
}
