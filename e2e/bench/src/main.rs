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
mod case;
mod collector;
mod dataset;
mod files;
mod once;
mod process;
mod report;
mod rules;
mod run;
mod say;
mod scrape;
mod sink;
mod stages;
mod world;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use args::Args;
use case::{Case, Side, Size};
use collector::Collector;
use report::results::Results;
use report::{Figures, Ratio};
use run::{Bench, Outcome};
use scrape::ScrapeCase;
use world::World;

/// What runs on one thread of the harness, without a collector: its words, and its lines.
type Alone = (Side, &'static str, fn(Size) -> Result<Vec<String>>);
const ALONE: &[Alone] = &[
    (Side::Stages, "stages, each by itself", stages::run),
    (Side::Lines, "bytes of log files to OTLP", stages::lines::run),
    (Side::Scrape(ScrapeCase::Parse), "targets' bodies to OTLP", scrape::parse::run),
];

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
    if let Some(job) = &args.produce {
        return once::produce(job);
    }
    if args.list {
        case::ALL.iter().for_each(|case| say::line(case.name));
        return Ok(());
    }
    if let Some(kept) = &args.redraw {
        return bill::redraw(kept, &args.out);
    }
    let began = Instant::now();
    fs::create_dir_all(&args.out).with_context(|| format!("no {}", args.out.display()))?;
    let path = args.out.join("results.jsonl");
    let mut results = Results::create(&path)?;
    let cases = case::select(&args.case)?;
    let (has_peer, size) = (args.peer()?.is_some(), args.size());
    for (side, what, run) in ALONE {
        if cases.iter().any(|case| case.side == *side) && !has_peer {
            say::progress(what);
            results.measure_machine()?;
            let lines = run(size)?;
            results.measure_machine()?;
            lines.iter().try_for_each(|line| results.line(line))?;
        }
    }
    side_by_side(args, &cases, &mut results)?;
    files::run(args, &cases, &mut results)?;
    if !has_peer {
        scrape::run(args, &cases, &mut results)?;
        once::run(args, &cases, &mut results)?;
    }
    if bill::is_meant(&cases) && !has_peer {
        bill::run(args, &cases, &mut results)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    say::progress(&format!("done in {seconds:.0} s; results in {}", path.display()));
    Ok(())
}

/// Runs each case by every collector in turns and writes down what they came to.
fn side_by_side(args: &Args, cases: &[Case], results: &mut Results) -> Result<()> {
    let mut entries = entries(args, cases)?;
    if entries.is_empty() {
        return Ok(());
    }
    run_all(args, &mut entries, results)?;
    if args.profile {
        return Ok(());
    }
    let figures: Vec<Figures> = entries
        .iter()
        .map(|entry| Figures::of(entry.case.name, &entry.collector, &entry.outcomes))
        .collect();
    figures.iter().try_for_each(|line| results.line(&line.json()?))?;
    for pair in figures.windows(2) {
        if let [ours, peer] = pair
            && ours.case == peer.case
        {
            results.line(&Ratio::of(ours, peer).json()?)?;
        }
    }
    Ok(())
}

/// Who runs what: each case by ours, and right after it by the peer if there is one.
fn entries(args: &Args, cases: &[Case]) -> Result<Vec<Entry>> {
    let peer = args.peer()?.map(Collector::peer);
    let mut entries = Vec::new();
    for case in cases {
        let is_alone = matches!(
            case.side,
            Side::Stages
                | Side::Lines
                | Side::Scrape(_)
                | Side::Files(_)
                | Side::Bill(_)
                | Side::Once(_)
        );
        // Rules that peers don't have are compared with the other cases of rules.
        let is_rules = matches!(case.side, Side::Rules(..));
        if is_alone || (peer.is_some() && !case.is_for_peers && !is_rules) {
            continue;
        }
        let entry = |collector| Entry { case: *case, collector, outcomes: Vec::new() };
        entries.push(entry(Collector::ours(case.allocator)?));
        entries.extend(peer.clone().filter(|_| case.is_for_peers).map(entry));
    }
    Ok(entries)
}

fn run_all(args: &Args, entries: &mut [Entry], results: &mut Results) -> Result<()> {
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
            results.measure_machine()?;
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
