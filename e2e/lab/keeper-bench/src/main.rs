//! `keeper-bench`: load for ZooKeeper, ClickHouse Keeper and whatever else speaks their protocol
//! (docs/internals/keeper-bench.md). It judges speed, never correctness, and links no part of Millrace.

mod inserts;
mod null;
mod random;
mod report;
mod run;
mod say;
mod session;
mod settings;
mod shared;
mod source;
mod suite;
mod tally;
mod watches;
mod wire;
mod workload;

use std::fs;
use std::process::ExitCode;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::inserts::Inserts;
use crate::run::{Figures, Load, RunError};
use crate::settings::{Args, Command, NullServer, Replay, Run, SettingsError, Which};
use crate::source::replay::{Log, LogError};
use crate::workload::{Plan, PlanError};

/// Operations failed with errors that the workload doesn't ignore.
const EXIT_ERRORS: u8 = 2;

/// The program ends without figures.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot read {path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("{path}: {cause}")]
    Log { path: String, cause: LogError },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Suite(#[from] suite::SuiteError),
    #[error(transparent)]
    Inserts(#[from] inserts::InsertsError),
    #[error("process {0}, which started this one, has ended")]
    Orphan(u32),
    #[error("cannot listen: {0}")]
    Listen(std::io::Error),
}

fn main() -> ExitCode {
    let ended = match Args::parse().command {
        Command::Run(run) => bench(run),
        Command::Replay(replay) => again(&replay),
        Command::Inserts(inserts) => insert(&inserts),
        Command::NullServer(null) => serve(&null).map(|()| ExitCode::SUCCESS),
        Command::Suite(suite) => {
            suite::run(&suite).map(|()| ExitCode::SUCCESS).map_err(Failure::from)
        }
        Command::Workloads { name } => show(name),
    };
    ended.unwrap_or_else(|failure| {
        say::error(&failure.to_string());
        ExitCode::FAILURE
    })
}

fn bench(run: Run) -> Result<ExitCode, Failure> {
    end_with(run.parent)?;
    let mut workload = run.workload.read()?;
    run.overrides.apply(&mut workload);
    let plan = Plan::new(workload)?;
    let access = run.connect.access(&plan.terms)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(RunError::Thread)?;
    let figures = runtime.block_on(run::run(access, Load::generated(plan), run.keep))?;
    Ok(tell(&figures))
}

fn insert(inserts: &Inserts) -> Result<ExitCode, Failure> {
    end_with(inserts.parent)?;
    let outcome = inserts::run(inserts)?;
    outcome.lines.iter().for_each(|line| say::line(&line.to_string()));
    Ok(exit_code(outcome.failures))
}

/// Where another process started this one, it ends with that.
fn end_with(parent: Option<u32>) -> Result<(), Failure> {
    match parent.filter(|parent| !run::own::end_with(*parent)) {
        Some(parent) => Err(Failure::Orphan(parent)),
        None => Ok(()),
    }
}

fn again(replay: &Replay) -> Result<ExitCode, Failure> {
    let path = || replay.log.display().to_string();
    let text =
        fs::read_to_string(&replay.log).map_err(|cause| Failure::Read { path: path(), cause })?;
    let log =
        Log::read(&text, &replay.root).map_err(|cause| Failure::Log { path: path(), cause })?;
    drop(text);
    let terms = replay.terms(&log);
    let access = replay.connect.access(&terms)?;
    say::progress(&format!("{} requests of {} sessions", log.requests(), log.sessions.len()));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(RunError::Thread)?;
    let load = Load::recorded(log, terms, (!replay.at_once).then_some(replay.speed));
    let figures = runtime.block_on(run::run(access, load, replay.keep))?;
    Ok(tell(&figures))
}

fn tell(figures: &Figures) -> ExitCode {
    for line in report::lines(figures) {
        say::line(&line.to_string());
    }
    exit_code(report::failures(figures))
}

fn exit_code(failures: u64) -> ExitCode {
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_ERRORS),
    }
}

fn serve(settings: &NullServer) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(settings.threads.into())
        .enable_all()
        .build()
        .map_err(RunError::Thread)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&settings.listen).await.map_err(Failure::Listen)?;
        let address = listener.local_addr().map_err(Failure::Listen)?;
        say::line(&address.to_string());
        tokio::select! {
            served = null::serve(listener) => served.map_err(Failure::Listen),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

fn show(name: Option<String>) -> Result<ExitCode, Failure> {
    match name {
        None => workload::NAMES.iter().for_each(|name| say::line(name)),
        Some(name) => say::line(Which::ready(&name)?.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}
