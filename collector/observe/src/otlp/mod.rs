//! The process's own traces and logs, sent by OTLP over HTTP; off unless [`start`] is called.
//!
//! [`Tracer`] decides which traces are kept, [`Collected`] is the layer of `tracing` that makes
//! spans and log records of them, a bounded queue takes these, and one thread with a runtime of
//! its own sends them. Nobody waits: what finds the queue full is dropped and counted. Nothing that
//! this thread logs is collected, so sending never makes more to send; and what it sends is marked
//! ([`OWN`]), so that collectors which carry it trace nothing of it.
//!
//! Our own encoder, not the OpenTelemetry SDK: that is eight crates more in an edge for what are
//! here two messages, and it counts what it drops by an experimental feature, in its own meters.
//!
//! # Limits
//! [`QUEUE_ITEMS`] spans and log records wait at most, of up to 32 attributes of 2 KiB of text
//! each; usual ones have 0.5 KiB, together 1 MiB. A batch has [`BATCH_ITEMS`].

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
pub use layer::{Collected, Sift};
pub use mark::{OWN, is_own};
pub use sampler::{Trace, Tracer};

use item::Item;
use sampler::Sampler;

/// The target of spans that are sent; no others are, but the Kubernetes client's requests.
pub const SPANS: &str = "millrace_trace";

/// Spans and log records that wait to be sent.
pub const QUEUE_ITEMS: usize = 2048;

/// Spans and log records of one batch.
pub const BATCH_ITEMS: usize = 512;

/// What is sent, and where.
#[derive(Debug)]
pub struct Settings {
    /// `http://` or `https://`, host and port, and what stands before `/v1/traces` if anything.
    pub endpoint: String,
    /// Headers by name, and the files with their values, which are read for each request.
    pub headers: Vec<(String, PathBuf)>,
    /// What `https://` is encrypted with.
    pub tls: rustls::ClientConfig,
    /// What the traces and logs are of: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// Traces a second that are kept at most.
    pub traces_per_second: u32,
    /// Of 100 traces, how many are kept at most.
    pub traces_percent: u8,
    /// Whether log lines are sent too.
    pub logs: bool,
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The endpoint is no URL.
    #[error("own traces and logs: {endpoint:?} is no endpoint; write http://HOST:4318")]
    Endpoint {
        /// What was written.
        endpoint: String,
    },
    /// The metric of what became of them can't be made.
    #[error(transparent)]
    Metric(#[from] prometheus::Error),
    /// The system refuses a thread or its runtime.
    #[error("own traces and logs: the system refuses a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A span for a request to another program, below the current span.
#[must_use]
pub fn asking(name: &'static str) -> Span {
    tracing::debug_span!(target: SPANS, "request", otel.name = name, otel.kind = "client")
}

/// The attributes of a resource: what a program is, and what its settings say of it, which count
/// more.
pub fn resource(
    program: &str,
    version: &str,
    instance: &str,
    given: impl Iterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let own = [
        ("service.name", program),
        ("service.version", version),
        ("service.instance.id", instance),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    own.into_iter().chain(given).collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The running export. It ends with [`Export::end`], or with the process.
#[derive(Debug)]
pub struct Export {
    tracer: Tracer,
    counts: Counts,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Export {
    /// What decides about traces.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Adds the metric of what became of spans and log records.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.counts.0.clone()))
    }

    /// Sends what waits, and ends; waits for that at most `patience`.
    pub fn end(self, patience: Duration) {
        let _ = self.stop.send(true);
        // Late or gone, there is nothing more to do about it.
        let _ = self.ended.recv_timeout(patience);
    }
}

/// Starts the thread that sends, and makes the layer that collects for it.
///
/// # Errors
/// Why it can't.
pub fn start(settings: Settings) -> Result<(Export, Collected), StartError> {
    let counts = Counts::new()?;
    let (queue, items) = queue::channel(QUEUE_ITEMS);
    let (stop, stopped) = watch::channel(false);
    let sampler = Sampler::new(settings.traces_per_second, settings.traces_percent);
    let layer = Collected::new(Queue { items: queue, counts: counts.clone() }, settings.logs);
    let ended = sender::start(settings, counts.clone(), items, stopped)?;
    Ok((Export { tracer: Tracer::new(sampler), counts, stop, ended }, layer))
}

/// Where spans and log records wait.
#[derive(Clone, Debug)]
struct Queue {
    items: queue::Sender<Item>,
    counts: Counts,
}

impl Queue {
    fn put(&self, item: Item) {
        let what = item.what();
        if self.items.try_send(item).is_err() {
            self.counts.add(what, Became::QueueFull, 1);
        }
    }
}

/// The two things that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Span,
    Log,
}

/// What became of them.
#[derive(Clone, Copy, Debug)]
enum Became {
    Sent,
    /// They came faster than they could be sent.
    QueueFull,
    /// The server refused them, or could not be reached again and again.
    Refused,
}

#[derive(Clone, Debug)]
struct Counts(IntCounterVec);

impl Counts {
    fn new() -> prometheus::Result<Self> {
        let options = Opts::new(
            "millrace_own_telemetry_total",
            "Spans and log records of the process's own, by what became of them: sent, queue_full or \
             refused. Only where their export is on.",
        );
        Ok(Self(IntCounterVec::new(options, &["what", "result"])?))
    }

    fn add(&self, what: What, became: Became, items: u64) {
        let what = match what {
            What::Span => "span",
            What::Log => "log",
        };
        let became = match became {
            Became::Sent => "sent",
            Became::QueueFull => "queue_full",
            Became::Refused => "refused",
        };
        self.0.with_label_values(&[what, became]).inc_by(items);
    }
}
