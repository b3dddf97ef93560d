//! What our inserts ask of ZooKeeper: counted by the engine for each part, by the engine in all,
//! and by ZooKeeper in its transaction log.
//!
//! Prints the figures of `docs/internals/coordination.md`: `-- cost --nocapture`. One replica; a
//! second one would add its fetches, and its own reading of the log.

use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use millrace_coordination::plan::{REPLICATED, requests_of};
use millrace_ddl::{AttributeStorage, observe_coordination};
use millrace_e2e::lab::{Lab, LabOptions, SIGNALS};
use millrace_e2e::loadgen::Load;
use millrace_e2e::wait;
use millrace_stack::clickhouse::{self, Engine};
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions};

use crate::replicated::tables::writable;
use crate::replicated::transactions::Transactions;
use crate::replicated::{LIMIT, declared};
use crate::tables::ddl::client::{block_on, client};

/// Records of each signal, and rows of a part at most: dozens of parts of each, and merges of them.
const RECORDS: u64 = 200_000;
const ROWS_PER_PART: u64 = 5_000;

/// Merges of small parts follow each other sooner than this.
const REST: Duration = Duration::from_secs(1);

/// What one table's parts asked, as `system.part_log` has it.
#[derive(Debug)]
struct Table {
    name: String,
    parts: u64,
    rows: u64,
    merges: u64,
    by_inserts: u64,
    by_merges: u64,
}

impl Table {
    fn requests(&self) -> u64 {
        self.by_inserts + self.by_merges
    }
}

fn tables(engine: &Engine) -> Vec<Table> {
    let requests = "ProfileEvents['ZooKeeperTransactions']";
    let text = engine
        .query(&format!(
            "SELECT table, countIf(event_type = 'NewPart'), sumIf(rows, event_type = 'NewPart'), \
             countIf(event_type = 'MergeParts'), sumIf({requests}, event_type = 'NewPart'), \
             sumIf({requests}, event_type = 'MergeParts') FROM system.part_log \
             WHERE database = 'otel' AND error = 0 \
             AND table != 'otel_schema_migrations' GROUP BY table ORDER BY table"
        ))
        .unwrap();
    let table = |line: &str| {
        let mut words = line.split('\t');
        let name = words.next().unwrap().to_owned();
        let mut figure = || words.next().unwrap().parse().unwrap();
        let (parts, rows, merges) = (figure(), figure(), figure());
        Table { name, parts, rows, merges, by_inserts: figure(), by_merges: figure() }
    };
    text.lines().map(table).collect()
}

/// What the engine asked since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Events {
    requests: u64,
    /// Those of them that change something.
    writes: u64,
    /// Those of these that hold several operations.
    multis: u64,
}

impl Events {
    fn of(engine: &Engine) -> anyhow::Result<Self> {
        let event = |names: &str| {
            let sql = format!("SELECT sum(value) FROM system.events WHERE event IN ({names})");
            anyhow::Ok(engine.query(&sql)?.trim().parse::<u64>()?)
        };
        Ok(Self {
            requests: event("'ZooKeeperTransactions'")?,
            writes: event(
                "'ZooKeeperCreate', 'ZooKeeperRemove', 'ZooKeeperSet', 'ZooKeeperMultiWrite'",
            )?,
            multis: event("'ZooKeeperMultiWrite'")?,
        })
    }
}

/// What was asked since the start of both, as each of them has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    events: Events,
    log: Transactions,
}

/// Waits until nothing was written for [`REST`], so that the log has an end, and both are of one
/// moment.
fn asked(engine: &Engine, ensemble: &Ensemble) -> Asked {
    let mut last: Option<(u64, Instant)> = None;
    wait::until("the engine and ZooKeeper to count the same", LIMIT, || {
        let events = Events::of(engine)?;
        let since = match last {
            Some((writes, since)) if writes == events.writes => since,
            _ => Instant::now(),
        };
        last = Some((events.writes, since));
        ensure!(since.elapsed() > REST, "work is under way: {events:?}");
        let log = Transactions::of(ensemble.servers()[0].data_dir());
        ensure!(log.writes() == events.writes, "{log:?}, where {events:?}");
        Ok(Asked { events, log })
    })
    .unwrap()
}

