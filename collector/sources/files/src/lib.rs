//! Receives log files and containers' logs: finds them, reads them in fair order, converts lines to
//! OTLP logs, and publishes these.
//!
//! One thread does all of this. [`millrace_tail`] identifies files and tracks confirmed positions,
//! and [`millrace_lines`] parses lines. Only positions that the publisher has confirmed are
//! recorded, so each line arrives at least once; a kill repeats the requests in flight. When the
//! publisher refuses, reading stops and nothing is dropped. This module never writes to a file that
//! it reads.
//!
//! In the order in which a line passes through the modules:
//!
//! - `find`: which files exist and which were written (`walk`, `watch`, joined by `finder`), which
//!   of them are read (`source`, with `namespace_filter` and `links`), and by which form (`forms`,
//!   `parse`).
//! - `open`: one file that is read (with `opening`, `pending_opens`, `unpack`), the pods that write
//!   files (`label`, `labels`), and all open files with their scheduling (`table`).
//! - `outbox`: requests that are filled, sent, and acknowledged or sent again.
//! - `positions`: the recorded positions. `backlog`: metrics of unconfirmed bytes.
//! - `worker`: the thread that runs all of these.

mod backlog;
mod find;
mod metrics;
mod open;
mod outbox;
mod positions;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use millrace_config::{ContainersReceiver, FilesReceiver, Positions as PositionsSettings};
use millrace_pipeline::component::{
    ComponentError, RunningSource, Source, SourceContext, StartingSource, start_blocking,
};
use millrace_pipeline::pods::{Namespaces, PodLookup};
use millrace_pipeline::telemetry::TelemetryError;
use millrace_tail::{RecordedPositions, Tail, TailSettings, TailSource};
use millrace_wire::Signal;
use rustix::process::{Resource, getrlimit};

use find::finder::{FinderSettings, SCAN_FILES_MAX};
use find::source::FileSource;
use metrics::FileMetrics;
use open::Buffer;
use open::labels::FileLabels;
use open::table::{SCAN_BYTES, scan_capacity};
use outbox::{Outbox, REQUEST_BYTES};
use worker::FilesWorker;

use millrace_pipeline::delivery_path::DeliveryPath;

pub use positions::{OTHER_PROCESS_WAIT_MAX, Positions};

/// The maximum open files: 16,384 of some 2 KiB each are 32 MiB, and a node has some 110 pods.
const OPEN_FILES_MAX: usize = 16_384;

/// The maximum known files: 32,768 of some 500 bytes are 16 MiB, and twice that while each log has
/// been rotated and its former file is not read yet.
const KNOWN_FILES_MAX: usize = 32_768;

/// The fraction (1/n) of the byte budget that scans may use, of what reading doesn't need: a
/// quarter.
const SCAN_SHARE: u64 = 4;

/// Settings of files that are read by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSettings {
    /// The logs of this node's containers.
    Containers(ContainersReceiver),
    /// Log files by pattern.
    Files(FilesReceiver),
}

/// The log files to read, as a source.
pub struct LogFiles {
    /// The sources. If several match a file, the first reads it.
    pub sources: Vec<SourceSettings>,
    /// Where positions are recorded.
    pub positions: PositionsSettings,
    /// Knows this node's pods. None: records have only the attributes that paths contain.
    pub pods: Option<Arc<dyn PodLookup>>,
    /// Knows the namespaces that `namespace_selector` selects. Without it such a source reads
    /// nothing.
    pub namespaces: Option<Arc<Namespaces>>,
}

impl LogFiles {
    /// Returns the files of these sections; `None` if neither names any.
    #[must_use]
    pub fn new(
        containers: Option<ContainersReceiver>,
        files: Vec<FilesReceiver>,
        positions: PositionsSettings,
        pods: Option<Arc<dyn PodLookup>>,
        namespaces: Option<Arc<Namespaces>>,
    ) -> Option<Self> {
        let containers = containers.into_iter().map(SourceSettings::Containers);
        let sources: Vec<_> =
            containers.chain(files.into_iter().map(SourceSettings::Files)).collect();
        (!sources.is_empty()).then_some(Self { sources, positions, pods, namespaces })
    }
}

impl Source for LogFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn check(&self) -> Result<(), String> {
        check_sources(&self.sources).map_err(|error| error.to_string())
    }

    fn start(self: Box<Self>, context: SourceContext) -> StartingSource {
        Box::pin(async move {
            let drain = context.drain.clone();
            let reading = start_blocking(&drain, move || start(*self, context)).await?;
            let run: RunningSource = Box::pin(async move {
                let Some(reading) = reading else { return true };
                tokio::task::spawn_blocking(|| reading.join()).await.unwrap_or(false)
            });
            Ok(run)
        })
    }
}

