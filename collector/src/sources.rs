//! Where an edge's records come from: starts each source that the settings give, and ends them with
//! the drain. It knows no exporter: sources hand over to whatever publishes.

use std::env;
use std::fs;
use std::sync::Arc;

use millrace_config::{
    ByteSize, KernelReceiver, LogSources, Mode, OtlpLimits, OtlpReceiver, Positions,
    PrometheusReceiver, Sources,
};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::readiness::{Part, Readiness};
use millrace_pipeline::telemetry::Telemetry;
use millrace_receivers::files::{self, SourceSettings, StartError};
use millrace_receivers::kernel::{self, Log, Machine};
use millrace_receivers::otlp::{self, Otlp};
use millrace_receivers::prometheus::{self, Board};

use crate::common::RunError;
use crate::{pods, share};

/// A mebibyte.
const MIB: u64 = 1 << 20;

/// The name that a machine calls itself; in a pod the pod's.
pub(crate) const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What sources work with.
pub(crate) struct Parts {
    pub(crate) budget: Budget,
    pub(crate) drain: Drain,
    pub(crate) ready: Ready,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) publisher: Arc<dyn Publish>,
    /// Threads for compression and checks of requests.
    pub(crate) threads: usize,
    /// Where it is said what is known of targets.
    pub(crate) board: Board,
}

/// What has to be well before clients come: registered before the process says that it has started.
pub(crate) struct Ready {
    listeners: Option<Part>,
    files: Option<Part>,
    kernel: Option<Part>,
    prometheus: Option<Part>,
}

impl Ready {
    /// Registers what these sources need.
    pub(crate) fn register(sources: &Sources, readiness: &Readiness) -> Self {
        let Sources { otlp, logs, prometheus } = sources;
        let logs = logs.as_deref();
        Self {
            listeners: otlp.is_some().then(|| readiness.part("listeners")),
            files: logs.filter(|logs| has_files(logs)).map(|_| readiness.part("files")),
            kernel: logs.and_then(|logs| logs.kernel.as_ref()).map(|_| readiness.part("kernel")),
            prometheus: prometheus.as_ref().map(|_| readiness.part("prometheus")),
        }
    }
}

/// Starts all sources, then takes records until the drain.
pub(crate) async fn take(sources: &Sources, parts: Parts) -> Result<(), RunError> {
    let Sources { otlp, logs, prometheus } = sources;
    let listening = match otlp {
        Some(receiver) => Some(listen(receiver, &parts).await?),
        None => None,
    };
    let serve = async {
        if let Some(listening) = listening {
            listening.serve().await;
        }
        Ok(())
    };
    let read = async {
        match logs.as_deref().filter(|logs| has_files(logs)) {
            Some(logs) => read(logs, &parts).await,
            None => Ok(true),
        }
    };
    let read_kernel = async {
        match logs.as_deref() {
            Some(LogSources { kernel: Some(kernel), positions, .. }) => {
                read_kernel(kernel, positions, &parts).await
            }
            _ => Ok(true),
        }
    };
    let scrape = async {
        match prometheus.as_deref() {
            Some(settings) => scrape(settings, &parts).await,
            None => Ok(true),
        }
    };
    let ((), files_are_on_record, kernel_is_on_record, scrapes_are_safe) =
        tokio::try_join!(serve, read, read_kernel, scrape)?;
    let is_safe = files_are_on_record && kernel_is_on_record && scrapes_are_safe;
    if is_safe { Ok(()) } else { Err(RunError::Deadline) }
}

fn has_files(logs: &LogSources) -> bool {
    logs.containers.is_some() || !logs.files.is_empty()
}

/// Binds the listeners for clients, and says where they are.
async fn listen(receiver: &OtlpReceiver, parts: &Parts) -> Result<Otlp, RunError> {
    let ready = parts.ready.listeners.as_ref();
    let parts = otlp::Parts {
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
        threads: parts.threads,
    };
    let otlp = Otlp::bind(receiver, parts).await?;
    if let Some(address) = otlp.grpc_address() {
        tracing::info!(%address, "otlp over grpc is listened for");
    }
    if let Some(address) = otlp.http_address() {
        tracing::info!(%address, "otlp over http is listened for");
    }
    if let Some(listeners) = ready {
        listeners.ready();
    }
    Ok(otlp)
}

