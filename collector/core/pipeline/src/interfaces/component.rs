//! The shape of an edge's components: what a source or an exporter gets, how it starts, and how it
//! ends.
//!
//! A source's crate implements [`Source`], an exporter's [`Exporter`] and [`RunningExporter`]. The
//! process lists them in one place and treats all alike: it checks, registers, starts and joins
//! each.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::TopicName;
use millrace_wire::Signal;

use crate::budget::Budget;
use crate::drain::Drain;
use crate::interfaces::publish::Publish;
use crate::readiness::Readiness;
use crate::telemetry::Telemetry;

/// A source of records, with its settings.
pub trait Source: Send {
    /// Returns the name of its part of readiness.
    fn name(&self) -> &'static str;

    /// Checks what the settings' own checks can't, such as patterns.
    ///
    /// # Errors
    /// What is invalid.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Starts it. It is ready once this ends.
    fn start(self: Box<Self>, context: SourceContext) -> StartingSource;
}

/// Starts a source.
pub type StartingSource =
    Pin<Box<dyn Future<Output = Result<RunningSource, ComponentError>> + Send>>;

/// Runs a source until the drain. Returns whether everything that it read is safe then.
pub type RunningSource = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The parts that each source works with.
#[derive(Clone)]
pub struct SourceContext {
    /// Counts the bytes in flight.
    pub budget: Budget,
    /// Signals when to stop.
    pub drain: Drain,
    /// The registry of metrics, and the counts of records.
    pub telemetry: Arc<Telemetry>,
    /// Receives the requests.
    pub publisher: Arc<dyn Publish>,
}

/// An exporter of an edge, with its settings.
pub trait Exporter: Send {
    /// Returns the maximum memory of a request while it is published, in quarters of its length.
    fn request_quarters(&self) -> u64;

    /// Starts it. It adds its part of readiness before this ends.
    ///
    /// # Errors
    /// The reason why it can't start.
    fn start(
        self: Box<Self>,
        context: ExporterContext,
    ) -> Result<Arc<dyn RunningExporter>, ComponentError>;
}

/// A publisher that an edge ends in order.
pub trait RunningExporter: Publish {
    /// Makes accepted records safe, at most for `time`, and blocks for it. Nothing is accepted
    /// afterwards. Returns false when some records may not be safe; clients that wait for them get
    /// a retryable answer.
    #[must_use]
    fn flush(&self, time: Duration) -> bool;

    /// Returns a publisher to each route, in their order.
    fn route_publishers(self: Arc<Self>) -> Vec<Arc<dyn Publish>>;
}

/// The parts that an exporter works with.
pub struct ExporterContext {
    /// Counts the bytes in flight.
    pub budget: Budget,
    /// Signals when to stop.
    pub drain: Drain,
    /// The registry of metrics, and the counts of records.
    pub telemetry: Arc<Telemetry>,
    /// Gets the exporter's part.
    pub readiness: Readiness,
    /// The topics of rules that route.
    pub routes: Vec<RouteOptions>,
    /// The number of threads that publish.
    pub threads: usize,
}

/// A topic that gets records of a signal which rules route.
#[derive(Clone, Debug)]
pub struct RouteOptions {
    /// The signal of its records.
    pub signal: Signal,
    /// The topic's name.
    pub topic: TopicName,
}

/// The reason why a component can't start.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ComponentError {
    message: String,
    is_settings: bool,
}

impl ComponentError {
    /// Returns the error of settings that can't be used, however often the process starts.
    pub fn invalid_settings(message: impl Display) -> Self {
        Self { message: message.to_string(), is_settings: true }
    }

    /// Returns the error of anything else that failed.
    pub fn failed(message: impl Display) -> Self {
        Self { message: message.to_string(), is_settings: false }
    }

    /// Whether the settings are the reason.
    #[must_use]
    pub fn is_settings(&self) -> bool {
        self.is_settings
    }
}

/// Calls a `start` that blocks on a thread where it may. Returns `None` if it failed after the
/// drain had begun: nothing was read, and clients' requests still need answers.
///
/// # Errors
/// The error of `start`.
pub async fn start_blocking<T, E>(
    drain: &Drain,
    start: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Option<T>, ComponentError>
where
    T: Send + 'static,
    E: Into<ComponentError> + Send + 'static,
{
    let started = match tokio::task::spawn_blocking(start).await {
        Ok(started) => started.map_err(Into::into),
        Err(ended) => Err(ComponentError::failed(format_args!("cannot start a thread: {ended}"))),
    };
    match started {
        Err(_) if drain.is_begun() => Ok(None),
        started => started.map(Some),
    }
}
