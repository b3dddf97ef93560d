//! Sends the process's own traces and logs by OTLP over HTTP; off unless [`start_export`] is
//! called.
//!
//! [`Tracer`] samples traces, the `tracing` layer [`TelemetryLayer`] collects their spans and log
//! records, a bounded queue holds these, and one thread with its own runtime sends them. No
//! caller waits: items that find the queue full are dropped and counted. The thread's own output is
//! not collected, so sending never generates more to send; and requests are marked ([`OWN`]), so
//! that collectors don't trace them.
//!
//! We don't use the OpenTelemetry SDK: it adds eight crates to an edge for what are two messages
//! here, and it counts drops by an experimental feature, in its own meters.
//!
//! # Limits
//! At most [`QUEUE_ITEMS`] spans and log records wait, each with up to 32 attributes of 2 KiB of
//! text; usual ones have 0.5 KiB, together 1 MiB. A batch has [`BATCH_ITEMS`].

mod encode;
mod ids;
mod item;
mod layer;
mod mark;
mod sampler;
mod sender;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::{mpsc as queue, watch};
use tracing::Span;

pub use ids::TraceId;
pub use layer::{TelemetryFilter, TelemetryLayer};
pub use mark::{OWN_ATTRIBUTE, is_own_telemetry};
pub use sampler::{Trace, Tracer};

use item::Item;
use sampler::Sampler;

/// The target of exported spans. Of other spans, only the Kubernetes client's requests are
/// exported.
pub const SPANS: &str = "millrace_trace";

/// The most spans and log records that wait to be sent.
pub const QUEUE_ITEMS: usize = 2048;

/// The most spans and log records of one batch.
pub const BATCH_ITEMS: usize = 512;

/// The export's content and destination.
#[derive(Debug)]
pub struct ExportSettings {
    /// `http://` or `https://`, host and port, and the path before `/v1/traces`, if any.
    pub endpoint: String,
    /// Headers by name, and the files with their values, which are read for each request.
    pub headers: Vec<(String, PathBuf)>,
    /// The TLS configuration for `https://`.
    pub tls: rustls::ClientConfig,
    /// The resource of the traces and logs: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// The most traces sampled per second.
    pub traces_per_second: u32,
    /// The percentage of traces to sample.
    pub traces_percent: u8,
    /// Whether log lines are exported too.
    pub logs: bool,
}

/// The reason why the export can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The endpoint is no valid URL.
    #[error("own traces and logs: {endpoint:?} is not a valid endpoint; use http://HOST:4318")]
    Endpoint {
        /// The configured text.
        endpoint: String,
    },
    /// The metric of results can't be created.
    #[error(transparent)]
    Metric(#[from] prometheus::Error),
    /// The system refuses a thread or its runtime.
    #[error("own traces and logs: cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Returns a span for a request to another program, below the current span.
#[must_use]
pub fn request_span(name: &'static str) -> Span {
    tracing::debug_span!(target: SPANS, "request", otel.name = name, otel.kind = "client")
}

/// Returns the attributes of a resource: the program's own, and those of its settings, which take
/// precedence.
pub fn resource_attributes(
    program: &str,
    version: &str,
    instance: &str,
    configured: impl Iterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let own = [
        ("service.name", program),
        ("service.version", version),
        ("service.instance.id", instance),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    own.into_iter().chain(configured).collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The running export. It ends with [`Export::shutdown`], or with the process.
#[derive(Debug)]
pub struct Export {
    tracer: Tracer,
    counts: ExportCounts,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Export {
    /// Returns the sampler of traces.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Adds the metric that counts spans and log records by result.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.counts.0.clone()))
    }

    /// Sends the waiting items and ends; waits at most `patience` for that.
    pub fn shutdown(self, patience: Duration) {
        let _ = self.stop.send(true);
        // Nothing more can be done if the thread is late or gone.
        let _ = self.ended.recv_timeout(patience);
    }
}

/// Starts the thread that sends, and returns the layer that collects for it.
///
/// # Errors
/// See [`StartError`].
pub fn start_export(settings: ExportSettings) -> Result<(Export, TelemetryLayer), StartError> {
    let counts = ExportCounts::new()?;
    let (queue, items) = queue::channel(QUEUE_ITEMS);
    let (stop, stopped) = watch::channel(false);
    let sampler = Sampler::new(settings.traces_per_second, settings.traces_percent);
    let layer = TelemetryLayer::new(Queue { items: queue, counts: counts.clone() }, settings.logs);
    let ended = sender::start_sender(settings, counts.clone(), items, stopped)?;
    Ok((Export { tracer: Tracer::new(sampler), counts, stop, ended }, layer))
}

/// The queue of spans and log records to send.
#[derive(Clone, Debug)]
struct Queue {
    items: queue::Sender<Item>,
    counts: ExportCounts,
}

impl Queue {
    fn enqueue(&self, item: Item) {
        let what = item.kind();
        if self.items.try_send(item).is_err() {
            self.counts.add_items(what, ExportResult::QueueFull, 1);
        }
    }
}

/// The kind of an exported item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemKind {
    Span,
    Log,
}

/// The result of exporting an item.
#[derive(Clone, Copy, Debug)]
enum ExportResult {
    Sent,
    /// Items came faster than they could be sent.
    QueueFull,
    /// The server refused them or was repeatedly unreachable.
    Refused,
}

#[derive(Clone, Debug)]
struct ExportCounts(IntCounterVec);

impl ExportCounts {
    fn new() -> prometheus::Result<Self> {
        let options = Opts::new(
            "millrace_own_telemetry_total",
            "Spans and log records of the process itself by outcome: sent, queue_full or refused. \
             Only with telemetry.otlp.",
        );
        Ok(Self(IntCounterVec::new(options, &["what", "result"])?))
    }

    fn add_items(&self, what: ItemKind, became: ExportResult, items: u64) {
        let what = match what {
            ItemKind::Span => "span",
            ItemKind::Log => "log",
        };
        let became = match became {
            ExportResult::Sent => "sent",
            ExportResult::QueueFull => "queue_full",
            ExportResult::Refused => "refused",
        };
        self.0.with_label_values(&[what, became]).inc_by(items);
    }
}
