//! The commands: they read and check the settings first, then start everything, run until the
//! drain, and end in order.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millrace_config::{
    Admin as AdminSettings, Checked, CollectorMode, Config, ExporterNames, MAX_DOCUMENT_BYTES,
    Memory,
};
use millrace_observe::otlp::Export;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::memory::MemoryLimit;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_rules::Rules;
use millrace_source_prometheus::TargetStatus;

use crate::admin::AdminContext;
use crate::admin::page::{RecordPath, StatusPage};
use crate::admin::producers::ProducerMeter;
use crate::commands::output;
use crate::common::{Common, RunError, VERSION};
use crate::edge::sources;
use crate::process::Signals;
use crate::process::{allocator, export};
use crate::{admin, edge, gateway, process};

/// The exit code for unusable settings: the number of a usage error in sysexits.h.
pub(crate) const EXIT_SETTINGS: u8 = 64;

/// The exit code for a failure.
pub(crate) const EXIT_FAILED: u8 = 1;

/// The maximum number of threads for sockets: they only move bytes.
const MAX_IO_THREADS: usize = 2;

/// The time for sending the remaining own traces and logs at the end.
const EXPORT_END_MAX: Duration = Duration::from_secs(2);

/// The interval for reading the memory limit: two small files, and a resize is rare.
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) fn print_version() -> ExitCode {
    let tests_only = if failpoint::COMPILED_IN { ", failpoints" } else { "" };
    output::print_output(format_args!(
        "millrace-collector {VERSION} ({}{tests_only})",
        allocator::NAME
    ));
    ExitCode::SUCCESS
}

