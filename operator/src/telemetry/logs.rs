//! Logs: JSON lines to standard error, filtered by `--log`.
//!
//! It must not be used from the library's own code other than `run`; tests keep the default
//! subscriber.

use tracing_subscriber::EnvFilter;

/// A filter text that could not be read.
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
pub fn start(filter: &str) -> Result<(), FilterError> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|source| FilterError { text: filter.to_owned(), source })?;
    let outcome = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    if outcome.is_err() {
        tracing::debug!("logging was already started in this process");
    }
    Ok(())
}
