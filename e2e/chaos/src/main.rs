//! `millrace-chaos`: a budget of faults, one JSON line each, the sums last. Exit code 0 only when
//! every promise held.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Parser;
use millrace_chaos::disk::{self, Disks};
use millrace_chaos::faults::{Budget, DISK_FULL, Fault, TABLE};
use millrace_chaos::report::Outcome;
use millrace_chaos::world::World;
use millrace_chaos::{run, say};

/// Faults against the shipped binaries under load.
#[derive(Debug, Parser)]
#[command(name = "millrace-chaos", version)]
struct Args {
    /// How much is done.
    #[arg(long, env = "BUDGET", default_value = "pr")]
    budget: Budget,
    /// One fault, or several parted by commas; all when absent.
    #[arg(long, env = "FAULT")]
    fault: Option<String>,
    /// How often each, instead of the budget's count.
    #[arg(long, env = "RUNS")]
    runs: Option<u32>,
    /// Everything left to chance follows from it; from the clock when absent.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// Print the faults and stop.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match chaos(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say::progress(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// `false`: a promise was broken.
fn chaos(args: &Args) -> Result<bool> {
    let faults = chosen(args.fault.as_deref())?;
    if args.list {
        for Fault { name, unit, runs: [pr, nightly, release], .. } in faults {
            say::line(&format!("{name:<28} {pr:>5} {nightly:>6} {release:>7}  {unit}"));
        }
        return Ok(true);
    }
    let fills_disks = faults.iter().any(|fault| fault.name == DISK_FULL);
    if fills_disks {
        disk::in_own_namespace()?;
    }
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed = args.seed.unwrap_or_else(clock);
    let began = Instant::now();
    say::progress(&format!("SEED={seed}; starting broker, engine, edge and gateways"));
    let mut world = World::start(fills_disks.then(Disks::mount).transpose()?)?;
    say::progress(&format!("all up after {:.1} s", began.elapsed().as_secs_f64()));
    let mut sum = Outcome::default();
    for fault in faults {
        let runs = args.runs.unwrap_or_else(|| fault.runs(args.budget));
        say::progress(&format!("{} x {runs}: {}", fault.name, fault.unit));
        let outcome = run::fault(&mut world, &fault, runs, seed);
        say::line(&outcome.line(seed));
        sum.add(&outcome);
    }
    sum.fault = "all".to_owned();
    sum.seconds = began.elapsed().as_secs_f64();
    say::line(&sum.line(seed));
    Ok(sum.is_kept())
}

/// The faults asked for, in the table's order.
fn chosen(names: Option<&str>) -> Result<Vec<Fault>> {
    let names: Vec<&str> = names.unwrap_or_default().split(',').map(str::trim).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let known = |name: &&&str| TABLE.iter().any(|fault| fault.name == **name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = TABLE.iter().map(|fault| fault.name).collect();
        bail!("there is no fault {unknown}; write one of {}", all.join(", "));
    }
    let wanted = |fault: &&Fault| names.is_empty() || names.contains(&fault.name);
    Ok(TABLE.iter().filter(wanted).copied().collect())
}
