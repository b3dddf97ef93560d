//! The committed part of the comparison: requests of every kind with the rows that the
//! OpenTelemetry Collector's exporter made of them, under `e2e/tests/data/conformance`. They are
//! written by `conformance::against_otelcol` with `MILLRACE_RECORD=1`, from the Collector's own rows.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use millrace_e2e::binaries;
use millrace_e2e::lab::Variant;
use millrace_loadgen::{LoadPlan, LoadShape, encode_request};
use millrace_schema::{Table, TableKind};
use millrace_wire::Signal;

use super::odd;
use super::rows::{self, Row};

/// 2026-02-01 in nanoseconds since 1970: after the odd values.
const START_NANOS: u64 = 1_769_904_000_000_000_000;
const NANOS_PER_DAY: u64 = 86_400_000_000_000;
/// The data sets: name, shape, records, and records of a resource. They are enough for each rare
/// case to occur; a resource's points are of all kinds if they are a hundred.
const LOADS: [(&str, LoadShape, u64, u32); 4] = [
    ("spans-lean", LoadShape::Lean, 20, 10),
    ("spans-rich", LoadShape::Rich, 20, 10),
    ("logs", LoadShape::Logs, 40, 10),
    ("points", LoadShape::Metrics, 100, 100),
];
const ODD: &str = "logs-odd";

/// One request: its signal and its bytes.
pub(crate) struct Request {
    pub(crate) signal: Signal,
    pub(crate) bytes: Vec<u8>,
}

fn folder() -> PathBuf {
    binaries::root().join("e2e/tests/data/conformance")
}

fn rows_file(table: &Table, variant: Variant) -> PathBuf {
    let variant = match variant {
        Variant::Json => "json",
        Variant::Map => "map",
    };
    folder().join(format!("{}-{variant}.jsonl", table.kind))
}

/// The requests as they are committed.
pub(crate) fn requests() -> Result<Vec<Request>> {
    let names = LOADS.map(|(name, shape, ..)| (name, shape.signal()));
    let names = names.into_iter().chain([(ODD, Signal::Logs)]);
    names
        .map(|(name, signal)| {
            let file = folder().join(format!("{name}.bin"));
            let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
            Ok(Request { signal, bytes })
        })
        .collect()
}

/// The committed rows of a table: regular ones, then those of odd values.
pub(crate) fn rows(table: &Table, variant: Variant) -> Result<(Vec<Row>, Vec<Row>)> {
    let file = rows_file(table, variant);
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let mut rows = rows::parse(&text)?;
    anyhow::ensure!(!rows.is_empty(), "{} is empty", file.display());
    let names = rows.remove(0);
    anyhow::ensure!(names == rows::names(table), "{}: other columns: {names:?}", file.display());
    Ok(split(table, rows))
}

/// Rows by time: regular ones, and before them those of odd values.
pub(crate) fn split(table: &Table, mut rows: Vec<Row>) -> (Vec<Row>, Vec<Row>) {
    let odd = if table.kind == TableKind::Logs { odd::count().min(rows.len()) } else { 0 };
    let regular = rows.split_off(odd);
    (regular, rows)
}

/// How many rows of a signal the requests make.
pub(crate) fn count(signal: Signal) -> u64 {
    let loads = LOADS.iter().filter(|(_, shape, ..)| shape.signal() == signal);
    let odd = if signal == Signal::Logs { odd::count() as u64 } else { 0 };
    loads.map(|(_, _, records, _)| records).sum::<u64>() + odd
}

/// Writes the requests anew.
pub(crate) fn record_requests() -> Result<()> {
    for (days, (name, shape, count, records_per_resource)) in (0..).zip(LOADS) {
        let plan = LoadPlan {
            records_per_resource,
            ..LoadPlan::new(shape, 7, count, START_NANOS + days * NANOS_PER_DAY)
        };
        anyhow::ensure!(plan.request_count() == 1, "{name}: {} requests", plan.request_count());
        fs::write(folder().join(format!("{name}.bin")), encode_request(&plan, 0))?;
    }
    fs::write(folder().join(format!("{ODD}.bin")), odd::request())?;
    Ok(())
}

/// Writes a table's rows anew.
pub(crate) fn record_rows(table: &Table, variant: Variant, rows: &[Row]) -> Result<()> {
    let mut text = String::new();
    for row in std::iter::once(&rows::names(table)).chain(rows) {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(fs::write(rows_file(table, variant), text)?)
}
