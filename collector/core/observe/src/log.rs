//! The log of both programs: JSON lines on standard error and, with an export, also OTLP.

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Layer as _, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use crate::otlp::{TelemetryFilter, TelemetryLayer};

/// Whether a text is a valid filter.
#[must_use]
pub fn is_filter(text: &str) -> bool {
    !text.is_empty() && EnvFilter::try_new(text).is_ok()
}

/// Starts the log. A second call in one process has no effect.
///
/// # Errors
/// If `filter` is no filter such as `info` or `info,kube=warn`.
pub fn init_logging(filter: &str, own: Option<TelemetryLayer>) -> Result<(), ParseError> {
    let log = EnvFilter::try_new(filter)?;
    let Some(own) = own else {
        let lines = fmt().json().flatten_event(true).with_writer(std::io::stderr);
        // This fails only if a log was started already, which is fine.
        let _ = lines.with_env_filter(log).try_init();
        return Ok(());
    };
    let lines =
        fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).with_filter(log);
    let sift = TelemetryFilter::new(EnvFilter::try_new(filter)?);
    let _ = registry().with(lines).with(own.with_filter(sift)).try_init();
    Ok(())
}
