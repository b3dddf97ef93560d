//! Reads the kernel's log record by record, converts it to OTLP logs, and publishes them.
//!
//! One task does all work, with one request in flight. [`millrace_lines`] parses records;
//! [`millrace_tail`] detects lost and repeated ones. The position is written only after the
//! publisher confirmed, so each record arrives at least once, and a kill repeats one request. While
//! the publisher refuses, nothing is read: records that the kernel overwrites are counted by their
//! numbers. The log is polled: an idle one costs five reads a second. Nothing is ever written to
//! it.

mod device;
mod metrics;
mod worker;

use std::io;
use std::path::Path;
use std::{env, fs};

use millrace_config::{KernelReceiver, Positions as PositionsSettings};
use millrace_lines::FileAttributes;
use millrace_pipeline::component::{
    ComponentError, RunningSource, Source, SourceContext, StartingSource, start_blocking,
};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::telemetry::TelemetryError;
use millrace_tail::{KernelLog, KernelPosition, KernelStart, load_kernel_position};
use millrace_wire::Signal;

pub use device::Log;
use metrics::KernelMetrics;
use millrace_pipeline::delivery_path::DeliveryPath;
use millrace_source_files::{OTHER_PROCESS_WAIT_MAX, Positions};
use worker::{KernelWorker, REQUEST_BYTES, RecordReader, SLACK_BYTES};

/// The position's directory below that of files' positions: each has its own lock.
const FOLDER: &str = "kernel";

/// The variable with the name of the pod's node.
const NODE: &str = "NODE_NAME";

/// The file with the machine's host name; in a pod it is the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The log of this machine's kernel, as a source.
pub struct KernelSource {
    /// The receiver's settings.
    pub settings: KernelReceiver,
    /// The settings of the stored position.
    pub positions: PositionsSettings,
}

impl Source for KernelSource {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn start(self: Box<Self>, context: SourceContext) -> StartingSource {
        Box::pin(async move {
            let drain = context.drain.clone();
            let log = Log::from_device(&self.settings.device)?;
            let start = move || start(log, &Machine::current(), &self.positions, context);
            let reading = start_blocking(&drain, start).await?;
            let run: RunningSource = Box::pin(async move {
                match reading {
                    Some(kernel) => kernel.run().await,
                    None => true,
                }
            });
            Ok(run)
        })
    }
}

/// The machine whose log it is; all records have its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// A node of a cluster, by its name.
    Node(String),
    /// Another machine, by its host name.
    Host(String),
}

impl Machine {
    /// Returns the machine whose kernel this is: in a pod the node, which the pod's own name
    /// doesn't identify.
    fn current() -> Self {
        match env::var(NODE).ok().filter(|name| !name.is_empty()) {
            Some(node) => Self::Node(node),
            None => Self::Host(fs::read_to_string(HOST_NAME).unwrap_or_default().trim().to_owned()),
        }
    }
}

/// The reason why the receiver can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device can't be opened.
    #[error("cannot open the kernel log {device} (receivers.kernel): {source}{advice}")]
    Open {
        /// The device as in the settings.
        device: String,
        /// The system's error.
        source: io::Error,
        /// The action to take, if known.
        advice: &'static str,
    },
    /// The boot's id can't be read.
    #[error("cannot read the boot ID {path}: {source}")]
    Boot {
        /// Its path.
        path: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The directory of positions is missing or not writable.
    #[error("cannot store the position in {directory} (positions.directory): {source}")]
    Positions {
        /// The directory.
        directory: String,
        /// The system's error.
        source: io::Error,
    },
    /// No exporter accepts logs.
    #[error(
        "the kernel log is read, but logs have no destination: set a topic for logs in the exporter"
    )]
    Unconfigured,
    /// The budget is too small for a request.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to read the kernel log, which \
         requires {needed_bytes} bytes; raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// The size of the budget.
        budget_bytes: u64,
        /// The minimum size.
        needed_bytes: u64,
    },
    /// The metrics are registered already.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

impl From<StartError> for ComponentError {
    fn from(error: StartError) -> Self {
        let message = format!("kernel: {error}");
        match error {
            StartError::SmallBudget { .. } => Self::invalid_settings(message),
            _ => Self::failed(message),
        }
    }
}

/// A receiver that is ready to read.
#[derive(Debug)]
pub struct Kernel(KernelWorker);

impl Kernel {
    /// Reads until the drain begins. Returns whether all records were confirmed and the position
    /// stored.
    pub async fn run(self) -> bool {
        self.0.run().await
    }
}

/// Opens the log and loads the position. Blocks while another process uses the position: for a
/// minute at most, and not after the drain has begun.
///
/// # Errors
/// No exporter accepts logs, the budget is too small, the log can't be opened, or the position
/// can't be read.
pub fn start(
    log: Log,
    machine: &Machine,
    positions: &PositionsSettings,
    context: SourceContext,
) -> Result<Kernel, StartError> {
    let SourceContext { budget, drain, telemetry, publisher } = context;
    if !publisher.accepts_signal(Signal::Logs) {
        return Err(StartError::Unconfigured);
    }
    // Two requests: a copy is held until the request is confirmed.
    let request_bytes = (REQUEST_BYTES + SLACK_BYTES) as u64;
    let needed_bytes = 2 * request_bytes;
    let small = || StartError::SmallBudget { budget_bytes: budget.limit_bytes(), needed_bytes };
    if budget.limit_bytes() < needed_bytes {
        return Err(small());
    }
    let reservation = budget.try_reserve(request_bytes).ok_or_else(small)?;
    let opened = log.open_log()?;
    let (positions, recalled) = load_position(&positions.directory, &drain)?;
    let metrics = KernelMetrics::register(&telemetry)?;
    let (state, begins) = KernelLog::new(log.boot_id(), recalled);
    match begins {
        KernelStart::Oldest => tracing::info!("reading the kernel log from its oldest record"),
        KernelStart::At(next) => {
            tracing::info!(next, "reading the kernel log from the stored position")
        }
        KernelStart::AnotherBoot => {
            tracing::info!("the machine has booted: reading the kernel log from its oldest record");
        }
    }
    let source = match machine {
        Machine::Node(name) => FileAttributes::new(&[("k8s.node.name", name)], &[]),
        Machine::Host(name) => FileAttributes::new(&[("host.name", name)], &[]),
    };
    let delivery = DeliveryPath { budget, telemetry, publisher };
    let taker = RecordReader::new(state, source, metrics);
    Ok(Kernel(KernelWorker::new((log, opened), taker, positions, (delivery, reservation), drain)))
}

/// Opens the directory, and loads the stored position.
fn load_position(
    directory: &Path,
    drain: &Drain,
) -> Result<(Positions, Option<KernelPosition>), StartError> {
    let directory = directory.join(FOLDER);
    let fault =
        |source| StartError::Positions { directory: directory.display().to_string(), source };
    let mut positions =
        Positions::open_directory(&directory, OTHER_PROCESS_WAIT_MAX, || drain.is_begun())
            .map_err(fault)?;
    let [present, previous] = positions.read_documents().map_err(fault)?;
    let (recalled, resort) = load_kernel_position(present.as_deref(), previous.as_deref());
    if let Some(resort) = resort {
        positions.mark_damaged();
        tracing::error!(directory = %directory.display(), "{resort}");
    }
    Ok((positions, recalled))
}