/// Scenario: 200,000 records of each signal through a gateway into replicated tables, in parts of
/// 5,000 rows at most. Guarantee: ZooKeeper's log has just the writes that the engine counted; the
/// status' figures for each table are those of the record of parts; a third of all requests write,
/// and most of these are multis, as `keeper-bench` takes it for its `clickhouse-load`; the planner
/// has the requests within a third. Slow: 600,000 records pass in parts of 5,000 rows, and
/// ZooKeeper commits each part.
#[test]
fn what_parts_ask_is_counted_alike_by_the_engine_and_by_zookeeper() {
    clickhouse::require_own_engine("its ZooKeeper's log is read").unwrap();
    // One log, however much is written.
    let settings = vec![("snapCount".to_owned(), "1000000".to_owned())];
    let ensemble = Ensemble::start(&EnsembleOptions { settings, ..Default::default() }).unwrap();
    let zookeeper = ensemble.client_addresses();
    let lab = Lab::with(LabOptions { zookeeper, ..LabOptions::default() }).unwrap();
    writable(&lab.engine);
    let edge = lab.edge().unwrap();
    let extra = format!("    batch: {{maxRows: {ROWS_PER_PART}}}\n");
    let _gateway = lab.gateway("gateway", &extra).unwrap();
    let before = asked(&lab.engine, &ensemble);
    for (seed, signal) in (71..).zip(SIGNALS) {
        let load = Load { signal, count: RECORDS, ..lab.load(&edge, seed, RECORDS) };
        let verdict = load.run(lab.folder(), LIMIT).unwrap();
        let bad = (verdict.missing, verdict.duplicated, verdict.altered);
        assert_eq!((verdict.stored, bad), (RECORDS, (0, 0, 0)), "{}", verdict.line);
    }
    let after = asked(&lab.engine, &ensemble);
    let tables = tables_as_in_status(&lab.engine);
    told(&tables, &before, &after);
    let (began, ended) = (before.events, after.events);
    let (requests, writes) = (ended.requests - began.requests, ended.writes - began.writes);
    let multis = ended.multis - began.multis;
    near(writes, requests, 1.0 / 3.0);
    near(multis, writes, 0.75);
    let sum = |of: fn(&Table) -> u64| tables.iter().map(of).sum::<u64>();
    assert!(sum(Table::requests) < requests);
    let planned =
        REPLICATED * requests_of(sum(|it| it.parts) as f64, sum(|it| it.merges) as f64, 1.0);
    let share = planned / requests as f64;
    assert!((share - 1.0).abs() < 1.0 / 3.0, "planned {planned}, counted {requests}");
}

/// What the status says of each table, once that is what the record of parts has: a merge may come
/// between the two questions.
fn tables_as_in_status(engine: &Engine) -> Vec<Table> {
    let client = client(engine);
    let wanted = declared("otel", AttributeStorage::Json);
    wait::until("the status to have the record's figures", LIMIT, || {
        engine.query("SYSTEM FLUSH LOGS")?;
        let tables = tables(engine);
        let loads = block_on(observe_coordination(&client, &wanted))
            .map_err(|why| anyhow!("{why:?}"))?
            .tables;
        ensure!(loads.len() == tables.len(), "{loads:?}");
        for (load, table) in loads.iter().zip(&tables) {
            let told = (load.table.as_str(), load.parts, load.rows, load.requests);
            let counted = (table.name.as_str(), table.parts, table.rows, table.requests());
            ensure!(told == counted, "{told:?}, where {counted:?} was counted");
        }
        Ok(tables)
    })
    .unwrap()
}

/// Within a tenth: the pace of the machine decides how much one reading of the log finds.
fn near(counted: u64, of: u64, share: f64) {
    let found = counted as f64 / of as f64;
    assert!((found - share).abs() < 0.1, "{counted} of {of}: {found}, where {share} is meant");
}

fn told(tables: &[Table], before: &Asked, after: &Asked) {
    println!("| table | parts | rows | merges | requests a part | a merge | for a million rows |");
    for table in tables {
        let each = |requests: u64, of: u64| requests as f64 / of.max(1) as f64;
        println!(
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.0} |",
            table.name,
            table.parts,
            table.rows,
            table.merges,
            each(table.by_inserts, table.parts),
            each(table.by_merges, table.merges),
            each(table.requests(), table.rows) * 1e6,
        );
    }
    let (log, earlier) = (after.log, before.log);
    println!(
        "requests {}, writes {}, multis {}; in ZooKeeper's log: creates {}, deletes {}, sets {}, \
         multis {} with {} creates, {} deletes, {} sets; refused {}",
        after.events.requests - before.events.requests,
        after.events.writes - before.events.writes,
        after.events.multis - before.events.multis,
        log.creates - earlier.creates,
        log.deletes - earlier.deletes,
        log.sets - earlier.sets,
        log.multis - earlier.multis,
        log.creates_in_multis - earlier.creates_in_multis,
        log.deletes_in_multis - earlier.deletes_in_multis,
        log.sets_in_multis - earlier.sets_in_multis,
        log.refused - earlier.refused,
    );
}
