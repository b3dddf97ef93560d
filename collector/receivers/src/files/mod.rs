//! Log files, and what containers write: found, read in turn, made into OTLP logs, and handed on.
//!
//! One thread does it all. What a file is and what of it is safe is told by [`millrace_tail`], what
//! a line is by [`millrace_lines`]. Positions are kept only of what the publisher has confirmed, so
//! each line arrives at least once; a kill repeats what was in flight. When the publisher refuses,
//! reading stops and nothing is thrown away. This module never writes to a file it reads.
//!
//! In the order in which a line goes through them:
//!
//! - `source`, with `choice` and `links`: which files are read. `forms`, `parse`: as what.
//! - `walk`, `watch`, joined by `finder`: which files are there, and which were written.
//! - `opening`, `open`, `unpack`: a file that is read. `table`: all of them, and whose turn it is.
//! - `labels`: what is known of the pod that writes a file.
//! - `outbox`: requests that fill up, are under way, and are acknowledged or sent again.
//! - `positions`: what is on record. `backlog`: what is behind.
//! - `worker` is the thread that does all this by turns.

mod backlog;
mod choice;
mod finder;
mod forms;
mod labels;
mod links;
mod open;
mod opening;
mod outbox;
mod parse;
mod positions;
mod source;
mod table;
mod unpack;
mod walk;
mod watch;
mod worker;

#[cfg(test)]
#[path = "../../tests/files_simulation/mod.rs"]
mod simulation;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use millrace_config::{ContainersReceiver, FilesReceiver, Positions as PositionsSettings};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::file_metrics::FileMetrics;
use millrace_pipeline::pods::{Namespaces, Pods};
use millrace_pipeline::publish::Publish;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_tail::{Settings as TailSettings, Source as TailSource, Tail};
use millrace_wire::Signal;
use rustix::process::{Resource, getrlimit};

use finder::Finding;
use labels::Labels;
use open::Buffer;
use outbox::{Outbox, REQUEST_BYTES};
use source::Source;
use worker::Worker;

use crate::way::Way;

pub(crate) use positions::{OTHER_MAX, Positions};

/// The most files that are open: 16,384 of some 2 KiB each are 32 MiB, and a node has some 110
/// pods.
const OPEN_FILES_MAX: usize = 16_384;

/// The most files that are known: 32,768 of some 500 bytes are 16 MiB.
const KNOWN_FILES_MAX: usize = 32_768;

/// Some files that are read by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSettings {
    /// What this node's containers write.
    Containers(ContainersReceiver),
    /// Log files by pattern.
    Files(FilesReceiver),
}

/// What a receiver works with.
pub struct Parts {
    /// What is read. Of two that match a file the first reads it.
    pub sources: Vec<SourceSettings>,
    /// Where it is kept how far.
    pub positions: PositionsSettings,
    /// Where the bytes in flight are counted.
    pub budget: Budget,
    /// When to stop.
    pub drain: Drain,
    /// Where everything is counted.
    pub telemetry: Arc<Telemetry>,
    /// Where requests go.
    pub publisher: Arc<dyn Publish>,
    /// Who knows this node's pods. None: records have what paths say.
    pub pods: Option<Arc<dyn Pods>>,
    /// Who knows the namespaces that `namespace_selector` chooses. Without it such a source reads
    /// nothing.
    pub namespaces: Option<Arc<Namespaces>>,
}

/// A receiver that could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A pattern of names or lines can't be used.
    #[error("the pattern {pattern:?} can't be used: {why}")]
    Pattern {
        /// As it is in the settings.
        pattern: String,
        /// What is wrong.
        why: String,
    },
    /// The directory of positions isn't there, or not ours to write.
    #[error("the positions in {directory} (positions.directory) can't be kept: {source}")]
    Positions {
        /// The directory.
        directory: String,
        /// What the system said.
        source: io::Error,
    },
    /// Logs have nowhere to go.
    #[error("files are read and logs have nowhere to go: give the exporter a topic for logs")]
    Unconfigured,
    /// The budget holds no request.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to read files: it needs \
         {needed_bytes}; lower maxLineBytes, or raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// What there is.
        budget_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// The metrics are registered already.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// No thread could be started.
    #[error("cannot start the thread that reads files: {0}")]
    Thread(#[source] io::Error),
}

