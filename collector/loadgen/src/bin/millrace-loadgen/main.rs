//! `millrace-loadgen`: sends a seeded load, checks it in ClickHouse, or both. Exit code 0 only when
//! all requests were acknowledged and, when checked, verified; 1 otherwise.

mod args;
mod output;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use millrace_loadgen::{
    CheckStep, LoadPlan, SendProgress, SendState, check_load, generate_requests, send_load,
};

use args::{CheckArgs, CheckFlags, Cli, Command, PlanFlags, SendArgs, SendFlags};

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let command = Cli::parse().command;
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; returns `false` if records are missing.
fn run(command: Command) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    match command {
        Command::Send(SendArgs { state, send }) => {
            let acked = runtime.block_on(send_all(&send))?;
            if let Some(path) = state {
                acked.save(&path)?;
            }
            Ok(acked.is_complete())
        }
        Command::Check(CheckArgs { state, check }) => {
            runtime.block_on(check_all(&SendState::load(&state)?, &check))
        }
        Command::Run { send, check } => runtime.block_on(async {
            let acked = send_all(&send).await?;
            let is_clean = check_all(&acked, &check).await?;
            Ok(is_clean && acked.is_complete())
        }),
        Command::Generate(plan) => generate_all(&plan),
    }
}

async fn send_all(flags: &SendFlags) -> Result<SendState> {
    let plan = flags.plan.to_plan()?;
    let (target, options) = (flags.to_target()?, flags.send_options()?);
    let progress = Arc::new(SendProgress::default());
    output::print_start(&plan, &target);
    let began = Instant::now();
    let sending = send_load(&plan, &target, &options, &progress);
    tokio::pin!(sending);
    let (mut last, mut reported_at) = (0, Instant::now());
    let acked = loop {
        tokio::select! {
            ended = &mut sending => break ended?,
            _ = tokio::signal::ctrl_c() => progress.stop(),
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                output::print_progress(&plan, &progress, last, reported_at.elapsed());
                (last, reported_at) = (progress.acked_records(), Instant::now());
            }
        }
    };
    output::print_progress(&plan, &progress, last, reported_at.elapsed());
    output::print_summary(&acked, &progress, began.elapsed());
    Ok(acked)
}

async fn check_all(acked: &SendState, flags: &CheckFlags) -> Result<bool> {
    let began = Instant::now();
    let mut printed_at: Option<Instant> = None;
    let show = |step: CheckStep| {
        if printed_at.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL) {
            output::print_check_step(step);
            printed_at = Some(Instant::now());
        }
    };
    let report =
        check_load(acked, &flags.clickhouse_client()?, &flags.check_options(), show).await?;
    output::print_report(&report, began.elapsed());
    Ok(report.is_clean())
}

fn generate_all(flags: &PlanFlags) -> Result<bool> {
    let plan: LoadPlan = flags.to_plan()?;
    let began = Instant::now();
    let bytes = generate_requests(&plan, flags.compression)?;
    output::print_generated(&plan, bytes, began.elapsed());
    Ok(true)
}
