//! Reads a run back from ClickHouse and compares every column of every row. The table is read in
//! slices of time, so that neither side holds a large answer; our own memory is two bits a span.

mod compare;
mod report;
mod row;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use millrace_ddl::render::check::{count_spans, spans};
use millrace_ddl::{Attributes, Client, ClientError, Identifier, TableKind, TableName};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

pub use report::Report;
pub use row::RowError;

use crate::acked::Acked;
use crate::plan::STEP_NANOS;
use compare::Judge;
use row::Rows;
use tally::Tally;

/// Spans of a slice: some 60 MB of `RowBinary` lean, 180 MB rich, streamed.
const SLICE_SPANS: u64 = 200_000;

/// How often the table is looked at while rows arrive.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a run is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Database of the span table.
    pub database: Identifier,
    /// Table prefix.
    pub prefix: Identifier,
    /// How the table stores attributes.
    pub attributes: Attributes,
    /// How long rows may take to arrive, counted from the start of the check.
    pub deadline: Duration,
}

impl CheckOptions {
    /// JSON attributes in `database.<prefix>_traces`, and two minutes to arrive.
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
        /// Spans that were acknowledged.
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

/// Waits until every acknowledged span may be there, then compares all of them; goes on waiting and
/// comparing until nothing is missing or the deadline is over. `show` is told what is going on.
///
/// # Errors
/// ClickHouse could not be asked, still at the deadline, or refuses us for good.
pub async fn check(
    acked: &Acked,
    client: &Client,
    options: &CheckOptions,
    mut show: impl FnMut(CheckStep),
) -> Result<Report, CheckError> {
    let table = TableName::new(&options.database, &options.prefix, TableKind::Traces);
    let until = Instant::now() + options.deadline;
    let acknowledged = acked.spans();
    let mut compared_at = None;
    loop {
        let is_last = Instant::now() >= until;
        let counted: Result<Vec<CountRow>, _> =
            client.fetch(&count_spans(&table, &acked.plan.service_prefix())).await;
        let rows = match counted {
            Ok(found) => found.first().map_or(0, |row| row.count),
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
            match compare(acked, client, options, &table, &mut show).await {
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
    table: &TableName,
    show: &mut impl FnMut(CheckStep),
) -> Result<Report, CheckError> {
    let prefix = acked.plan.service_prefix();
    let mut tally = Tally::new(acked, Judge::new(&acked.plan, options.attributes));
    let mut rows_read = 0;
    for (from, to) in slices(acked) {
        let mut answer = client.stream(&spans(table, &prefix, from, to), "RowBinary").await?;
        let mut rows = Rows::default();
        while let Some(piece) = answer.next().await? {
            rows.feed(&piece, |row| {
                tally.row(row);
                rows_read += 1;
            })?;
        }
        rows.finish()?;
        show(CheckStep::Comparing { rows: rows_read });
    }
    Ok(tally.finish())
}

/// Slices that together hold every time there is, open at both ends: a row whose time was altered
/// is still in one.
fn slices(acked: &Acked) -> Vec<(Option<i64>, Option<i64>)> {
    let start = i64::try_from(acked.plan.start_unix_nanos).unwrap_or(i64::MAX);
    let width = i64::try_from(SLICE_SPANS * STEP_NANOS).unwrap_or(i64::MAX);
    let count = acked.plan.count.div_ceil(SLICE_SPANS).max(1);
    let inner = (1..count).map(|at| Some(start.saturating_add(width.saturating_mul(at as i64))));
    let cuts: Vec<Option<i64>> =
        std::iter::once(None).chain(inner).chain(std::iter::once(None)).collect();
    cuts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