/// Reads files until the drain. Whether all that was read is on record then.
async fn read(logs: &LogSources, parts: &Parts) -> Result<bool, RunError> {
    let needs = files::Parts {
        sources: files_of(logs),
        positions: logs.positions.clone(),
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
        pods: pods::watch(logs, &parts.telemetry)?,
        namespaces: pods::watch_namespaces(logs, &parts.telemetry)?,
    };
    let started = tokio::task::spawn_blocking(|| files::start(needs)).await;
    let reading = match started.unwrap_or_else(|ended| Err(StartError::Thread(ended.into()))) {
        // Nothing was read, and clients' requests are still to be answered.
        Err(_) if parts.drain.is_begun() => return Ok(true),
        started => started?,
    };
    if let Some(ready) = &parts.ready.files {
        ready.ready();
    }
    Ok(tokio::task::spawn_blocking(|| reading.join()).await.unwrap_or(false))
}

/// Reads the kernel's log until the drain. Whether all that was read is on record then.
async fn read_kernel(
    settings: &KernelReceiver,
    positions: &Positions,
    parts: &Parts,
) -> Result<bool, RunError> {
    let needs = kernel::Parts {
        log: Log::of(&settings.device)?,
        machine: machine(),
        positions: positions.clone(),
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
    };
    let started = tokio::task::spawn_blocking(|| kernel::start(needs)).await;
    let reading = match started.map_err(|ended| RunError::System(ended.into()))? {
        // Nothing was read, and clients' requests are still to be answered.
        Err(_) if parts.drain.is_begun() => return Ok(true),
        started => started?,
    };
    if let Some(ready) = &parts.ready.kernel {
        ready.ready();
    }
    Ok(reading.run().await)
}

/// Scrapes targets until the drain. Whether all that was taken is confirmed then.
async fn scrape(settings: &PrometheusReceiver, parts: &Parts) -> Result<bool, RunError> {
    let scraping = prometheus::start(prometheus::Parts {
        settings: settings.clone(),
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
        board: parts.board.clone(),
        share: share::watch(settings, &parts.telemetry)?,
        hosts: prometheus::HostNames::of_system(),
    })?;
    if let Some(ready) = &parts.ready.prometheus {
        ready.ready();
    }
    Ok(scraping.run().await)
}

/// Whose kernel it is: in a pod the node's, which the pod's own name says nothing of.
fn machine() -> Machine {
    match env::var(pods::NODE).ok().filter(|name| !name.is_empty()) {
        Some(node) => Machine::Node(node),
        None => Machine::Host(fs::read_to_string(HOST_NAME).unwrap_or_default().trim().to_owned()),
    }
}

/// What only starting would show of settings: whether patterns can be used.
pub(crate) fn check(mode: &Mode) -> Result<(), files::StartError> {
    match mode {
        Mode::Edge { sources, .. } | Mode::Direct { sources, .. } => {
            sources.logs.as_deref().map_or(Ok(()), |logs| files::check(&files_of(logs)))
        }
        Mode::Gateway { .. } => Ok(()),
    }
}

fn files_of(logs: &LogSources) -> Vec<SourceSettings> {
    let LogSources { containers, files, kernel: _, positions: _ } = logs;
    let containers = containers.iter().cloned().map(SourceSettings::Containers);
    containers.chain(files.iter().cloned().map(SourceSettings::Files)).collect()
}

/// Whether the budget holds the largest request that the limits allow, `copies` times over; what to
/// write if it doesn't.
pub(crate) fn fits(
    budget: &Budget,
    percent: u8,
    limits: &OtlpLimits,
    copies: u64,
) -> Result<(), RunError> {
    let needed_bytes = limits.longest_bytes() * copies;
    let budget_bytes = budget.limit_bytes();
    if needed_bytes <= budget_bytes {
        return Ok(());
    }
    let largest = longest_that_fits(budget_bytes, copies);
    let fields = [
        ("grpcMessageBytes", limits.grpc_message_bytes),
        ("httpBodyBytes", limits.http_body_bytes),
    ];
    let fields = fields.into_iter().filter(|(_, bytes)| *bytes > largest);
    Err(RunError::SmallBudget {
        budget_bytes,
        needed_bytes,
        copies,
        limit: limit_that_fits(needed_bytes, percent),
        largest,
        fields: fields.map(|(name, _)| name).collect::<Vec<_>>().join(" and "),
    })
}

/// The longest request that a budget holds so many times over, in whole mebibytes if it has any.
pub(crate) fn longest_that_fits(budget_bytes: u64, copies: u64) -> ByteSize {
    let bytes = budget_bytes / copies;
    ByteSize::bytes(if bytes < MIB { bytes } else { bytes / MIB * MIB })
}

/// The least memory limit, in whole mebibytes, of which `percent` are so many bytes.
pub(crate) fn limit_that_fits(needed_bytes: u64, percent: u8) -> ByteSize {
    // The share is taken of whole hundreds of bytes.
    let limit_bytes = needed_bytes.div_ceil(u64::from(percent).max(1)) * 100;
    ByteSize::mib(limit_bytes.div_ceil(MIB))
}
