//! `millrace-bench`: what the collector costs, measured so that anyone can repeat it.
//!
//! A real broker is filled once per data set; each run drains it, or fills another topic, with a
//! collector as a process of its own, whose CPU time and memory alone count. Runs are interleaved:
//! every case once, then every case again, so that a slow minute of the machine hits all of them.
//! Compare figures of one invocation only. Exit code 0 when every case was measured; 1 otherwise.
//!
//! Not for machines whose data matters: it stops what it starts, and nothing else.

mod args;
mod bill;
mod broker;
mod case;
mod collector;
mod dataset;
mod files;
mod fill;
mod flame;
mod lines;
mod peer;
mod process;
mod profile;
mod report;
mod run;
mod say;
mod scrape;
mod sink;
mod stages;
mod world;

use std::fs::{self, File};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use args::Args;
use case::{Case, Side};
use collector::Collector;
use report::{Figures, Ratio};
use run::{Bench, Outcome};
use world::World;

/// A case by one collector, and what its runs came to.
struct Entry {
    case: Case,
    collector: Collector,
    outcomes: Vec<Outcome>,
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<()> {
    if args.list {
        case::ALL.iter().for_each(|case| say::line(case.name));
        return Ok(());
    }
    let began = Instant::now();
    fs::create_dir_all(&args.out).with_context(|| format!("no {}", args.out.display()))?;
    let path = args.out.join("results.jsonl");
    let mut results = File::create(&path).with_context(|| format!("no {}", path.display()))?;
    let mut tell = |line: &str| -> Result<()> {
        say::line(line);
        writeln!(results, "{line}").context("cannot write the results")
    };
    let cases = case::select(&args.case)?;
    if cases.iter().any(|case| case.side == Side::Stages) && args.peer()?.is_none() {
        say::progress("stages, each by itself");
        stages::run(args.size())?.iter().try_for_each(|line| tell(line))?;
    }
    if cases.iter().any(|case| case.side == Side::Lines) && args.peer()?.is_none() {
        say::progress("bytes of log files to OTLP");
        lines::run(args.size())?.iter().try_for_each(|line| tell(line))?;
    }
    let mut entries = entries(args, &cases)?;
    if !entries.is_empty() {
        run_all(args, &mut entries)?;
    }
    files::run(args, &cases, &mut tell)?;
    if args.peer()?.is_none() {
        scrape::run(args, &cases, &mut tell)?;
    }
    if bill::is_meant(&cases) && args.peer()?.is_none() {
        bill::run(args, &cases, &mut tell)?;
    }
    if !args.profile {
        let figures: Vec<Figures> = entries
            .iter()
            .map(|entry| Figures::of(entry.case.name, &entry.collector, &entry.outcomes))
            .collect();
        for line in &figures {
            tell(&line.json()?)?;
        }
        for pair in figures.windows(2) {
            if let [ours, peer] = pair
                && ours.case == peer.case
            {
                tell(&Ratio::of(ours, peer).json()?)?;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    say::progress(&format!("done in {seconds:.0} s; results in {}", path.display()));
    Ok(())
}

/// Who runs what: each case by ours, and right after it by the peer if there is one.
fn entries(args: &Args, cases: &[Case]) -> Result<Vec<Entry>> {
    let peer = args.peer()?.map(Collector::peer);
    let mut entries = Vec::new();
    for case in cases {
        let is_alone = matches!(
            case.side,
            Side::Stages | Side::Lines | Side::Scrape(_) | Side::Files(_) | Side::Bill(_)
        );
        if is_alone || (peer.is_some() && !case.is_for_peers) {
            continue;
        }
        let entry = |collector| Entry { case: *case, collector, outcomes: Vec::new() };
        entries.push(entry(Collector::ours(case.allocator)?));
        entries.extend(peer.clone().map(entry));
    }
    Ok(entries)
}

fn run_all(args: &Args, entries: &mut [Entry]) -> Result<()> {
    // Collectors take absolute paths only.
    let folder = std::path::absolute(args.out.join("run")).context("no working folder")?;
    let mut world = World::start(&folder)?;
    let runs = args.runs();
    for round in 1..=runs {
        for entry in entries.iter_mut() {
            let Entry { case, collector, outcomes } = entry;
            let drawing = args.out.join(format!("{}-{}.svg", case.name, collector.name));
            let mut bench = Bench {
                world: &mut world,
                collector,
                case,
                size: args.size(),
                profile: args.profile.then_some(drawing.as_path()),
            };
            let outcome = bench
                .run()
                .with_context(|| format!("{} by {}, run {round}", case.name, collector.name))?;
            say::progress(&format!(
                "{round}/{runs} {} {}: {}",
                case.name,
                collector.name,
                report::brief(&outcome)
            ));
            outcomes.push(outcome);
        }
    }
    Ok(())
}
