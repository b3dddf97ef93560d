//! Scraped targets: bodies to OTLP on one thread; and our collector beside vmagent, Prometheus as an
//! agent and the OpenTelemetry Collector's receiver, on the same targets, in the same run.
//!
//! Targets are the harness' own, on loopback, with bodies as exporters write them whose values
//! change. Ours and the Collector write to a real broker; of ours each point of each answer must be
//! there once. Cases are interleaved like all others: each by every collector, then all again. A run
//! of a peer that fails is told and left out.

mod agent;
mod arrivals;
mod bodies;
mod outcome;
pub(crate) mod parse;
mod run;
mod stand_in;

use std::sync::Arc;

use anyhow::{Context, Result};

use agent::Agent;
use outcome::{Figures, Outcome, Ratio};
use run::{Bench, Load};
use stand_in::Body;

use crate::args::Args;
use crate::case::{Case, Side, Size};
use crate::collector::Collector;
use crate::report::results::Results;
use crate::say;
use crate::world::World;

/// Bodies whose values differ; after them the first comes again, and its counters begin anew.
const TURNS: u64 = 64;
/// The same of bodies of 200 MB, which all lie in memory.
const LONG_TURNS: u64 = 2;
/// Pods whose kube-state-metrics body has 200 MB: some 1.1 million samples.
const LONG_BODY_PODS: u64 = 122_000;
/// Pods of a target with 10,000 series: nine each.
const SERIES_PODS: u64 = 1_112;
/// Lines of a body while a collector is idle: a head and its samples.
const FEW_LINES: usize = 20;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScrapeCase {
    /// Bodies to OTLP, on one thread.
    Parse,
    /// 1,000 node exporters every 15 s.
    Targets,
    /// One target with a body of 200 MB.
    Body,
    /// 100 targets with 10,000 series each.
    Series,
}

struct Entry {
    case: Case,
    load: Load,
    agents: Vec<(Agent, Vec<Outcome>)>,
}

/// Measures the cases of targets among `cases`; lines of JSON go to `results`.
pub(crate) fn run(args: &Args, cases: &[Case], results: &mut Results) -> Result<()> {
    let mut entries = entries(args, cases)?;
    if entries.is_empty() {
        return Ok(());
    }
    // Collectors take absolute paths only.
    let folder = std::path::absolute(args.out.join("run")).context("no working folder")?;
    let mut world = World::start(&folder)?;
    for round in 1..=args.runs() {
        for Entry { case, load, agents } in &mut entries {
            for (agent, outcomes) in agents {
                let drawing = args.out.join(format!("{}-{}.svg", case.name, agent.name()));
                let drawing = args.profile.then_some(drawing);
                let (name, world) = (case.name, &mut world);
                let mut bench = Bench { world, agent, name, load, drawing };
                results.measure_machine()?;
                let at = format!("{} by {}, run {round}", case.name, bench.agent.name());
                let outcome = match bench.run() {
                    // What a peer can't do costs nobody else's figures.
                    Err(error) if !matches!(agent, Agent::Ours(_)) => {
                        say::progress(&format!("{at}: no figures: {error:#}"));
                        continue;
                    }
                    outcome => outcome.context(at)?,
                };
                let words = outcome::brief(&outcome);
                say::progress(&format!("{round} {} {}: {words}", case.name, agent.name()));
                outcomes.push(outcome);
            }
        }
    }
    if args.profile { Ok(()) } else { report(&entries, results) }
}

/// Who runs what. Profiles are of ours alone.
fn entries(args: &Args, cases: &[Case]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for case in cases {
        let Side::Scrape(kind) = case.side else { continue };
        let Some(load) = load(kind, args.size())? else { continue };
        let peers = [
            args.vmagent.clone().map(Agent::Vmagent),
            args.prometheus.clone().map(Agent::Prometheus),
            args.otelcol_scrape.clone().map(Agent::Otelcol),
        ];
        let peers = peers.into_iter().flatten().filter(|_| !args.profile);
        let ours = Agent::Ours(Box::new(Collector::ours(None)?));
        let agents = [ours].into_iter().chain(peers).map(|agent| (agent, Vec::new())).collect();
        entries.push(Entry { case: *case, load, agents });
    }
    Ok(entries)
}

/// What is scraped: a third of it when quick. None where nothing is.
fn load(kind: ScrapeCase, size: Size) -> Result<Option<Load>> {
    let third = |full: u64| if size == Size::Full { full } else { full / 3 };
    let make = |turns: u64, make: &dyn Fn(u64) -> String| -> Result<Arc<[Body]>> {
        (0..turns).map(|turn| Body::new(make(turn))).collect()
    };
    let pods = |pods: u64| move |turn: u64| bodies::kube_state_metrics(pods, turn);
    let few = |pods| -> Result<Option<Arc<[Body]>>> {
        let body = bodies::kube_state_metrics(pods, 0);
        let lines: Vec<&str> = body.lines().take(FEW_LINES).collect();
        Ok(Some([Body::new(lines.join("\n") + "\n")?].into()))
    };
    say::progress("writing bodies");
    Ok(match kind {
        ScrapeCase::Parse => None,
        ScrapeCase::Targets => Some(Load {
            targets: 1_000,
            interval_seconds: 15,
            rounds: if size == Size::Full { 8 } else { 2 },
            before: None,
            bodies: make(TURNS, &bodies::node_exporter)?,
        }),
        ScrapeCase::Body => Some(Load {
            targets: 1,
            interval_seconds: 20,
            rounds: if size == Size::Full { 4 } else { 2 },
            before: few(third(LONG_BODY_PODS))?,
            bodies: make(LONG_TURNS, &pods(third(LONG_BODY_PODS)))?,
        }),
        ScrapeCase::Series => Some(Load {
            targets: third(100) as usize,
            interval_seconds: 15,
            rounds: if size == Size::Full { 4 } else { 2 },
            before: few(SERIES_PODS)?,
            bodies: make(TURNS / 8, &pods(SERIES_PODS))?,
        }),
    })
}

fn report(entries: &[Entry], results: &mut Results) -> Result<()> {
    for Entry { case, agents, .. } in entries {
        let measured = agents.iter().filter(|(_, runs)| !runs.is_empty());
        let figures: Vec<Figures> =
            measured.map(|(agent, runs)| Figures::of(case.name, agent, runs)).collect();
        figures.iter().try_for_each(|line| results.line(&line.json()?))?;
        if let [ours, peers @ ..] = figures.as_slice() {
            peers.iter().try_for_each(|peer| results.line(&Ratio::of(ours, peer).json()?))?;
        }
    }
    Ok(())
}