/// Why a receiver could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A pattern of names or lines is invalid.
    #[error("invalid pattern {pattern:?}: {why}")]
    Pattern {
        /// The pattern as configured.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// The directory of positions doesn't exist or can't be written.
    #[error("cannot store positions in {directory} (positions.directory): {source}")]
    Positions {
        /// The directory.
        directory: String,
        /// The system's error.
        source: io::Error,
    },
    /// No publisher accepts logs.
    #[error("files are read, but logs have no destination: set a topic for logs in the exporter")]
    Unconfigured,
    /// The budget is too small for one request.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to read files, which requires \
         {needed_bytes} bytes; lower maxLineBytes, or raise memory.limitBytes or the pod's memory \
         limit"
    )]
    SmallBudget {
        /// The available budget.
        budget_bytes: u64,
        /// The required budget.
        needed_bytes: u64,
    },
    /// The metrics are already registered.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The thread could not be started.
    #[error("cannot start the thread that reads files: {0}")]
    Thread(#[source] io::Error),
}

impl From<StartError> for ComponentError {
    fn from(error: StartError) -> Self {
        let message = format!("files: {error}");
        match error {
            StartError::Pattern { .. } | StartError::SmallBudget { .. } => {
                Self::invalid_settings(message)
            }
            _ => Self::failed(message),
        }
    }
}

/// A running receiver.
#[derive(Debug)]
pub struct FilesHandle {
    thread: JoinHandle<bool>,
}

impl FilesHandle {
    /// Blocks until the receiver ends, after the drain has begun. Returns whether everything that
    /// was read is confirmed and its positions are recorded.
    #[must_use]
    pub fn join(self) -> bool {
        self.thread.join().unwrap_or(false)
    }
}

/// Checks the patterns of names and lines.
fn check_sources(sources: &[SourceSettings]) -> Result<(), StartError> {
    sources.iter().try_for_each(|source| FileSource::from_settings(source).map(drop))
}

/// Starts to read. While another process uses the positions it blocks: for at most a minute, and
/// not once the drain has begun.
///
/// # Errors
/// If the settings are invalid, or the positions can't be read.
pub fn start(files: LogFiles, context: SourceContext) -> Result<FilesHandle, StartError> {
    let LogFiles { sources, positions, pods, namespaces } = files;
    let SourceContext { budget, drain, telemetry, publisher } = context;
    if !publisher.accepts_signal(Signal::Logs) {
        return Err(StartError::Unconfigured);
    }
    let mut sources =
        sources.iter().map(FileSource::from_settings).collect::<Result<Vec<_>, _>>()?;
    let longest = sources.iter().map(|one| one.form.max_record_bytes).max().unwrap_or(0);
    // Two copies of a request (one is retained until confirmed), the buffer, and a first scan.
    let buffer_bytes = Buffer::bytes_for(longest) as u64;
    let longest_written = sources.iter().map(|one| one.written_bytes).max().unwrap_or(0);
    let slack_bytes = 3 * longest_written;
    let needed_bytes = 2 * (REQUEST_BYTES + slack_bytes) as u64 + buffer_bytes + SCAN_BYTES;
    let small = || StartError::SmallBudget { budget_bytes: budget.limit_bytes(), needed_bytes };
    if budget.limit_bytes() < needed_bytes {
        return Err(small());
    }
    let budget_bytes = budget.limit_bytes();
    let reserved = budget.try_reserve(buffer_bytes).ok_or_else(small)?;
    let directory = positions.directory.display().to_string();
    let fault = |source| StartError::Positions { directory: directory.clone(), source };
    let mut positions =
        Positions::open_directory(&positions.directory, OTHER_PROCESS_WAIT_MAX, || {
            drain.is_begun()
        })
        .map_err(fault)?;
    let (recalled, resort) = positions.load_positions().map_err(fault)?;
    if let Some(resort) = resort {
        tracing::error!(directory, "{resort}");
    }
    let metrics = FileMetrics::register(&telemetry)?;
    let tail = restore_tail(&mut sources, open_files(), recalled);
    let run = move || {
        let delivery = DeliveryPath { budget, telemetry, publisher };
        let outbox = Outbox::new(delivery, worker::thread_waker(), slack_bytes);
        let buffer = (Buffer::new(longest), reserved);
        let files = SCAN_FILES_MAX.min(scan_capacity((budget_bytes - needed_bytes) / SCAN_SHARE));
        let sources = (sources, FinderSettings { files, ..FinderSettings::default() });
        FilesWorker::new(sources, tail, positions, outbox, metrics, buffer, FileLabels::new(pods))
            .with_namespaces(namespaces)
            .run(&drain)
    };
    let thread = thread::Builder::new().name("files".into()).spawn(run);
    Ok(FilesHandle { thread: thread.map_err(StartError::Thread)? })
}

/// Restores the recorded positions of these sources' files, whichever patterns read them then.
fn restore_tail(
    sources: &mut [FileSource],
    open_files: usize,
    recalled: RecordedPositions,
) -> Tail {
    for source in sources.iter_mut() {
        source.mark_recorded(|name| recalled.knows_source(name));
    }
    let of = |one: &FileSource| TailSource { names: one.names.clone(), from_end: one.from_end };
    let settings = TailSettings {
        sources: sources.iter().map(of).collect(),
        open_files,
        known_files: KNOWN_FILES_MAX,
    };
    Tail::new(settings, recalled, |path| sources.iter().position(|one| one.may_read(path)))
}

/// Half of the process's limit of open files; the other half is for its connections.
fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2).unwrap_or(OPEN_FILES_MAX).clamp(16, OPEN_FILES_MAX)
}
