//! `millrace-chaos`: a budget of faults, one JSON line each, the sums last. Exit code 0 only when
//! every promise held.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Parser;
use millrace_chaos::faults::{Budget, Fault, ON_DISKS, TABLE};
use millrace_chaos::lanes::{self, Plan};
use millrace_chaos::{disk, say};

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
    /// Worlds side by side, each with a broker and an engine of its own; the faults are shared out.
    #[arg(long, env = "LANES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    lanes: u8,
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
    if faults.iter().any(|fault| ON_DISKS.contains(&fault.name)) {
        disk::in_own_namespace(&ON_DISKS)?;
    }
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let plan = Plan {
        budget: args.budget,
        runs: args.runs,
        seed: args.seed.unwrap_or_else(clock),
        lanes: args.lanes.into(),
    };
    let sum = lanes::run(faults, &plan)?;
    say::line(&sum.line(plan.seed));
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
