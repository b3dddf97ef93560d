//! What exactly once would cost log files: records and positions in Kafka's transactions beside
//! what is done today, and rows that carry their file and offset beside rows without.
//!
//! Messages are those of the receiver of log files: OTLP requests of 100 pods' container lines. A
//! program of its own sends them (this one, started again), so that its CPU time is told apart; the
//! harness reads them as a gateway does, committed ones alone. Runs are interleaved. One broker:
//! what transactions cost between replicas isn't here.

mod job;
mod latency;
mod producer;
mod rows;

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::args::Args;
use crate::case::{Case, Side, Size};
use crate::process::{Subject, usage};
use crate::report::median;
use crate::report::results::Results;
use crate::say;
use crate::world::World;

use job::{Job, Load, Made};
use latency::Latencies;

pub(crate) use producer::run as produce;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnceCase {
    /// Positions in a transaction with the records.
    Transactions,
    /// Rows that carry their file and offset.
    Rows,
}

/// Lines a second of a busy node, and of many quiet ones together.
const LINES_PER_SECOND: u64 = 10_000;
/// Nodes that share a broker.
const NODES: u32 = 50;
/// A producer starts, sends for a while and ends.
const RUN_LIMIT: Duration = Duration::from_secs(90);

/// A way of sending.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    load: Load,
    producers: u32,
    request_millis: u64,
    commit_millis: Option<u64>,
}

const fn steady(name: &'static str, request_millis: u64, commit_millis: Option<u64>) -> Way {
    Way { name, load: Load::Steady, producers: 1, request_millis, commit_millis }
}

const fn full(name: &'static str, commit_millis: Option<u64>) -> Way {
    Way { name, load: Load::Full, producers: 1, request_millis: 0, commit_millis }
}

const fn nodes(name: &'static str, commit_millis: Option<u64>) -> Way {
    Way { name, load: Load::Steady, producers: NODES, request_millis: 200, commit_millis }
}

/// Each beside what it is compared with. Requests are cut every 200 ms under a steady load, and
/// at each commit.
const WAYS: &[Way] = &[
    full("full, today", None),
    full("full, commits each 100 ms", Some(100)),
    full("full, commits each 250 ms", Some(250)),
    full("full, commits each 1 s", Some(1_000)),
    steady("steady, today", 200, None),
    steady("steady, commits each 1 s", 200, Some(1_000)),
    steady("steady, requests each 250 ms", 250, None),
    steady("steady, commits each 250 ms", 250, Some(250)),
    steady("steady, requests each 100 ms", 100, None),
    steady("steady, commits each 100 ms", 100, Some(100)),
    nodes("50 nodes, today", None),
    nodes("50 nodes, commits each 1 s", Some(1_000)),
];

/// What one run came to.
#[derive(Debug)]
struct Outcome {
    made: Made,
    broker_seconds: f64,
    latency_ms: Option<(f64, f64)>,
}

/// Medians of a way's runs.
#[derive(Debug, Serialize)]
struct Line {
    case: &'static str,
    way: &'static str,
    runs: usize,
    lines_per_second: f64,
    commits_per_second: f64,
    /// Of a commit, in milliseconds: nothing can be sent meanwhile.
    commit_ms: f64,
    /// CPU time for each line, in nanoseconds.
    producer_ns: f64,
    broker_ns: f64,
    producer_cores: f64,
    broker_cores: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<[f64; 2]>,
}

/// Measures the cases among `cases`; lines of JSON go to `results`.
pub(crate) fn run(args: &Args, cases: &[Case], results: &mut Results) -> Result<()> {
    let is_meant = |kind| cases.iter().any(|case| case.side == Side::Once(kind));
    if is_meant(OnceCase::Transactions) {
        transactions(args, results)?;
    }
    if is_meant(OnceCase::Rows) {
        results.measure_machine()?;
        let lines = rows::run(args.size())?;
        results.measure_machine()?;
        lines.iter().try_for_each(|line| results.line(line))?;
    }
    Ok(())
}

