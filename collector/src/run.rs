//! The commands: settings are read and checked first, then everything is started, run until the
//! drain, and ended in order.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millrace_config::{Admin as AdminSettings, Checked, Config, MAX_DOCUMENT_BYTES, Memory, Mode};
use millrace_observe::otlp::Export;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::memory::MemoryLimit;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_receivers::files;
use millrace_receivers::kernel;
use millrace_receivers::otlp::OtlpError;
use millrace_receivers::prometheus::{self, Board};

use crate::admin::Admin;
use crate::common::{Common, RunError, VERSION};
use crate::page::{Page, RecordPath};
use crate::process::Signals;
use crate::{admin, allocator, direct, edge, export, gateway, output, process, sources};

/// Settings that cannot be used, as sysexits.h numbers a wrong usage.
pub(crate) const EXIT_SETTINGS: u8 = 64;

/// Something failed.
pub(crate) const EXIT_FAILED: u8 = 1;

/// The most threads for sockets: they only move bytes.
const MAX_IO_THREADS: usize = 2;

/// What waits of own traces and logs gets this long to be sent at the end.
const EXPORT_END_MAX: Duration = Duration::from_secs(2);

/// How often the memory limit is read: two small files, and a resize is rare.
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);

/// `version`.
pub(crate) fn version() -> ExitCode {
    let tests_only = if failpoint::COMPILED_IN { ", failpoints" } else { "" };
    output::answer(format_args!("millrace-collector {VERSION} ({}{tests_only})", allocator::NAME));
    ExitCode::SUCCESS
}

