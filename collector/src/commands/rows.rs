//! `rows`: polls ClickHouse for the rows of test records, with the collector's own credentials,
//! until all exist. `kubectl millrace send` and `verify` run it in a gateway's pod, so that no
//! other process needs those credentials. It only reads, and only rows of test records.
//!
//! It prints a line of JSON for each poll. Exit codes: 0 the last line has the stored rows,
//! complete or not; 1 no result; 64 the settings can't be used.
//!
//! Limits: 10,000 records, 15 minutes.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use millrace_collector::args::Rows;
use millrace_config::{CollectorMode, EdgeExporter};
use millrace_sink_clickhouse::{SinkError, TestRowCounts, TestRows, TestRowsError, TestRun};
use serde_json::json;

use crate::commands::output;
use crate::commands::run::{EXIT_FAILED, EXIT_SETTINGS, load_settings};

/// The interval of polls while somebody follows a record; a poll is one narrow query.
const INTERVAL: Duration = Duration::from_millis(250);
/// The interval of later polls.
const INTERVAL_LATER: Duration = Duration::from_secs(1);
/// The time after which polls are later ones.
const LATER: Duration = Duration::from_secs(10);

/// Why the command ends early.
#[derive(Debug, thiserror::Error)]
enum RowsError {
    /// The settings are an edge's, without ClickHouse.
    #[error("{0}: this collector has no ClickHouse: use the settings of a gateway")]
    NoClickHouse(String),
    /// A secret, certificate or name is invalid.
    #[error(transparent)]
    Settings(#[from] SinkError),
    /// No poll gave a result by the end.
    #[error(transparent)]
    Query(#[from] TestRowsError),
    /// Nobody reads the answer.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The runtime can't start.
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

/// Runs the command.
pub(crate) fn run(arguments: Rows) -> ExitCode {
    let checked = match load_settings(&arguments.config) {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    let done = test_rows(checked.mode, &arguments).and_then(|rows| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(RowsError::Runtime)?;
        runtime.block_on(watch_rows(&rows, &arguments, &mut io::stdout().lock()))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe.
        Err(RowsError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(stop) => {
            let settings = matches!(stop, RowsError::NoClickHouse(_) | RowsError::Settings(_));
            output::print_error(&stop);
            ExitCode::from(if settings { EXIT_SETTINGS } else { EXIT_FAILED })
        }
    }
}

fn test_rows(mode: CollectorMode, arguments: &Rows) -> Result<TestRows, RowsError> {
    let path: &Path = &arguments.config;
    match mode {
        CollectorMode::Gateway { clickhouse, .. }
        | CollectorMode::Edge { exporter: EdgeExporter::ClickHouse(clickhouse), .. } => {
            Ok(TestRows::new(&clickhouse, arguments.signal)?)
        }
        CollectorMode::Edge { .. } => Err(RowsError::NoClickHouse(path.display().to_string())),
    }
}

/// Polls until all rows exist or the time is over. A failed poll is printed too, so that the reader
/// knows of the attempt, and so that a reader that went away is noticed.
async fn watch_rows(
    rows: &TestRows,
    arguments: &Rows,
    out: &mut impl Write,
) -> Result<(), RowsError> {
    let Rows { run, since, expect, wait, .. } = arguments;
    let run = TestRun { id: run.clone(), since_seconds: *since };
    let began = Instant::now();
    let deadline = Duration::from_secs((*wait).into());
    let table = rows.table_name().to_string();
    loop {
        let found = rows.find_rows(&run, *expect).await;
        let elapsed = began.elapsed();
        let is_last = elapsed >= deadline;
        match found {
            Ok(counts) => {
                write_line(out, &report_json(&table, *expect, &counts))?;
                if counts.is_complete() || is_last {
                    return Ok(());
                }
            }
            Err(error) if is_last || !error.may_pass() => return Err(error.into()),
            Err(error) => write_line(out, &json!({"table": table, "error": error.to_string()}))?,
        }
        let interval = if elapsed < LATER { INTERVAL } else { INTERVAL_LATER };
        tokio::time::sleep(interval.min(deadline.saturating_sub(elapsed))).await;
    }
}

fn report_json(table: &str, expect: u32, counts: &TestRowCounts) -> serde_json::Value {
    json!({
        "table": table,
        "expected": expect,
        "found": counts.stored,
        "repeated": counts.repeated,
        "unexpected": counts.unexpected,
        "missingFirst": counts.missing_first,
    })
}

fn write_line(out: &mut impl Write, line: &serde_json::Value) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}
