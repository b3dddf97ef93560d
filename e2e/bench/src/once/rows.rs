//! What rows cost that carry their file and offset, in a table that keeps one of each, beside rows
//! without: bytes, inserts, merges, and what a reader waits for who wants each row once.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use millrace_stack::clickhouse::{Engine, EngineOptions};
use serde_json::json;

use crate::bill::counters::Counters;
use crate::case::Size;
use crate::say;

/// Rows of an insert, and inserts before a merge.
const INSERT_ROWS: u64 = 100_000;
const INSERTS: u64 = 10;
/// Each table is made, filled and merged so often; figures are medians.
const ROUNDS: usize = 5;
/// How often a reader asks; the first time doesn't count.
const ASKED: usize = 4;

/// Lines of 100 pods, drawn by chance from words: number, pod, time, text.
const STAGE: &str = "\
CREATE TABLE otel.stage ENGINE = Memory AS
WITH ['request', 'order', 'payment', 'cart', 'failed', 'user', 'timeout', 'retry', 'inventory',
      'shipped', 'queue', 'cache', 'miss', 'hit', 'latency', 'connection'] AS words
SELECT number AS Number,
       toString(intDiv(number, 64) % 100) AS Pod,
       fromUnixTimestamp64Nano(toInt64(1764000000000000000 + number * 100000)) AS Timestamp,
       arrayStringConcat(arrayMap(i -> if(rand(i) % 8 = 0, toString(rand(i + 100) % 16777216),
           words[1 + intHash32(number * 32 + i) % 16]), range(24)), ' ') AS Body
FROM numbers(ROWS)";

/// The columns of both tables that matter, as the collector's own table has them.
const COLUMNS: &str = "\
Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
ServiceName LowCardinality(String) CODEC(ZSTD(1)),
Body String CODEC(ZSTD(1)),
ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1))";

/// A table: its name, further columns, engine and order, and what is selected for them.
struct Table {
    name: &'static str,
    columns: &'static str,
    engine: &'static str,
    order: &'static str,
    values: &'static str,
    /// Settings of inserts.
    settings: &'static str,
}

const WITH_IDS: Table = Table {
    name: "",
    columns: ",\nFileId UInt64 CODEC(ZSTD(1)),\nFileOffset UInt64 CODEC(Delta(8), ZSTD(1))",
    engine: "ReplacingMergeTree",
    order: "ServiceName, Timestamp, FileId, FileOffset",
    values: ", cityHash64(Pod), (intDiv(Number, 6400) * 64 + Number % 64) * 216",
    settings: "",
};

const TABLES: &[Table] = &[
    Table {
        name: "plain",
        columns: "",
        engine: "MergeTree",
        order: "ServiceName, Timestamp",
        values: "",
        settings: "",
    },
    Table { name: "ids", settings: "", ..WITH_IDS },
    // Rows of one insert aren't compared with each other.
    Table { name: "ids_as_inserted", settings: ", optimize_on_insert = 0", ..WITH_IDS },
];

/// What one filling of a table came to.
#[derive(Debug, Clone, Copy)]
struct Figures {
    insert_seconds: f64,
    merge_seconds: f64,
    bytes: f64,
    count_ms: f64,
    final_ms: f64,
}

/// Fills and merges both tables in turns: one line of JSON for each.
pub(super) fn run(size: Size) -> Result<Vec<String>> {
    let rounds = if size == Size::Full { ROUNDS } else { 3 };
    let engine = Engine::start(EngineOptions::default()).context("no engine")?;
    engine.query("CREATE DATABASE IF NOT EXISTS otel")?;
    let rows = INSERT_ROWS * INSERTS;
    engine.query(&STAGE.replace("ROWS", &rows.to_string())).context("no rows")?;
    let mut all: Vec<Vec<Figures>> = TABLES.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (table, figures) in TABLES.iter().zip(&mut all) {
            let made = fill(&engine, table, rows).with_context(|| table.name)?;
            say::progress(&format!("{round}/{rounds} {}: {made:?}", table.name));
            figures.push(made);
        }
    }
    let line = |(table, figures): (&Table, &Vec<Figures>)| {
        let of = |figure: fn(&Figures) -> f64| {
            let mut figures: Vec<f64> = figures.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            (figures[figures.len() / 2] * 10.0).round() / 10.0
        };
        json!({
            "case": "once-rows",
            "table": table.name,
            "rows": rows,
            "bytes_per_row": of(|it| it.bytes / (INSERT_ROWS * INSERTS) as f64),
            "insert_ns": of(|it| it.insert_seconds * 1e9 / (INSERT_ROWS * INSERTS) as f64),
            "merge_ns": of(|it| it.merge_seconds * 1e9 / (INSERT_ROWS * INSERTS) as f64),
            "read_ms": of(|it| it.count_ms),
            "read_each_once_ms": of(|it| it.final_ms),
        })
        .to_string()
    };
    Ok(TABLES.iter().zip(&all).map(line).collect())
}

fn fill(engine: &Engine, table: &Table, rows: u64) -> Result<Figures> {
    let Table { name, columns, engine: kind, order, values, settings } = table;
    engine.query(&format!("DROP TABLE IF EXISTS otel.{name} SYNC"))?;
    engine.query(&format!(
        "CREATE TABLE otel.{name} (\n{COLUMNS}{columns})\nENGINE = {kind} ORDER BY ({order})"
    ))?;
    engine.query(&format!("SYSTEM STOP MERGES otel.{name}"))?;
    let start = Counters::of(engine)?;
    for insert in 0..INSERTS {
        let (from, until) = (insert * INSERT_ROWS, (insert + 1) * INSERT_ROWS);
        engine.query(&format!(
            "INSERT INTO otel.{name} SELECT Timestamp, concat('shop-', Pod), Body, \
             map('k8s.namespace.name', 'shop', 'k8s.pod.name', Pod){values} FROM otel.stage \
             WHERE Number >= {from} AND Number < {until} \
             SETTINGS max_insert_threads = 1, max_threads = 1{settings}"
        ))?;
    }
    let inserted = Counters::of(engine)?;
    // Parts of inserts overlap where a row came twice: this is what such a reader asks.
    let read = format!("SELECT count(), max(length(Body)) FROM otel.{name}");
    let count_ms = asked(engine, &read)?;
    let is_plain = values.is_empty();
    let final_ms = if is_plain { count_ms } else { asked(engine, &format!("{read} FINAL"))? };
    engine.query(&format!("SYSTEM START MERGES otel.{name}"))?;
    let before = Counters::of(engine)?;
    engine.query(&format!("OPTIMIZE TABLE otel.{name} FINAL"))?;
    let merged = Counters::of(engine)?;
    let stored = engine.query(&format!(
        "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts \
         WHERE active AND database = 'otel' AND table = '{name}'"
    ))?;
    let mut stored = stored.split_whitespace().map(str::parse::<u64>);
    let mut next = || stored.next().context("no parts")?.context("not a number");
    let (kept, bytes) = (next()?, next()?);
    ensure!(kept == rows, "{rows} rows became {kept}");
    Ok(Figures {
        insert_seconds: inserted.process_seconds - start.process_seconds,
        merge_seconds: merged.process_seconds - before.process_seconds,
        bytes: bytes as f64,
        count_ms,
        final_ms,
    })
}

/// Milliseconds that an answer takes on one thread.
fn asked(engine: &Engine, sql: &str) -> Result<f64> {
    let sql = format!("{sql} SETTINGS max_threads = 1");
    let mut taken = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let began = Instant::now();
        engine.query(&sql)?;
        taken.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let mut taken = taken.split_off(1);
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}
