//! Starts each source of an edge's records that the settings contain, and ends them with the drain.
//! It knows no exporter: sources hand records to a publisher.

use std::env;
use std::fs;
use std::sync::Arc;

use millrace_config::{
    CollectorMode, KernelReceiver, LogSources, OtlpReceiver, Positions, PrometheusReceiver, Sources,
};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::pods::PodLookup;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_files::{SourceSettings, StartError};
use millrace_source_kernel::{Log, Machine};
use millrace_source_otlp::Otlp;
use millrace_source_prometheus::TargetStatus;

use crate::common::RunError;
use crate::{pods, share};

/// The file with the machine's host name; in a pod it is the pod's name.
pub(crate) const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The parts that sources use.
pub(crate) struct SourceContext {
    pub(crate) budget: Budget,
    pub(crate) drain: Drain,
    pub(crate) ready: Ready,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) publisher: Arc<dyn Publish>,
    /// Threads for compression and checks of requests.
    pub(crate) threads: usize,
    /// The status of targets.
    pub(crate) target_status: TargetStatus,
    /// The pods of log files.
    pub(crate) pods: Option<Arc<dyn PodLookup>>,
}

/// What must be ready before clients connect: registered before the process reports that it has
/// started.
pub(crate) struct Ready {
    listeners: Option<ReadinessPart>,
    files: Option<ReadinessPart>,
    kernel: Option<ReadinessPart>,
    prometheus: Option<ReadinessPart>,
}

impl Ready {
    /// Registers what these sources need.
    pub(crate) fn register(sources: &Sources, readiness: &Readiness) -> Self {
        let Sources { otlp, logs, prometheus } = sources;
        let logs = logs.as_deref();
        Self {
            listeners: otlp.is_some().then(|| readiness.add_part("listeners")),
            files: logs.filter(|logs| has_files(logs)).map(|_| readiness.add_part("files")),
            kernel: logs
                .and_then(|logs| logs.kernel.as_ref())
                .map(|_| readiness.add_part("kernel")),
            prometheus: prometheus.as_ref().map(|_| readiness.add_part("prometheus")),
        }
    }
}

/// Starts all sources, then accepts records until the drain.
pub(crate) async fn run_sources(sources: &Sources, parts: SourceContext) -> Result<(), RunError> {
    let Sources { otlp, logs, prometheus } = sources;
    let listening = match otlp {
        Some(receiver) => Some(bind_otlp(receiver, &parts).await?),
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
            Some(logs) => read_files(logs, &parts).await,
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
            Some(settings) => scrape_targets(settings, &parts).await,
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

/// Binds the listeners for clients, and logs their addresses.
async fn bind_otlp(receiver: &OtlpReceiver, parts: &SourceContext) -> Result<Otlp, RunError> {
    let ready = parts.ready.listeners.as_ref();
    let parts = millrace_source_otlp::OtlpContext {
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
        threads: parts.threads,
    };
    let otlp = Otlp::bind(receiver, parts).await?;
    if let Some(address) = otlp.grpc_address() {
        tracing::info!(%address, "listening for OTLP over gRPC");
    }
    if let Some(address) = otlp.http_address() {
        tracing::info!(%address, "listening for OTLP over HTTP");
    }
    if let Some(listeners) = ready {
        listeners.set_ready();
    }
    Ok(otlp)
}

/// Reads files until the drain. Returns whether the positions of everything read are recorded then.
async fn read_files(logs: &LogSources, parts: &SourceContext) -> Result<bool, RunError> {
    let needs = millrace_source_files::FilesContext {
        sources: files_of(logs),
        positions: logs.positions.clone(),
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
        pods: parts.pods.clone(),
        namespaces: pods::watch_namespaces(logs, &parts.telemetry)?,
    };
    let started = tokio::task::spawn_blocking(|| millrace_source_files::start(needs)).await;
    let reading = match started.unwrap_or_else(|ended| Err(StartError::Thread(ended.into()))) {
        // Nothing was read, and clients' requests still need answers.
        Err(_) if parts.drain.is_begun() => return Ok(true),
        started => started?,
    };
    if let Some(ready) = &parts.ready.files {
        ready.set_ready();
    }
    Ok(tokio::task::spawn_blocking(|| reading.join()).await.unwrap_or(false))
}

/// Reads the kernel's log until the drain. Returns whether the position of everything read is
/// recorded then.
async fn read_kernel(
    settings: &KernelReceiver,
    positions: &Positions,
    parts: &SourceContext,
) -> Result<bool, RunError> {
    let needs = millrace_source_kernel::KernelContext {
        log: Log::from_device(&settings.device)?,
        machine: machine_name(),
        positions: positions.clone(),
        budget: parts.budget.clone(),
        drain: parts.drain.clone(),
        telemetry: Arc::clone(&parts.telemetry),
        publisher: Arc::clone(&parts.publisher),
    };
    let started = tokio::task::spawn_blocking(|| millrace_source_kernel::start(needs)).await;
    let reading = match started.map_err(|ended| RunError::System(ended.into()))? {
        // Nothing was read, and clients' requests still need answers.
        Err(_) if parts.drain.is_begun() => return Ok(true),
        started => started?,
    };
    if let Some(ready) = &parts.ready.kernel {
        ready.set_ready();
    }
    Ok(reading.run().await)
}

/// Scrapes targets until the drain. Returns whether all samples are confirmed then.
async fn scrape_targets(
    settings: &PrometheusReceiver,
    parts: &SourceContext,
) -> Result<bool, RunError> {
    let scraping =
        millrace_source_prometheus::start(millrace_source_prometheus::PrometheusContext {
            settings: settings.clone(),
            budget: parts.budget.clone(),
            drain: parts.drain.clone(),
            telemetry: Arc::clone(&parts.telemetry),
            publisher: Arc::clone(&parts.publisher),
            target_status: parts.target_status.clone(),
            share: share::watch_share(settings, &parts.telemetry)?,
            hosts: millrace_source_prometheus::HostNames::of_system(),
        })?;
    if let Some(ready) = &parts.ready.prometheus {
        ready.set_ready();
    }
    Ok(scraping.run().await)
}

/// Returns the machine whose kernel this is: in a pod the node, which the pod's own name doesn't
/// identify.
fn machine_name() -> Machine {
    match env::var(pods::NODE).ok().filter(|name| !name.is_empty()) {
        Some(node) => Machine::Node(node),
        None => Machine::Host(fs::read_to_string(HOST_NAME).unwrap_or_default().trim().to_owned()),
    }
}

/// Checks whether patterns can be used, which otherwise only starting would show.
pub(crate) fn check(mode: &CollectorMode) -> Result<(), millrace_source_files::StartError> {
    match mode {
        CollectorMode::Edge { sources, .. } | CollectorMode::Direct { sources, .. } => sources
            .logs
            .as_deref()
            .map_or(Ok(()), |logs| millrace_source_files::check_sources(&files_of(logs))),
        CollectorMode::Gateway { .. } => Ok(()),
    }
}

fn files_of(logs: &LogSources) -> Vec<SourceSettings> {
    let LogSources { containers, files, kernel: _, positions: _ } = logs;
    let containers = containers.iter().cloned().map(SourceSettings::Containers);
    containers.chain(files.iter().cloned().map(SourceSettings::Files)).collect()
}