/// A receiver that runs.
#[derive(Debug)]
pub struct Files {
    thread: JoinHandle<bool>,
}

impl Files {
    /// Waits for its end, which is after the drain has begun: blocks. Whether all that was read is
    /// confirmed and on record.
    #[must_use]
    pub fn join(self) -> bool {
        self.thread.join().unwrap_or(false)
    }
}

/// Whether the patterns of names and lines can be used.
///
/// # Errors
/// The first that can't.
pub fn check(sources: &[SourceSettings]) -> Result<(), StartError> {
    sources.iter().try_for_each(|source| Source::compile(source).map(drop))
}

/// Starts to read. Blocks while another process uses the positions: for a minute at most, and not
/// once the drain has begun.
///
/// # Errors
/// When the settings can't be used, or the positions can't be read.
pub fn start(parts: Parts) -> Result<Files, StartError> {
    let Parts { sources, positions, budget, drain, telemetry, publisher, pods, namespaces } = parts;
    if !publisher.takes(Signal::Logs) {
        return Err(StartError::Unconfigured);
    }
    let sources = sources.iter().map(Source::compile).collect::<Result<Vec<_>, _>>()?;
    let longest = sources.iter().map(|one| one.form.max_record_bytes).max().unwrap_or(0);
    // A request twice (its copy is kept until it is confirmed), and the buffer.
    let buffer_bytes = Buffer::bytes_for(longest) as u64;
    let longest_written = sources.iter().map(|one| one.written_bytes).max().unwrap_or(0);
    let slack_bytes = 3 * longest_written;
    let needed_bytes = 2 * (REQUEST_BYTES + slack_bytes) as u64 + buffer_bytes;
    let small = || StartError::SmallBudget { budget_bytes: budget.limit_bytes(), needed_bytes };
    if budget.limit_bytes() < needed_bytes {
        return Err(small());
    }
    let reserved = budget.try_reserve(buffer_bytes).ok_or_else(small)?;
    let directory = positions.directory.display().to_string();
    let fault = |source| StartError::Positions { directory: directory.clone(), source };
    let mut positions =
        Positions::open(&positions.directory, OTHER_MAX, || drain.is_begun()).map_err(fault)?;
    let (recalled, resort) = positions.recall().map_err(fault)?;
    if let Some(resort) = resort {
        tracing::error!(directory, "{resort}");
    }
    let metrics = FileMetrics::register(&telemetry)?;
    let tail = Tail::new(tail_settings(&sources, open_files()), recalled);
    let run = move || {
        let way = Way { budget, telemetry, publisher };
        let outbox = Outbox::new(way, worker::waker(), slack_bytes);
        let buffer = (Buffer::new(longest), reserved);
        let sources = (sources, Finding::default());
        Worker::new(sources, tail, positions, outbox, metrics, buffer, Labels::new(pods))
            .choosing(namespaces)
            .run(&drain)
    };
    let thread = thread::Builder::new().name("files".into()).spawn(run);
    Ok(Files { thread: thread.map_err(StartError::Thread)? })
}

fn tail_settings(sources: &[Source], open_files: usize) -> TailSettings {
    let sources = sources
        .iter()
        .map(|one| TailSource { name: one.name.clone(), from_end: one.from_end })
        .collect();
    TailSettings { sources, open_files, known_files: KNOWN_FILES_MAX }
}

/// Half of what the process may open, the rest being for its connections.
fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2).unwrap_or(OPEN_FILES_MAX).clamp(16, OPEN_FILES_MAX)
}
