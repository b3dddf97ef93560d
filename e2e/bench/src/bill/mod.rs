//! The complete bill: what a record costs from a client to parts that nothing is left to merge of,
//! and what readers then wait for, by each way of storing.
//!
//! Each kind of records goes once through an edge into a topic; every way of storing gets an engine
//! of its own, with nothing else in it. Merges are stopped while a gateway drains the topic, so that
//! inserts and merges are told apart, and run after that until nothing is left; or they run all the
//! time, if that is asked for. One line for each way. The ways of one kind are compared with each
//! other, never with those of another invocation.

pub(crate) mod counters;
mod page;
mod queries;
mod way;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use millrace_e2e::binaries;
use millrace_stack::clickhouse::{Engine, EngineOptions};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::args::Args;
use crate::case::{Case, Side, Size, Way as Protocol};
use crate::collector::Collector;
use crate::dataset::Dataset;
use crate::process::usage;
use crate::report::results::Results;
use crate::run::Bench;
use crate::say;
use crate::world::World;

use counters::Counters;
use way::Way;

/// Where the tables are.
const DATABASE: &str = "otel";
/// The engine's memory: the merge of ten million rich spans holds some hundred MiB.
const ENGINE_BYTES: u64 = 6 << 30;
/// Where an engine keeps its tables: in memory. Which files a disk's file system lost before would
/// count otherwise: making a file, ext4 passes over each inode that was freed in the last one to five
/// minutes. After some ways' tables had been removed, that was 45 % of what inserts took.
const TABLES: &str = "/dev/shm";
/// Merges that rest for so long have nothing left: the engine looks for some every few seconds.
const MERGED: Duration = Duration::from_secs(8);
/// Ten million rich spans take some ten minutes on two cores.
const MERGE_LIMIT: Duration = Duration::from_secs(3_600);
/// Between two looks at merges.
const POLL: Duration = Duration::from_millis(500);

/// When the engine merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merges {
    /// Once all is inserted.
    After,
    /// All the time, as on a server.
    Always,
}

impl Merges {
    /// What a line calls its case.
    fn case(self) -> &'static str {
        match self {
            Self::After => "bill",
            Self::Always => "bill-merging",
        }
    }
}

/// What one way of storing costs. Times are CPU time for one record.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    case: String,
    records_of: String,
    way: String,
    records: u64,
    rounds: usize,
    edge_ns: f64,
    /// While the edge wrote and while the gateway read.
    broker_ns: [f64; 2],
    gateway_ns: f64,
    /// The engine's process, its HTTP front in Python included, until the last insert.
    insert_ns: f64,
    insert_ns_range: [f64; 2],
    /// Its queries by its own counters, the front not included.
    insert_query_ns: f64,
    merge_ns: f64,
    merge_ns_range: [f64; 2],
    bytes_per_record: f64,
    parts_inserted: u64,
    parts_left: u64,
    merges: u64,
    /// Milliseconds on the clock, one thread: the median of five.
    queries_ms: Vec<(String, f64)>,
}

/// What was filled through an edge.
struct Filled {
    topic: String,
    records: u64,
    edge_seconds: f64,
    broker_seconds: f64,
}

/// Whether a case is this one.
pub(crate) fn is_meant(cases: &[Case]) -> bool {
    cases.iter().any(|case| matches!(case.side, Side::Bill(_)))
}

/// Runs what was asked for and gives a line for each way.
pub(crate) fn run(args: &Args, cases: &[Case], results: &mut Results) -> Result<()> {
    let folder = std::path::absolute(args.out.join("bill")).context("no working folder")?;
    let mut world = World::start(&folder)?;
    let collector = Collector::ours(None)?;
    for case in cases {
        let Side::Bill(dataset) = case.side else { continue };
        let case = &Case { count: args.records, ..*case };
        let merges = if args.merging { Merges::Always } else { Merges::After };
        let filled = fill(&mut world, &collector, case, args.size(), dataset)?;
        let ways = way::of(dataset, &args.ways())?.into_iter();
        let mut ways: Vec<(&Way, Vec<Line>)> = ways.map(|way| (way, Vec::new())).collect();
        for _ in 0..args.rounds() {
            for (way, lines) in &mut ways {
                results.measure_machine()?;
                let began = Instant::now();
                let line = store(&mut world, &collector, case, &filled, dataset, way, merges)
                    .with_context(|| format!("{} stored as {}", dataset.name(), way.name))?;
                line.say(began.elapsed());
                lines.push(line);
            }
            // What a machine does to later runs then hits each way alike.
            ways.reverse();
        }
        results.measure_machine()?;
        let lines = ways.into_iter().filter_map(|(_, lines)| Line::middle(lines));
        let lines = in_order(lines.collect());
        for line in &lines {
            results.line(&serde_json::to_string(line)?)?;
        }
        draw(&args.out, dataset.name(), &lines)?;
        world.topics.remove(&filled.topic)?;
    }
    Ok(())
}