pub(crate) fn validate(path: &Path) -> ExitCode {
    match load_settings(path) {
        Ok(checked) => {
            let mode = match &checked.mode {
                CollectorMode::Edge { sources, exporter, .. } => {
                    let ExporterNames { mode, section, .. } = exporter.names();
                    format!("{mode}: {} to {section}", sources.names().join(", "))
                }
                CollectorMode::Gateway { .. } => "gateway: kafka to clickhouse".to_owned(),
            };
            output::print_output(format_args!("{}: ok ({mode})", path.display()));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

pub(crate) fn run(path: &Path) -> ExitCode {
    let checked = match load_settings(path) {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    let (export, own) = match checked.own_telemetry.as_ref().map(export::start_export).transpose() {
        Ok(started) => started.unzip(),
        Err(error) => {
            output::print_error(format_args!("{}: telemetry.otlp: {error}", path.display()));
            return ExitCode::from(EXIT_SETTINGS);
        }
    };
    process::start_log(own);
    process::abort_on_panic();
    let ended = run_mode(checked, export.as_ref());
    let code = match ended {
        Ok(()) => {
            tracing::info!("stopped; all accepted records are safe");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "the collector ends");
            ExitCode::from(if error.is_settings() { EXIT_SETTINGS } else { EXIT_FAILED })
        }
    };
    if let Some(export) = export {
        export.shutdown(EXPORT_END_MAX);
    }
    code
}

/// Reads and checks the settings, and reports all their errors.
pub(crate) fn load_settings(path: &Path) -> Result<Checked, ExitCode> {
    let complain = |problems: &[String]| {
        for problem in problems {
            output::print_error(format_args!("{}: {problem}", path.display()));
        }
        ExitCode::from(EXIT_SETTINGS)
    };
    let mut text = String::new();
    // One byte over the limit suffices to refuse the settings for their length.
    let read = File::open(path)
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(complain(&[format!("cannot be read: {error}")]));
    }
    let checked = Config::load(&text).map_err(|error| {
        complain(&error.problems().iter().map(ToString::to_string).collect::<Vec<_>>())
    })?;
    sources::check_sources(&checked.mode).map_err(|problem| complain(&[problem]))?;
    Ok(checked)
}

/// Builds the runtime and the shared parts, and runs the mode.
fn run_mode(checked: Checked, export: Option<&Export>) -> Result<(), RunError> {
    let Checked { admin, memory, shutdown, processing, mode, .. } = checked;
    let limit = memory_limit(&memory);
    let scrapes = mode.sources().is_some_and(|sources| sources.prometheus.is_some());
    allocator::tune_allocator(limit.limit_bytes, scrapes);
    let budget = Budget::new(limit.share_bytes(memory.budget_percent));
    let mut telemetry = Telemetry::new(budget.clone(), VERSION, allocator::NAME)?;
    if let Some(export) = export {
        telemetry = telemetry.with_export(export)?;
    }
    let telemetry = Arc::new(telemetry);
    let rules = Rules::load(&processing, &telemetry)?;
    let drain = Drain::new(Duration::from_secs(u64::from(shutdown.deadline_seconds)));
    let readiness = Readiness::default();
    let starting = readiness.add_part("process");
    let budget_percent = memory.budget_percent;
    let target_status = TargetStatus::default();
    let common = Common {
        budget,
        budget_percent,
        drain,
        readiness,
        starting,
        telemetry,
        target_status,
        rules,
        producers: ProducerMeter::new(),
        dead_letters: Arc::default(),
    };
    let cores = process::usable_cores();
    tracing::info!(
        version = VERSION,
        allocator = allocator::NAME,
        cores,
        memory_limit_bytes = limit.limit_bytes,
        memory_limit_source = ?limit.source,
        budget_bytes = common.budget.limit_bytes(),
        "starting"
    );
    let io_threads = usize::from(cores.get()).min(MAX_IO_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(io_threads)
        .thread_name("io")
        .enable_all()
        .build()?;
    runtime.spawn(follow_memory(memory, limit, common.budget.clone()));
    let announce = Duration::from_secs(u64::from(shutdown.announce_seconds));
    let result = runtime.block_on(serve_mode(admin, announce, mode, common, cores));
    // Remaining tasks are past their deadline.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

fn memory_limit(settings: &Memory) -> MemoryLimit {
    MemoryLimit::detect_limit(settings.limit_bytes.map(|limit| limit.get()))
}

/// Adjusts the budget to its share of the memory limit, which an in-place resize of the pod
/// changes. What is reserved at the start stays the same until the next start.
async fn follow_memory(settings: Memory, mut known: MemoryLimit, budget: Budget) {
    loop {
        tokio::time::sleep(MEMORY_INTERVAL).await;
        let limit = memory_limit(&settings);
        if limit == known {
            continue;
        }
        known = limit;
        budget.set_limit(limit.share_bytes(settings.budget_percent));
        tracing::info!(
            memory_limit_bytes = limit.limit_bytes,
            memory_limit_source = ?limit.source,
            budget_bytes = budget.limit_bytes(),
            "the memory limit changed"
        );
    }
}

/// Answers probes and signals, and runs the mode to its end.
async fn serve_mode(
    settings: AdminSettings,
    announce: Duration,
    mode: CollectorMode,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let signals = Signals::listen()?;
    let is_stop_requested = Arc::new(AtomicBool::new(false));
    tokio::spawn(signals.drain_on_signal(
        common.drain.clone(),
        announce,
        Arc::clone(&is_stop_requested),
    ));
    tokio::spawn(process::end_past_deadline(common.drain.clone()));
    let listener = admin::bind_listener(settings.address).await?;
    let address = listener.local_addr()?;
    let served = AdminContext {
        page: StatusPage::new(VERSION, RecordPath::from_mode(&mode)),
        readiness: common.readiness.clone(),
        telemetry: Arc::clone(&common.telemetry),
        drain: common.drain.clone(),
        target_status: common.target_status.clone(),
        rules: common.rules.clone(),
        producers: Arc::clone(&common.producers),
        dead_letters: Arc::clone(&common.dead_letters),
    };
    tokio::spawn(served.serve(listener));
    tracing::info!(%address, "serving probes and metrics");
    match mode {
        CollectorMode::Edge { sources, positions, exporter } => {
            edge::run(*sources, positions, exporter, common, cores).await
        }
        CollectorMode::Gateway { kafka, clickhouse } => {
            gateway::run(&kafka, &clickhouse, common, cores).await
        }
    }?;
    // A drain that no signal requested was begun by a part that can't continue.
    if is_stop_requested.load(Ordering::Acquire) { Ok(()) } else { Err(RunError::Failed) }
}
