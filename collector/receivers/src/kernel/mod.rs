//! The kernel's log: read record by record, made into OTLP logs, and handed on.
//!
//! One task does it all, and one request is on its way at a time. What a record says is told by
//! [`millrace_lines`], which are lost or known by [`millrace_tail`]. The position is written only
//! when the publisher has confirmed, so each record arrives at least once, and a kill repeats one
//! request. While the publisher refuses nothing is read: what the kernel overwrites meanwhile is
//! counted by its numbers. The log is looked at, not waited for: an idle one costs five reads a
//! second. Nothing is ever written to it.

mod device;
mod worker;

use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_config::Positions as PositionsSettings;
use millrace_lines::Source;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::kernel_metrics::KernelMetrics;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_tail::{Begins, KernelLog, KernelPosition, recall_kernel};
use millrace_wire::Signal;

use crate::files::{OTHER_MAX, Positions};
use crate::way::Way;
pub use device::Log;
use worker::{REQUEST_BYTES, SLACK_BYTES, Taker, Worker};

/// The position's directory below that of files' positions: each has a lock of its own.
const FOLDER: &str = "kernel";

/// What a receiver works with.
pub struct Parts {
    /// What is read.
    pub log: Log,
    /// Whose log it is.
    pub machine: Machine,
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
}

/// Whose log it is: what all records have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// A node of a cluster, by its name.
    Node(String),
    /// Another machine, by the name that it calls itself.
    Host(String),
}

/// A receiver that could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device can't be opened.
    #[error("the kernel's log {device} (receivers.kernel) can't be opened: {source}{advice}")]
    Open {
        /// As it is in the settings.
        device: String,
        /// What the system said.
        source: io::Error,
        /// What to do, if that is known.
        advice: &'static str,
    },
    /// The boot's id can't be read.
    #[error("the boot's id {path} can't be read: {source}")]
    Boot {
        /// Where it is.
        path: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The directory of positions isn't there, or not ours to write.
    #[error("the position in {directory} (positions.directory) can't be kept: {source}")]
    Positions {
        /// The directory.
        directory: String,
        /// What the system said.
        source: io::Error,
    },
    /// Logs have nowhere to go.
    #[error("the kernel's log is read and logs have nowhere to go: give the exporter a topic")]
    Unconfigured,
    /// The budget holds no request.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to read the kernel's log: it needs \
         {needed_bytes}; raise memory.limitBytes or the pod's memory limit"
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
}

/// A receiver that is ready to read.
#[derive(Debug)]
pub struct Kernel(Worker);

impl Kernel {
    /// Reads until the drain begins. Whether all that was read is confirmed and on record then.
    pub async fn run(self) -> bool {
        self.0.run().await
    }
}

/// Opens the log and finds where to read on. Blocks while another process uses the position: for a
/// minute at most, and not once the drain has begun.
///
/// # Errors
/// When the log can't be opened, or the position can't be read.
pub fn start(parts: Parts) -> Result<Kernel, StartError> {
    let Parts { log, machine, positions, budget, drain, telemetry, publisher } = parts;
    if !publisher.takes(Signal::Logs) {
        return Err(StartError::Unconfigured);
    }
    // A request twice: its copy is kept until it is confirmed.
    let kept_bytes = (REQUEST_BYTES + SLACK_BYTES) as u64;
    let needed_bytes = 2 * kept_bytes;
    let small = || StartError::SmallBudget { budget_bytes: budget.limit_bytes(), needed_bytes };
    if budget.limit_bytes() < needed_bytes {
        return Err(small());
    }
    let kept = budget.try_reserve(kept_bytes).ok_or_else(small)?;
    let opened = log.open()?;
    let (positions, recalled) = recall(&positions.directory, &drain)?;
    let metrics = KernelMetrics::register(&telemetry)?;
    let (state, begins) = KernelLog::new(log.boot_id(), recalled);
    match begins {
        Begins::Oldest => tracing::info!("the kernel's log is read from its oldest record"),
        Begins::At(next) => tracing::info!(next, "the kernel's log is read on"),
        Begins::AnotherBoot => {
            tracing::info!(
                "the machine has booted: the kernel's log is read from its oldest record"
            );
        }
    }
    let source = match &machine {
        Machine::Node(name) => Source::new(&[("k8s.node.name", name)], &[]),
        Machine::Host(name) => Source::new(&[("host.name", name)], &[]),
    };
    let way = Way { budget, telemetry, publisher };
    let taker = Taker::new(state, source, metrics);
    Ok(Kernel(Worker::new((log, opened), taker, positions, (way, kept), drain)))
}

/// The directory, and what is on record in it.
fn recall(
    directory: &Path,
    drain: &Drain,
) -> Result<(Positions, Option<KernelPosition>), StartError> {
    let directory = directory.join(FOLDER);
    let fault =
        |source| StartError::Positions { directory: directory.display().to_string(), source };
    let mut positions =
        Positions::open(&directory, OTHER_MAX, || drain.is_begun()).map_err(fault)?;
    let [present, previous] = positions.documents().map_err(fault)?;
    let (recalled, resort) = recall_kernel(present.as_deref(), previous.as_deref());
    if let Some(resort) = resort {
        positions.present_is_damaged();
        tracing::error!(directory = %directory.display(), "{resort}");
    }
    Ok((positions, recalled))
}