/// `validate`.
pub(crate) fn validate(path: &Path) -> ExitCode {
    match load(path) {
        Ok(checked) => {
            let scraped = match &checked.mode {
                Mode::Edge { sources, .. } | Mode::Direct { sources, .. } => &sources.prometheus,
                Mode::Gateway { .. } => &None,
            };
            if let Some(Err(error)) = scraped.as_deref().map(prometheus::check_rules) {
                output::complaint(format_args!("{}: {error}", path.display()));
                return ExitCode::from(EXIT_SETTINGS);
            }
            let mode = match &checked.mode {
                Mode::Edge { sources, .. } => format!("edge: {} to kafka", sources.names()),
                Mode::Direct { sources, .. } => {
                    format!("direct: {} to clickhouse", sources.names())
                }
                Mode::Gateway { .. } => "gateway: kafka to clickhouse".to_owned(),
            };
            output::answer(format_args!("{}: ok ({mode})", path.display()));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// `run`.
pub(crate) fn run(path: &Path) -> ExitCode {
    let checked = match load(path) {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    let (export, own) = match checked.own.as_ref().map(export::start).transpose() {
        Ok(started) => started.unzip(),
        Err(error) => {
            output::complaint(format_args!("{}: telemetry.otlp: {error}", path.display()));
            return ExitCode::from(EXIT_SETTINGS);
        }
    };
    process::start_log(own);
    process::abort_on_panic();
    let ended = start(checked, export.as_ref());
    let code = match ended {
        Ok(()) => {
            tracing::info!("ended; everything taken is safe");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "ended");
            ExitCode::from(match error {
                RunError::SmallBudget { .. }
                | RunError::Otlp(OtlpError::SmallBudget { .. })
                | RunError::Files(
                    files::StartError::Pattern { .. } | files::StartError::SmallBudget { .. },
                )
                | RunError::Kernel(kernel::StartError::SmallBudget { .. })
                | RunError::Prometheus(
                    prometheus::StartError::SmallBudget { .. } | prometheus::StartError::Rule(_),
                )
                | RunError::Pods(_)
                | RunError::Share(_)
                | RunError::Instance(_) => EXIT_SETTINGS,
                _ => EXIT_FAILED,
            })
        }
    };
    if let Some(export) = export {
        export.end(EXPORT_END_MAX);
    }
    code
}

/// Reads and checks the settings, and reports all that is wrong with them.
pub(crate) fn load(path: &Path) -> Result<Checked, ExitCode> {
    let complain = |problems: &[String]| {
        for problem in problems {
            output::complaint(format_args!("{}: {problem}", path.display()));
        }
        ExitCode::from(EXIT_SETTINGS)
    };
    let mut text = String::new();
    // One byte over the limit is enough for the settings to be refused for their length.
    let read = File::open(path)
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(complain(&[format!("cannot be read: {error}")]));
    }
    let checked = Config::load(&text).map_err(|error| {
        complain(&error.problems().iter().map(ToString::to_string).collect::<Vec<_>>())
    })?;
    sources::check(&checked.mode).map_err(|error| complain(&[error.to_string()]))?;
    Ok(checked)
}

/// Builds the runtime and what all modes share, and runs the mode.
fn start(checked: Checked, export: Option<&Export>) -> Result<(), RunError> {
    let Checked { admin, memory, shutdown, mode, .. } = checked;
    let limit = memory_limit(&memory);
    let scrapes = match &mode {
        Mode::Edge { sources, .. } | Mode::Direct { sources, .. } => sources.prometheus.is_some(),
        Mode::Gateway { .. } => false,
    };
    allocator::fit(limit.limit_bytes, scrapes);
    let budget = Budget::new(limit.share_bytes(memory.budget_percent));
    let mut telemetry = Telemetry::new(budget.clone(), VERSION, allocator::NAME)?;
    if let Some(export) = export {
        telemetry = telemetry.exporting(export)?;
    }
    let telemetry = Arc::new(telemetry);
    let drain = Drain::new(Duration::from_secs(u64::from(shutdown.deadline_seconds)));
    let readiness = Readiness::default();
    let starting = readiness.part("process");
    let budget_percent = memory.budget_percent;
    let board = Board::default();
    let common = Common { budget, budget_percent, drain, readiness, starting, telemetry, board };
    let cores = process::cores();
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
    let result = runtime.block_on(serve(admin, announce, mode, common, cores));
    // What is left is past its deadline.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

fn memory_limit(settings: &Memory) -> MemoryLimit {
    MemoryLimit::find(settings.limit_bytes.map(|limit| limit.get()))
}

/// Keeps the budget at its share of the memory limit, which a resize of the pod in place changes.
/// What is reserved once, at the start, stays as it was until the next start.
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
            "the memory limit has changed"
        );
    }
}

/// Answers probes and signals, and runs the mode to its end.
async fn serve(
    settings: AdminSettings,
    announce: Duration,
    mode: Mode,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let signals = Signals::listen()?;
    let asked = Arc::new(AtomicBool::new(false));
    tokio::spawn(signals.watch(common.drain.clone(), announce, Arc::clone(&asked)));
    tokio::spawn(process::end_past_deadline(common.drain.clone()));
    let listener = admin::bind(settings.address).await?;
    let address = listener.local_addr()?;
    let served = Admin {
        page: Page::new(VERSION, RecordPath::of(&mode)),
        readiness: common.readiness.clone(),
        telemetry: Arc::clone(&common.telemetry),
        drain: common.drain.clone(),
        board: common.board.clone(),
    };
    tokio::spawn(served.serve(listener));
    tracing::info!(%address, "probes and metrics are served");
    match mode {
        Mode::Edge { sources, kafka } => edge::run(&sources, &kafka, common, cores).await,
        Mode::Direct { sources, clickhouse } => {
            direct::run(sources, &clickhouse, common, cores).await
        }
        Mode::Gateway { kafka, clickhouse } => {
            gateway::run(&kafka, &clickhouse, common, cores).await
        }
    }?;
    // A drain that nobody asked for was begun by a part that can't go on.
    if asked.load(Ordering::Acquire) { Ok(()) } else { Err(RunError::Failed) }
}
