//! Log files: our collector beside the OpenTelemetry Collector's filelog receiver and vlagent, on
//! the same files, in the same run.
//!
//! Files lie in memory. Ours and filelog write to a real broker, whose topic is read while they
//! write; vlagent, which knows no Kafka, to a server of the harness. What arrives is counted by
//! numbers in the records; ours may miss none and repeat none. Cases are interleaved like all
//! others: each by every collector, then all again.

mod agent;
mod corpus;
mod http;
mod outcome;
mod run;
mod seen;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use agent::{Agent, Form};
use corpus::Pod;
use outcome::{Figures, Outcome, Ratio};
use run::{Bench, PODS};

use crate::args::Args;
use crate::case::{Case, Side, Size};
use crate::collector::Collector;
use crate::report::results::Results;
use crate::say;
use crate::world::World;

pub(crate) use corpus::{Text, Words};

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesCase {
    /// Lines of 512 bytes in one file, uncompressed messages.
    SingleLine,
    /// Java's traces in one file.
    Multiline,
    /// Lines of 512 bytes by a pattern of three groups.
    Regex,
    /// Containers' lines of 216 bytes in 100 pods, in zstd.
    Containers,
    /// 10,000 of these a second.
    Steady,
    /// 10,000 files that are idle, and 1,000 that are written at once.
    Many,
    /// A new pod's first line.
    FirstLine,
}

/// Files that are there before a run, and stay.
struct Corpus {
    folder: TempDir,
    pods: Vec<Pod>,
    records: u64,
    bytes: u64,
}

struct Entry {
    case: Case,
    kind: FilesCase,
    corpus: Option<Corpus>,
    agents: Vec<(Agent, Vec<Outcome>)>,
}

impl FilesCase {
    /// What files hold, how they are read, how messages are compressed, and how many records: for a
    /// CPU-second of ours at least. None where files grow.
    fn drained(self) -> Option<(Text, Form, &'static str, u64)> {
        match self {
            Self::SingleLine => Some((Text::Plain, Form::Lines, "none", 2_000_000)),
            Self::Multiline => Some((Text::Java, Form::Traces, "none", 400_000)),
            Self::Regex => Some((Text::Plain, Form::Groups, "none", 1_000_000)),
            Self::Containers => Some((Text::Container, Form::Containers, "zstd", 2_000_000)),
            Self::Steady | Self::Many | Self::FirstLine => None,
        }
    }

    /// How it is read.
    fn form(self) -> Form {
        match (self.drained(), self) {
            (Some((_, form, _, _)), _) => form,
            (None, Self::Many) => Form::Lines,
            (None, _) => Form::Containers,
        }
    }
}

/// Measures the cases of files among `cases`; lines of JSON go to `results`.
pub(crate) fn run(args: &Args, cases: &[Case], results: &mut Results) -> Result<()> {
    let memory = tempfile::Builder::new().prefix("millrace-bench-").tempdir_in(MEMORY)?;
    let mut entries = entries(args, cases, memory.path())?;
    if entries.is_empty() {
        return Ok(());
    }
    // Collectors take absolute paths only.
    let folder = std::path::absolute(args.out.join("run")).context("no working folder")?;
    let mut world = World::start(&folder)?;
    for round in 1..=args.runs() {
        for entry in &mut entries {
            let Entry { case, kind, corpus, agents } = entry;
            for (agent, outcomes) in agents {
                let drawing = args.out.join(format!("{}-{}.svg", case.name, agent.name()));
                let mut bench = Bench {
                    world: &mut world,
                    agent,
                    size: args.size(),
                    scratch: memory.path(),
                    name: case.name,
                    drawing: args.profile.then_some(drawing),
                };
                results.measure_machine()?;
                let outcome = measure(&mut bench, *kind, corpus.as_ref())
                    .with_context(|| format!("{} by {}, run {round}", case.name, agent.name()))?;
                let words = outcome::brief(&outcome);
                say::progress(&format!("{round} {} {}: {words}", case.name, agent.name()));
                outcomes.push(outcome);
            }
        }
    }
    if args.profile { Ok(()) } else { report(&entries, results) }
}

fn measure(bench: &mut Bench<'_>, kind: FilesCase, corpus: Option<&Corpus>) -> Result<Outcome> {
    let outcome = match (kind, kind.drained(), corpus) {
        (_, Some((_, form, compression, _)), Some(corpus)) => bench.drain(
            (corpus.folder.path(), &corpus.pods),
            (form, compression),
            (corpus.records, corpus.bytes),
        ),
        (FilesCase::Many, ..) => bench.many(),
        (FilesCase::FirstLine, ..) => bench.first_line(),
        _ => bench.steady(),
    }?;
    if bench.agent.is_ours() && outcome.missing + outcome.repeated > 0 {
        bail!("{} records are missing, {} came again", outcome.missing, outcome.repeated);
    }
    Ok(outcome)
}

/// Who runs what. Profiles are of ours alone.
fn entries(args: &Args, cases: &[Case], memory: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for case in cases {
        let Side::Files(kind) = case.side else { continue };
        let peers =
            [args.filelog.clone().map(Agent::Filelog), args.vlagent.clone().map(Agent::Vlagent)];
        let peers = peers.into_iter().flatten().filter(|_| !args.profile);
        let mut agents = vec![Agent::Ours(Box::new(Collector::ours(None)?))];
        agents.extend(peers.filter(|peer| peer.can(kind.form())));
        entries.push(Entry {
            case: *case,
            kind,
            corpus: corpus(kind, args.size(), memory)?,
            agents: agents.into_iter().map(|agent| (agent, Vec::new())).collect(),
        });
    }
    Ok(entries)
}

/// The files of a case whose files don't grow.
fn corpus(kind: FilesCase, size: Size, memory: &Path) -> Result<Option<Corpus>> {
    let Some((text, form, _, full)) = kind.drained() else { return Ok(None) };
    say::progress("writing log files");
    let records = if size == Size::Full { full } else { full / 3 };
    let folder = tempfile::tempdir_in(memory)?;
    let pods = if form == Form::Containers {
        (0..PODS).map(|it| corpus::make_pod(folder.path(), it)).collect::<Result<_>>()?
    } else {
        Vec::new()
    };
    let mut files: Vec<PathBuf> = pods.iter().map(|pod: &Pod| pod.log.clone()).collect();
    if files.is_empty() {
        files.push(folder.path().join("service.log"));
    }
    let bytes = corpus::write(&files, text, records)?;
    Ok(Some(Corpus { folder, pods, records, bytes }))
}

fn report(entries: &[Entry], results: &mut Results) -> Result<()> {
    for Entry { case, kind, agents, .. } in entries {
        let figures: Vec<Figures> = agents
            .iter()
            .map(|(agent, runs)| Figures::of(case.name, agent, runs, kind.drained().is_some()))
            .collect();
        figures.iter().try_for_each(|line| results.line(&line.json()?))?;
        if let [ours, peers @ ..] = figures.as_slice() {
            peers.iter().try_for_each(|peer| results.line(&Ratio::of(ours, peer).json()?))?;
        }
    }
    Ok(())
}
