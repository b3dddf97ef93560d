//! Starts the export of the process's own traces and logs, from the settings.

use std::fs;

use millrace_config::{OwnOtlp, SecretError};
use millrace_ddl::ClientError;
use millrace_observe::otlp::{self, Export, ExportSettings, TelemetryLayer};
use millrace_sink_clickhouse::client_tls;

use crate::common::VERSION;

/// The file with the host name; in a pod it is the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Why the export can't start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The file of a certificate or key is invalid.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A certificate or key is invalid.
    #[error("tls: {0}")]
    Tls(#[from] ClientError),
    /// The export's thread or endpoint failed.
    #[error(transparent)]
    Start(#[from] otlp::StartError),
}

/// Starts the export.
pub(crate) fn start_export(own: &OwnOtlp) -> Result<(Export, TelemetryLayer), ExportError> {
    let OwnOtlp { endpoint, headers, tls, attributes, .. } = own;
    let OwnOtlp { traces_per_second, traces_percent, logs, .. } = own;
    let instance = fs::read_to_string(HOST_NAME).unwrap_or_default();
    let configured = attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
    let headers = headers.iter().map(|(name, file)| (name.clone(), file.path().to_owned()));
    Ok(otlp::start_export(ExportSettings {
        endpoint: endpoint.to_string(),
        headers: headers.collect(),
        tls: client_tls(tls.as_ref())?.client_config()?,
        resource: otlp::resource_attributes(
            "millrace-collector",
            VERSION,
            instance.trim(),
            configured,
        ),
        traces_per_second: *traces_per_second,
        traces_percent: *traces_percent,
        logs: *logs,
    })?)
}
