//! `millrace-loadgen`: sends a seeded load, checks it in ClickHouse, or both. Exit code 0 only when
//! everything asked for was acknowledged and, when checked, verified; 1 otherwise.

mod args;
mod say;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use millrace_loadgen::{Acked, CheckStep, Plan, Progress, check, generate, send};

use args::{CheckArgs, CheckFlags, Cli, Command, PlanFlags, SendArgs, SendFlags};

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let command = Cli::parse().command;
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// `false`: something is missing.
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
            Ok(acked.is_whole())
        }
        Command::Check(CheckArgs { state, check }) => {
            runtime.block_on(check_all(&Acked::load(&state)?, &check))
        }
        Command::Run { send, check } => runtime.block_on(async {
            let acked = send_all(&send).await?;
            let is_clean = check_all(&acked, &check).await?;
            Ok(is_clean && acked.is_whole())
        }),
        Command::Generate(plan) => generate_all(&plan),
    }
}

async fn send_all(flags: &SendFlags) -> Result<Acked> {
    let plan = flags.plan.plan()?;
    let (target, options) = (flags.target()?, flags.options()?);
    let progress = Arc::new(Progress::default());
    say::sending(&plan, &target);
    let began = Instant::now();
    let sending = send(&plan, &target, &options, &progress);
    tokio::pin!(sending);
    let (mut last, mut told) = (0, Instant::now());
    let acked = loop {
        tokio::select! {
            ended = &mut sending => break ended?,
            _ = tokio::signal::ctrl_c() => progress.stop(),
            () = tokio::time::sleep(TELL_EVERY) => {
                say::progress(&plan, &progress, last, told.elapsed());
                (last, told) = (progress.acked_records(), Instant::now());
            }
        }
    };
    say::progress(&plan, &progress, last, told.elapsed());
    say::sent(&acked, &progress, began.elapsed());
    Ok(acked)
}

async fn check_all(acked: &Acked, flags: &CheckFlags) -> Result<bool> {
    let began = Instant::now();
    let mut told: Option<Instant> = None;
    let show = |step: CheckStep| {
        if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            say::checking(step);
            told = Some(Instant::now());
        }
    };
    let report = check(acked, &flags.client()?, &flags.options(), show).await?;
    say::report(&report, began.elapsed());
    Ok(report.is_clean())
}

fn generate_all(flags: &PlanFlags) -> Result<bool> {
    let plan: Plan = flags.plan()?;
    let began = Instant::now();
    let bytes = generate(&plan, flags.compression)?;
    say::generated(&plan, bytes, began.elapsed());
    Ok(true)
}
