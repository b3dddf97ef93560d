//! The log, filtered by `--log`: JSON lines on standard error, and to an export where there is one.
//!
//! Only `run` may start it; tests use the default subscriber.

use millrace_observe::log;
use millrace_observe::otlp::TelemetryLayer;

/// A filter text that could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log filter {text:?}: {source}; write a level or target=level pairs")]
pub struct FilterError {
    text: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Starts logging. A second call in one process has no effect.
///
/// # Errors
/// When `filter` is not a valid filter such as `info` or `info,kube=warn`.
pub fn start_logging(filter: &str, own: Option<TelemetryLayer>) -> Result<(), FilterError> {
    log::init_logging(filter, own).map_err(|source| FilterError { text: filter.to_owned(), source })
}