fn transactions(args: &Args, results: &mut Results) -> Result<()> {
    let folder = std::path::absolute(args.out.join("run")).context("no working folder")?;
    let mut world = World::start(&folder)?;
    let seconds = if args.size() == Size::Full { 20 } else { 5 };
    // The broker's code is compiled while it runs.
    for way in [&WAYS[0], &WAYS[2]] {
        measure(&mut world, way, 4).with_context(|| format!("warming up, {}", way.name))?;
    }
    let mut outcomes: Vec<(&Way, Vec<Outcome>)> = WAYS.iter().map(|it| (it, Vec::new())).collect();
    for round in 1..=args.runs() {
        for (way, outcomes) in &mut outcomes {
            results.measure_machine()?;
            let outcome = measure(&mut world, way, seconds).with_context(|| way.name)?;
            say::progress(&format!("{round} {}: {outcome:?}", way.name));
            outcomes.push(outcome);
        }
    }
    for (way, outcomes) in &outcomes {
        results.line(&serde_json::to_string(&Line::of(way, outcomes))?)?;
    }
    Ok(())
}

fn measure(world: &mut World, way: &Way, seconds: u64) -> Result<Outcome> {
    let topic = world.fresh_name("once");
    let positions = format!("{topic}-positions");
    world.topics.make(&topic)?;
    world.topics.make_compacted(&positions)?;
    let job = Job {
        bootstrap: world.topics.bootstrap().to_owned(),
        topic: topic.clone(),
        positions,
        load: way.load,
        producers: way.producers,
        lines_per_second: LINES_PER_SECOND,
        request_millis: way.request_millis,
        commit_millis: way.commit_millis,
        seconds,
    };
    // At full load a reader would take the cores from those that are measured.
    let latencies = match (way.load, way.producers) {
        (Load::Steady, 1) => Some(Latencies::follow(&job)?),
        _ => None,
    };
    let before = usage(world.broker.pid())?.cpu_seconds;
    let (program, log) = (std::env::current_exe()?, world.file(&format!("{topic}.log")));
    let arguments = ["--produce".to_owned(), serde_json::to_string(&job)?];
    let producer = Subject::start("the producer", &program, &arguments, &[], &log)?;
    producer.finish(RUN_LIMIT)?;
    let broker_seconds = usage(world.broker.pid())?.cpu_seconds - before;
    let text = std::fs::read_to_string(&log)?;
    let made: Made = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
    let latency_ms = latencies.map(|it| it.finish(made.messages)).transpose()?;
    world.topics.remove(&topic)?;
    Ok(Outcome { made, broker_seconds, latency_ms })
}

impl Line {
    fn of(way: &Way, outcomes: &[Outcome]) -> Self {
        let of = |figure: &dyn Fn(&Outcome) -> f64| {
            let figures: Vec<f64> = outcomes.iter().map(figure).collect();
            (median(&figures).unwrap_or(f64::NAN) * 1e4).round() / 1e4
        };
        let latency = |pick: fn((f64, f64)) -> f64| {
            of(&move |it: &Outcome| it.latency_ms.map_or(f64::NAN, pick))
        };
        let has_latency = outcomes.iter().all(|it| it.latency_ms.is_some());
        Self {
            case: "once-transactions",
            way: way.name,
            runs: outcomes.len(),
            lines_per_second: of(&|it| it.made.lines as f64 / it.made.seconds),
            commits_per_second: of(&|it| it.made.commits as f64 / it.made.seconds),
            commit_ms: of(&|it| 1e3 * it.made.commit_seconds / it.made.commits.max(1) as f64),
            producer_ns: of(&|it| 1e9 * it.made.cpu_seconds / it.made.lines as f64),
            broker_ns: of(&|it| 1e9 * it.broker_seconds / it.made.lines as f64),
            producer_cores: of(&|it| it.made.cpu_seconds / it.made.seconds),
            broker_cores: of(&|it| it.broker_seconds / it.made.seconds),
            latency_ms: has_latency.then(|| [latency(|it| it.0), latency(|it| it.1)]),
        }
    }
}
