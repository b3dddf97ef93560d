//! `rows`: looks for the rows of test records in ClickHouse, with the collector's own log-in, until
//! all are there. `kubectl millrace send` and `verify` run it in a gateway's pod, so that nobody
//! needs that log-in elsewhere. It only reads, and only rows of test records.
//!
//! A line of JSON for each look. Exit codes: 0 the last line says what is stored, whole or not; 1
//! it can't be told; 64 the settings can't be used.
//!
//! Limits: 10,000 records, 15 minutes.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use millrace_collector::args::Rows;
use millrace_config::Mode;
use millrace_exporters::clickhouse::{LookError, Seen, SinkError, TestRows, TestRun};
use serde_json::json;

use crate::output;
use crate::run::{EXIT_FAILED, EXIT_SETTINGS, load};

/// Between looks while somebody watches a record's way: a look is one narrow query.
const INTERVAL: Duration = Duration::from_millis(250);
/// Between later looks.
const INTERVAL_LATER: Duration = Duration::from_secs(1);
/// When they are later ones.
const LATER: Duration = Duration::from_secs(10);

/// Why it ends early.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// The settings of an edge.
    #[error("{0}: this collector has no ClickHouse: use the settings of a gateway")]
    NoClickHouse(String),
    /// Secrets, certificates, names.
    #[error(transparent)]
    Settings(#[from] SinkError),
    /// No look told anything by the end.
    #[error(transparent)]
    Look(#[from] LookError),
    /// Nobody reads the answer.
    #[error("the answer cannot be written: {0}")]
    Output(#[from] io::Error),
    /// Nothing can wait here.
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

/// Carries the command out.
pub(crate) fn run(arguments: Rows) -> ExitCode {
    let checked = match load(&arguments.config) {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    let done = table(checked.mode, &arguments).and_then(|rows| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Stop::Runtime)?;
        runtime.block_on(watch(&rows, &arguments, &mut io::stdout().lock()))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has read enough.
        Err(Stop::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(stop) => {
            let settings = matches!(stop, Stop::NoClickHouse(_) | Stop::Settings(_));
            output::complaint(&stop);
            ExitCode::from(if settings { EXIT_SETTINGS } else { EXIT_FAILED })
        }
    }
}

fn table(mode: Mode, arguments: &Rows) -> Result<TestRows, Stop> {
    let path: &Path = &arguments.config;
    match mode {
        Mode::Gateway { clickhouse, .. } | Mode::Direct { clickhouse, .. } => {
            Ok(TestRows::new(&clickhouse, arguments.signal)?)
        }
        Mode::Edge { .. } => Err(Stop::NoClickHouse(path.display().to_string())),
    }
}

/// Looks until all are there or the time is over. A look that failed is told too, so that whoever
/// reads sees that there is an attempt, and so that a reader who went away is noticed.
async fn watch(rows: &TestRows, arguments: &Rows, out: &mut impl Write) -> Result<(), Stop> {
    let Rows { run, since, expect, wait, .. } = arguments;
    let run = TestRun { id: run.clone(), since_seconds: *since };
    let began = Instant::now();
    let deadline = Duration::from_secs((*wait).into());
    let table = rows.name().to_string();
    loop {
        let looked = rows.look(&run, *expect).await;
        let elapsed = began.elapsed();
        let is_last = elapsed >= deadline;
        match looked {
            Ok(seen) => {
                say(out, &told(&table, *expect, &seen))?;
                if seen.is_whole() || is_last {
                    return Ok(());
                }
            }
            Err(error) if is_last || !error.may_pass() => return Err(error.into()),
            Err(error) => say(out, &json!({"table": table, "error": error.to_string()}))?,
        }
        let interval = if elapsed < LATER { INTERVAL } else { INTERVAL_LATER };
        tokio::time::sleep(interval.min(deadline.saturating_sub(elapsed))).await;
    }
}

fn told(table: &str, expect: u32, seen: &Seen) -> serde_json::Value {
    json!({
        "table": table,
        "expected": expect,
        "found": seen.found,
        "repeated": seen.repeated,
        "unexpected": seen.unexpected,
        "missingFirst": seen.missing_first,
    })
}

fn say(out: &mut impl Write, line: &serde_json::Value) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}
