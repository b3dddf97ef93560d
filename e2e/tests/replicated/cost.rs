//! What our inserts ask of ZooKeeper: counted by the engine for each part, by the engine in all, and
//! by ZooKeeper in its transaction log.
//!
//! Prints the figures of `docs/coordination.md`: `-- cost --nocapture`. One replica; a second one
//! would add its fetches, and its own reading of the log.

use anyhow::ensure;
use millrace_coordination::plan::requests_of;
use millrace_ddl::{Attributes, coordination};
use millrace_e2e::lab::{Lab, LabOptions, SIGNALS};
use millrace_e2e::loadgen::Load;
use millrace_e2e::wait;
use millrace_stack::clickhouse::Engine;
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions};

use crate::ddl_client::{block_on, client};
use crate::tables::writable;
use crate::transactions::Transactions;
use crate::{LIMIT, declared};

/// Records of each signal, and rows of a part at most: dozens of parts of each, and merges of them.
const RECORDS: u64 = 200_000;
const ROWS_PER_PART: u64 = 5_000;

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
             WHERE database = 'otel' AND error = 0 GROUP BY table ORDER BY table"
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

/// What was asked since the start of both, at a moment of rest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    /// By the engine: all, those that change something, multis of writes among these.
    requests: u64,
    writes: u64,
    multis: u64,
    /// By ZooKeeper.
    log: Transactions,
}

/// Looks until two looks are equal: the figures are of one moment.
fn asked(engine: &Engine, ensemble: &Ensemble) -> Asked {
    let event = |names: &str| {
        let sql = format!("SELECT sum(value) FROM system.events WHERE event IN ({names})");
        Ok(engine.query(&sql)?.trim().parse::<u64>()?)
    };
    let look = || {
        anyhow::Ok(Asked {
            requests: event("'ZooKeeperTransactions'")?,
            writes: event(
                "'ZooKeeperCreate', 'ZooKeeperRemove', 'ZooKeeperSet', 'ZooKeeperMultiWrite'",
            )?,
            multis: event("'ZooKeeperMultiWrite'")?,
            log: Transactions::of(ensemble.servers()[0].data_dir()),
        })
    };
    wait::until("the engine and ZooKeeper to count the same", LIMIT, || {
        let (first, second) = (look()?, look()?);
        ensure!(first == second, "work is under way: {second:?}");
        ensure!(first.log.writes() == first.writes, "{first:?}");
        Ok(first)
    })
    .unwrap()
}

/// Scenario: 200,000 records of each signal through a gateway into replicated tables, in parts of
/// 5,000 rows at most. Guarantee: ZooKeeper's log has just the writes that the engine counted; the
/// status' figures for each table are those of the record of parts; requests of parts are a part of
/// all requests; the planner's model isn't below what was counted for parts and merges, nor above
/// three times that.
#[test]
fn what_parts_ask_is_counted_alike_by_the_engine_and_by_zookeeper() {
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
    lab.engine.query("SYSTEM FLUSH LOGS").unwrap();
    let tables = tables(&lab.engine);
    told(&tables, &before, &after);

    let sight = block_on(coordination(&client(&lab.engine), &declared("otel", Attributes::Json)));
    for load in sight.unwrap().tables {
        let table = tables.iter().find(|table| table.name == load.table).unwrap();
        assert_eq!((load.parts, load.rows), (table.parts, table.rows), "{}", table.name);
        assert_eq!(load.requests, table.requests(), "{}", table.name);
    }
    let sum = |of: fn(&Table) -> u64| tables.iter().map(of).sum::<u64>();
    let of_parts = sum(Table::requests);
    assert!(of_parts <= after.requests - before.requests);
    let modelled = requests_of(sum(|it| it.parts) as f64, sum(|it| it.merges) as f64, 1.0);
    let share = modelled / of_parts as f64;
    assert!((1.0..3.0).contains(&share), "modelled {modelled}, counted {of_parts}");
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
        after.requests - before.requests,
        after.writes - before.writes,
        after.multis - before.multis,
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
