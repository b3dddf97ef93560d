//! `millrace-keeper-faults`: strikes against an ensemble of three ZooKeepers, one JSON line each, the
//! sum last. Exit code 0 only when every promise held, for certain.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use millrace_keeper_faults::network::Network;
use millrace_keeper_faults::strikes::{Strike, Tools};
use millrace_keeper_faults::{round, say};
use millrace_stack::disk::Disk;
use millrace_stack::namespaces::{self, Own};
use millrace_stack::zookeeper::{self, Ensemble, EnsembleOptions, Size, Version};
use serde_json::json;

/// The servers' tick. Sessions of 2 s are 8 of them; a follower may be 5 behind.
const TICK: Duration = Duration::from_millis(250);
/// Room on a server's disk for the logs of a run: 64 MiB for each that a leader begins, sparse.
const DISK_BYTES: u64 = 1 << 30;

/// Faults against a real ZooKeeper ensemble, judged by what its clients saw.
#[derive(Debug, Parser)]
#[command(name = "millrace-keeper-faults", version)]
struct Args {
    /// One strike, or several parted by commas; all when absent.
    #[arg(long, env = "STRIKE", value_delimiter = ',')]
    strike: Vec<Strike>,
    /// How often each.
    #[arg(long, env = "RUNS", default_value_t = 1)]
    runs: u32,
    /// Every choice follows from it, but not the timing; from the clock when absent.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// ZooKeeper 3.8 instead of 3.9.
    #[arg(long)]
    old: bool,
    /// Print the strikes and stop.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match strikes(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say::progress(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// `false`: a promise was broken, or stays undecided.
fn strikes(args: &Args) -> Result<bool> {
    if args.list {
        let names = Strike::value_variants().iter().filter_map(Strike::to_possible_value);
        names.for_each(|value| say::line(value.get_name()));
        return Ok(true);
    }
    let chosen =
        if args.strike.is_empty() { Strike::value_variants() } else { args.strike.as_slice() };
    let version = if args.old { Version::V3_8 } else { Version::V3_9 };
    zookeeper::install(version)?;
    let needs = |strike| namespaces::is_root() && chosen.contains(&strike);
    let (on_disks, on_hosts) = (needs(Strike::DiskFull), needs(Strike::Partition));
    if on_disks || on_hosts {
        namespaces::enter(Own::MountsAndNetwork)
            .context("unshare (util-linux) can't be started")?;
    }
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed = args.seed.unwrap_or_else(now);
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let mut tools = Tools::default();
    if on_disks {
        let disk = |nth: u8| Disk::mount(folder.path().join(format!("disk-{nth}")), DISK_BYTES);
        tools.disks = (0..3).map(disk).collect::<Result<_, _>>()?;
    }
    if on_disks || on_hosts {
        // The namespace has no other: not even loopback is up.
        tools.network = Some(Network::new(3)?);
    }
    let mut options = EnsembleOptions {
        size: Size::Three,
        version,
        tick: TICK,
        hosts: tools.network.as_ref().map(Network::hosts).unwrap_or_default(),
        data_dirs: tools.disks.iter().map(|disk| disk.path().to_owned()).collect(),
        ..EnsembleOptions::default()
    };
    if chosen.contains(&Strike::ClockStep) {
        tools.clock = clock(folder.path(), &mut options)?;
    }
    say::progress(&format!("starting three ZooKeepers {}", options.version.number()));
    let ensemble = Ensemble::start(&options)?;
    // One thread: what a connection delivers is recorded in order.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(rounds(chosen, args.runs, seed, ensemble, tools))
}

async fn rounds(
    chosen: &[Strike],
    runs: u32,
    seed: u64,
    mut ensemble: Ensemble,
    mut tools: Tools,
) -> Result<bool> {
    let began = Instant::now();
    let (mut done, mut kept, mut skipped, mut operations) = (0, 0, Vec::new(), 0);
    for run in 1..=runs {
        for strike in chosen {
            let name = strike.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            if let Some(lacks) = strike.lacks(&tools) {
                say::progress(&format!("{name} is left out: {lacks}"));
                skipped.push(name);
                continue;
            }
            let seconds = began.elapsed().as_secs();
            say::progress(&format!("[{seconds} s] {name}, {run} of {runs}"));
            let name = format!("{name}-{run}");
            let outcome;
            (outcome, ensemble, tools) = round::run(*strike, &name, seed, ensemble, tools)
                .await
                .with_context(|| format!("{name} of SEED={seed}"))?;
            say::line(&outcome.line.to_string());
            done += 1;
            kept += u32::from(outcome.is_kept);
            operations += outcome.history.operations.len();
        }
    }
    let line = json!({
        "strikes": done,
        "kept": kept,
        "skipped": skipped,
        "operations": operations,
        "seed": seed,
        "seconds": began.elapsed().as_secs(),
    });
    say::line(&line.to_string());
    Ok(done == kept && done > 0)
}

/// The library by which the servers' clocks are moved, if it is built, and the file that moves them.
fn clock(folder: &std::path::Path, options: &mut EnsembleOptions) -> Result<Option<PathBuf>> {
    let library = std::env::current_exe()?.with_file_name("libmillrace_clock.so");
    if !library.exists() {
        return Ok(None);
    }
    let file = folder.join("clock");
    std::fs::write(&file, 0_i64.to_ne_bytes())?;
    for (name, value) in [("LD_PRELOAD", &library), ("MILLRACE_CLOCK", &file)] {
        options.variables.push((name.to_owned(), value.to_string_lossy().into_owned()));
    }
    Ok(Some(file))
}
