//! The log of both programs: JSON lines on standard error; with an export, also as OTLP.

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Layer as _, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use crate::otlp::{Collected, Sift};

/// Whether a text is a filter.
#[must_use]
pub fn is_filter(text: &str) -> bool {
    !text.is_empty() && EnvFilter::try_new(text).is_ok()
}

/// Starts the log. A second call in one process has no effect.
///
/// # Errors
/// When `filter` is no filter such as `info` or `info,kube=warn`.
pub fn start(filter: &str, own: Option<Collected>) -> Result<(), ParseError> {
    let log = EnvFilter::try_new(filter)?;
    let Some(own) = own else {
        let lines = fmt().json().flatten_event(true).with_writer(std::io::stderr);
        // It fails only if there is a log already, which will do.
        let _ = lines.with_env_filter(log).try_init();
        return Ok(());
    };
    let lines =
        fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).with_filter(log);
    let sift = Sift::new(EnvFilter::try_new(filter)?);
    let _ = registry().with(lines).with(own.with_filter(sift)).try_init();
    Ok(())
}

/// An error with its causes in one line: an HTTP client's own text alone says little.
#[must_use]
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