/// Tables and bars of a kind, in files of its name.
fn draw(folder: &Path, kind: &str, lines: &[Line]) -> Result<()> {
    for (ending, text) in [("md", page::tables(lines)), ("svg", page::bars(lines))] {
        let path = folder.join(format!("bill-{kind}.{ending}"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Draws the bills among results that were kept.
pub(crate) fn redraw(results: &Path, folder: &Path) -> Result<()> {
    let text = fs::read_to_string(results);
    let text = text.with_context(|| format!("cannot read {}", results.display()))?;
    let mut kinds: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        kinds.entry(line.records_of.clone()).or_default().push(line);
    }
    ensure!(!kinds.is_empty(), "{} has no line of a bill", results.display());
    fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
    kinds.into_iter().try_for_each(|(kind, lines)| draw(folder, &kind, &in_order(lines)))
}

fn in_order(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by_key(|line| way::place(&line.way));
    lines
}

impl Line {
    fn say(&self, took: Duration) {
        let Self { records_of, way, gateway_ns, insert_ns, merge_ns, bytes_per_record, .. } = self;
        say::progress(&format!(
            "{records_of} {way}: gateway {gateway_ns:.0}, inserts {insert_ns:.0}, merges \
             {merge_ns:.0} ns a record, {bytes_per_record:.1} bytes; {:.0} s",
            took.as_secs_f64(),
        ));
    }

    /// The middle of a way's rounds for each figure of CPU time, and between what inserts and merges
    /// were; of the rest the last round's.
    fn middle(mut rounds: Vec<Self>) -> Option<Self> {
        let sorted = |figure: fn(&Self) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let figures: [fn(&Self) -> f64; 4] = [
            |round| round.gateway_ns,
            |round| round.insert_ns,
            |round| round.insert_query_ns,
            |round| round.merge_ns,
        ];
        let [gateway, insert, query, merge] = figures.map(sorted);
        let middle = |all: &[f64]| all.get(all.len() / 2).copied().unwrap_or_default();
        let ends = |all: &[f64]| [all.first(), all.last()].map(|end| end.copied().unwrap_or(0.0));
        let count = rounds.len();
        Some(Self {
            rounds: count,
            gateway_ns: middle(&gateway),
            insert_ns: middle(&insert),
            insert_ns_range: ends(&insert),
            insert_query_ns: middle(&query),
            merge_ns: middle(&merge),
            merge_ns_range: ends(&merge),
            ..rounds.pop()?
        })
    }
}

/// Sends the records through an edge into a topic of their own.
fn fill(
    world: &mut World,
    collector: &Collector,
    case: &Case,
    size: Size,
    dataset: Dataset,
) -> Result<Filled> {
    let before = usage(world.broker.pid())?.cpu_seconds;
    let way = Protocol { protocol: "grpc", compression: "gzip", rate: None };
    let mut bench = Bench { world, collector, case, size, profile: None };
    let (outcome, topic) = bench.fill_by_edge(way, dataset)?;
    let broker_seconds = usage(world.broker.pid())?.cpu_seconds - before;
    say::progress(&format!("{} {} records are in a topic", outcome.records, dataset.name()));
    Ok(Filled {
        topic,
        records: outcome.records,
        edge_seconds: outcome.cpu_seconds,
        broker_seconds,
    })
}

/// Drains a topic into tables, merges them, and asks them.
fn store(
    world: &mut World,
    collector: &Collector,
    case: &Case,
    filled: &Filled,
    dataset: Dataset,
    way: &Way,
    merges: Merges,
) -> Result<Line> {
    let tables = TempDir::new_in(TABLES).with_context(|| format!("no folder in {TABLES}"))?;
    let engine = Engine::start(EngineOptions {
        dir: Some(tables.path().to_owned()),
        memory_limit_bytes: ENGINE_BYTES,
        ..EngineOptions::default()
    });
    let engine = engine.context("no engine")?;
    make_tables(&engine, dataset, way)?;
    let (user, password) = world.login();
    fs::write(user, engine.user())?;
    fs::write(password, engine.password())?;
    if merges == Merges::After {
        engine.query("SYSTEM STOP MERGES")?;
    }
    let (broker_before, before) = (usage(world.broker.pid())?.cpu_seconds, Counters::of(&engine)?);
    let mut bench = Bench { world, collector, case, size: Size::Full, profile: None };
    let drained =
        bench.drain(&filled.topic, filled.records, dataset, &engine.url(), way.attributes)?;
    let broker_seconds = usage(world.broker.pid())?.cpu_seconds - broker_before;
    let inserted = Counters::of(&engine)?;
    let rows = queries::rows(&engine, dataset)?;
    ensure!(rows == filled.records, "{} records became {rows} rows", filled.records);
    let parts_inserted = parts(&engine)?;
    engine.query("SYSTEM START MERGES")?;
    merged(&engine)?;
    let merged = Counters::of(&engine)?;
    let each = |seconds: f64| (seconds * 1e10 / filled.records as f64).round() / 10.0;
    let insert_ns = each(inserted.process_seconds - before.process_seconds);
    let merge_ns = each(merged.process_seconds - inserted.process_seconds);
    Ok(Line {
        case: merges.case().to_owned(),
        records_of: dataset.name().to_owned(),
        way: way.name.to_owned(),
        records: filled.records,
        rounds: 1,
        edge_ns: each(filled.edge_seconds),
        broker_ns: [each(filled.broker_seconds), each(broker_seconds)],
        gateway_ns: each(drained.cpu_seconds),
        insert_ns,
        insert_ns_range: [insert_ns; 2],
        insert_query_ns: each(inserted.query_seconds - before.query_seconds),
        merge_ns,
        merge_ns_range: [merge_ns; 2],
        bytes_per_record: bytes(&engine)? as f64 / filled.records as f64,
        parts_inserted,
        parts_left: parts(&engine)?,
        merges: merged.merges - before.merges,
        queries_ms: queries::times(&engine, dataset, way)?,
    })
}

fn make_tables(engine: &Engine, dataset: Dataset, way: &Way) -> Result<()> {
    let mut command = Command::new(binaries::path("clickhouse-ddl")?);
    command
        .args(["create", "--endpoint", &engine.url(), "--database", DATABASE])
        .args([format!("--{}", dataset.signal_name()).as_str(), "--user", engine.user()])
        .args(way.flags)
        .env("CLICKHOUSE_PASSWORD", engine.password());
    if way.attributes == "JSON" {
        command.arg("--enable-json");
    }
    let output = command.output()?;
    if !output.status.success() {
        bail!("clickhouse-ddl create: {}", String::from_utf8_lossy(&output.stderr));
    }
    for table in queries::tables(dataset) {
        for setting in way.settings {
            engine.query(&format!("ALTER TABLE {DATABASE}.{table} MODIFY SETTING {setting}"))?;
        }
        for statement in way.statements {
            let sql = statement.replace("{table}", &format!("{DATABASE}.{table}"));
            engine.query(&sql.replace("{own}", queries::own_column(dataset)))?;
        }
    }
    Ok(())
}

/// Waits until nothing is left to merge.
fn merged(engine: &Engine) -> Result<()> {
    let began = Instant::now();
    let (mut seen, mut since) = (parts(engine)?, Instant::now());
    while since.elapsed() < MERGED {
        std::thread::sleep(POLL);
        let running = number(engine, "SELECT count() FROM system.merges")?;
        let now = parts(engine)?;
        if running > 0 || now != seen {
            (seen, since) = (now, Instant::now());
        }
        if began.elapsed() > MERGE_LIMIT {
            bail!("merges take too long: {now} parts are left");
        }
    }
    Ok(())
}

fn parts(engine: &Engine) -> Result<u64> {
    let of = format!("FROM system.parts WHERE active AND database = '{DATABASE}'");
    number(engine, &format!("SELECT count() {of}"))
}

fn bytes(engine: &Engine) -> Result<u64> {
    let of = format!("FROM system.parts WHERE active AND database = '{DATABASE}'");
    number(engine, &format!("SELECT sum(bytes_on_disk) {of}"))
}

fn number(engine: &Engine, sql: &str) -> Result<u64> {
    let text = engine.query(sql)?;
    text.trim().parse().with_context(|| format!("{sql} gave {text}"))
}
