//! Reads a run back from ClickHouse and compares every column of every row. Tables are read in
//! slices of time, so that neither side holds a large answer; our own memory is two bits a record.

mod cell;
mod compare;
mod judge;
mod report;
mod rows;
mod tally;
#[cfg(test)]
#[path = "../../tests/unit/check.rs"]
mod tests;
mod text;

use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use millrace_ddl::render::check;
use millrace_ddl::{Attributes, Client, ClientError, Identifier, TableName};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

pub use cell::RowError;
pub use report::Report;

use crate::acked::Acked;
use crate::plan::{STEP_NANOS, Shape};
use cell::Rows;
use judge::{Judge, Source};
use tally::Tally;

/// Records of a slice: some 60 MB of `RowBinary` with lean spans, 80 MB with what is larger,
/// streamed.
const fn slice_records(shape: Shape) -> u64 {
    match shape {
        Shape::Lean => 200_000,
        Shape::Rich | Shape::Logs | Shape::Metrics => 50_000,
    }
}

/// How often the table is looked at while rows arrive.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a run is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Database of the tables.
    pub database: Identifier,
    /// Table prefix.
    pub prefix: Identifier,
    /// How the tables store attributes.
    pub attributes: Attributes,
    /// How long rows may take to arrive, counted from the start of the check.
    pub deadline: Duration,
}

impl CheckOptions {
    /// JSON attributes in `database.<prefix>_<table>`, and two minutes to arrive.
    #[must_use]
    pub fn new(database: Identifier, prefix: Identifier) -> Self {
        Self { database, prefix, attributes: Attributes::Json, deadline: Duration::from_secs(120) }
    }
}

/// What a running check does, for showing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStep {
    /// Rows still arrive.
    Waiting {
        /// Rows of this run that are there.
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
    /// ClickHouse could not be asked until the deadline.
    #[error("cannot read the table back: {0}")]
    Client(#[from] ClientError),
    /// The answer makes no sense.
    #[error("cannot read the table back: {0}")]
    Row(#[from] RowError),
}

#[derive(ClickHouseRow, Serialize, Deserialize)]
struct CountRow {
    count: u64,
}

/// Waits until every acknowledged record may be there, then compares all of them; goes on waiting
/// and comparing until nothing is missing or the deadline is over. `show` is told what is going on.
///
/// # Errors
/// ClickHouse could not be asked, still at the deadline, or refuses us for good.
pub async fn check(
    acked: &Acked,
    client: &Client,
    options: &CheckOptions,
    mut show: impl FnMut(CheckStep),
) -> Result<Report, CheckError> {
    let until = Instant::now() + options.deadline;
    let acknowledged = acked.records();
    let mut compared_at = None;
    loop {
        let is_last = Instant::now() >= until;
        let rows = match count(acked, client, options).await {
            Ok(rows) => rows,
            Err(error) if is_final(&error) || is_last => return Err(error.into()),
            Err(_) => {
                sleep(LOOK_EVERY).await;
                continue;
            }
        };
        show(CheckStep::Waiting { rows, acknowledged });
        // The same rows would give the same result.
        let is_new = compared_at != Some(rows);
        if is_last || (rows >= acknowledged && is_new) {
            compared_at = Some(rows);
            match compare(acked, client, options, &mut show).await {
                Ok(report) if report.missing == 0 || is_last => return Ok(report),
                Ok(_) => {}
                Err(error) if is_last => return Err(error),
                Err(CheckError::Client(error)) if is_final(&error) => return Err(error.into()),
                // The server went away half-way: what was read is worth nothing.
                Err(_) => compared_at = None,
            }
        }
        sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now()))).await;
    }
}

/// Rows of the run in all its tables.
async fn count(acked: &Acked, client: &Client, options: &CheckOptions) -> Result<u64, ClientError> {
    let prefix = acked.plan.service_prefix();
    let mut sum = 0;
    for Source { table, .. } in Judge::new(&acked.plan, options.attributes).sources() {
        let name = TableName::new(&options.database, &options.prefix, table.kind);
        let found: Vec<CountRow> = client.fetch(&check::count_rows(&name, &prefix)).await?;
        sum += found.first().map_or(0, |row| row.count);
    }
    Ok(sum)
}

/// Whether waiting cannot help. A server that is away or busy comes back, a table may yet be made.
fn is_final(error: &ClientError) -> bool {
    use millrace_ddl::Category;
    matches!(
        error.category(),
        Category::Authentication | Category::Privilege | Category::Tls | Category::Setup
    )
}

async fn compare(
    acked: &Acked,
    client: &Client,
    options: &CheckOptions,
    show: &mut impl FnMut(CheckStep),
) -> Result<Report, CheckError> {
    let prefix = acked.plan.service_prefix();
    let judge = Judge::new(&acked.plan, options.attributes);
    let sources = judge.sources();
    let mut tally = Tally::new(acked, judge);
    let mut rows_read = 0;
    for source in &sources {
        let name = TableName::new(&options.database, &options.prefix, source.table.kind);
        for (from, to) in slices(acked) {
            let query = check::rows(&name, &source.table, &prefix, from, to);
            let mut answer = client.stream(&query, "RowBinary").await?;
            let mut rows = Rows::new(&source.forms);
            while let Some(piece) = answer.next().await? {
                rows.feed(&piece, |row| {
                    tally.row(source, row);
                    rows_read += 1;
                })?;
            }
            rows.finish()?;
            show(CheckStep::Comparing { rows: rows_read });
        }
    }
    Ok(tally.finish())
}

/// Slices that together hold every time there is, open at both ends: a row whose time was altered
/// is still in one.
fn slices(acked: &Acked) -> Vec<(Option<i64>, Option<i64>)> {
    let start = i64::try_from(acked.plan.start_unix_nanos).unwrap_or(i64::MAX);
    let records = slice_records(acked.plan.shape);
    let width = i64::try_from(records * STEP_NANOS).unwrap_or(i64::MAX);
    let count = acked.plan.count.div_ceil(records).max(1);
    let inner = (1..count).map(|at| Some(start.saturating_add(width.saturating_mul(at as i64))));
    let cuts: Vec<Option<i64>> =
        std::iter::once(None).chain(inner).chain(std::iter::once(None)).collect();
    cuts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
