//! Reads a run back from ClickHouse and compares every column of every row. It reads tables in
//! slices of time, so that neither side holds a large answer; its own memory is two bits a record.

mod cell;
mod compare;
mod report;
mod row_checker;
mod rows;
mod tally;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use millrace_ddl::render::check;
use millrace_ddl::{AttributeStorage, ClientError, DdlClient, Identifier, TableName};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

pub use cell::RowError;
pub use report::CheckReport;

use crate::acked::SendState;
use crate::plan::{LoadShape, STEP_NANOS};
use cell::Rows;
use row_checker::{CheckedTable, RowChecker};
use tally::Tally;

/// Returns the records of a slice: some 60 MB of `RowBinary` with lean spans, 80 MB with larger
/// shapes, streamed.
const fn slice_records(shape: LoadShape) -> u64 {
    match shape {
        LoadShape::Lean | LoadShape::Ruled => 200_000,
        LoadShape::Rich | LoadShape::Logs | LoadShape::Metrics => 50_000,
    }
}

/// How often the table is polled while rows arrive.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Options of a check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Database of the tables.
    pub database: Identifier,
    /// Table prefix.
    pub prefix: Identifier,
    /// How the tables store attributes.
    pub attributes: AttributeStorage,
    /// How long rows may take to arrive, counted from the start of the check.
    pub deadline: Duration,
}

impl CheckOptions {
    /// Creates options with Map attributes in `database.<prefix>_<table>`, and two minutes for
    /// rows to arrive.
    #[must_use]
    pub fn new(database: Identifier, prefix: Identifier) -> Self {
        Self {
            database,
            prefix,
            attributes: AttributeStorage::default(),
            deadline: Duration::from_secs(120),
        }
    }
}

/// The progress of a check, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStep {
    /// Rows still arrive.
    Waiting {
        /// Stored rows of this run.
        rows: u64,
        /// Records that were acknowledged.
        acknowledged: u64,
    },
    /// Rows are compared.
    Comparing {
        /// Rows compared so far.
        rows: u64,
    },
}

/// A run could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// ClickHouse could not be queried until the deadline.
    #[error("cannot read the table back: {0}")]
    Client(#[from] ClientError),
    /// The answer is invalid.
    #[error("cannot read the table back: {0}")]
    Row(#[from] RowError),
}

#[derive(ClickHouseRow, Serialize, Deserialize)]
struct CountRow {
    count: u64,
}

/// Waits until every acknowledged record may be stored, then compares all of them; repeats both
/// until nothing is missing or the deadline is over. `show` receives the progress.
///
/// # Errors
/// ClickHouse could not be queried, still at the deadline, or refuses the client permanently.
pub async fn check_load(
    acked: &SendState,
    client: &DdlClient,
    options: &CheckOptions,
    mut show: impl FnMut(CheckStep),
) -> Result<CheckReport, CheckError> {
    let until = Instant::now() + options.deadline;
    let acknowledged = acked.acked_records();
    let mut compared_at = None;
    loop {
        let is_last = Instant::now() >= until;
        let rows = match count_rows(acked, client, options).await {
            Ok(rows) => rows,
            Err(error) if is_final(&error) || is_last => return Err(error.into()),
            Err(_) => {
                sleep(POLL_INTERVAL).await;
                continue;
            }
        };
        show(CheckStep::Waiting { rows, acknowledged });
        // The same rows would give the same result.
        let is_new = compared_at != Some(rows);
        if is_last || (rows >= acknowledged && is_new) {
            compared_at = Some(rows);
            match compare_rows(acked, client, options, &mut show).await {
                Ok(report) if report.missing == 0 || is_last => return Ok(report),
                Ok(_) => {}
                Err(error) if is_last => return Err(error),
                Err(CheckError::Client(error)) if is_final(&error) => return Err(error.into()),
                // The server went away half-way: the rows read so far are discarded.
                Err(_) => compared_at = None,
            }
        }
        sleep(POLL_INTERVAL.min(until.saturating_duration_since(Instant::now()))).await;
    }
}

/// Returns the number of the run's rows in all its tables.
async fn count_rows(
    acked: &SendState,
    client: &DdlClient,
    options: &CheckOptions,
) -> Result<u64, ClientError> {
    let prefix = acked.plan.service_prefix();
    let mut sum = 0;
    for CheckedTable { table, .. } in
        RowChecker::new(&acked.plan, options.attributes).build_sources()
    {
        let name = TableName::new(&options.database, &options.prefix, table.kind);
        let found: Vec<CountRow> = client.fetch(&check::count_rows(&name, &prefix)).await?;
        sum += found.first().map_or(0, |row| row.count);
    }
    Ok(sum)
}

/// Returns whether waiting can't help. A server that is away or busy may recover, and a table may
/// yet be created.
fn is_final(error: &ClientError) -> bool {
    use millrace_ddl::Category;
    matches!(
        error.category(),
        Category::Authentication | Category::Privilege | Category::Tls | Category::Setup
    )
}

async fn compare_rows(
    acked: &SendState,
    client: &DdlClient,
    options: &CheckOptions,
    show: &mut impl FnMut(CheckStep),
) -> Result<CheckReport, CheckError> {
    let prefix = acked.plan.service_prefix();
    let judge = RowChecker::new(&acked.plan, options.attributes);
    let sources = judge.build_sources();
    let mut tally = Tally::new(acked, judge);
    let mut rows_read = 0;
    for source in &sources {
        let name = TableName::new(&options.database, &options.prefix, source.table.kind);
        for (from, to) in time_slices(acked) {
            let query = check::select_rows(&name, &source.table, &prefix, from, to);
            let mut answer = client.stream(&query, "RowBinary").await?;
            let mut rows = Rows::new(&source.forms);
            while let Some(piece) = answer.next().await? {
                rows.feed(&piece, |row| {
                    tally.add_row(source, row);
                    rows_read += 1;
                })?;
            }
            rows.finish()?;
            show(CheckStep::Comparing { rows: rows_read });
        }
    }
    Ok(tally.into_report())
}

/// Returns slices that together cover all times, open at both ends: a row whose time was altered is
/// still in one.
fn time_slices(acked: &SendState) -> Vec<(Option<i64>, Option<i64>)> {
    let start = i64::try_from(acked.plan.start_unix_nanos).unwrap_or(i64::MAX);
    let records = slice_records(acked.plan.shape);
    let width = i64::try_from(records * STEP_NANOS).unwrap_or(i64::MAX);
    let count = acked.plan.count.div_ceil(records).max(1);
    let inner = (1..count).map(|at| Some(start.saturating_add(width.saturating_mul(at as i64))));
    let cuts: Vec<Option<i64>> =
        std::iter::once(None).chain(inner).chain(std::iter::once(None)).collect();
    cuts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
