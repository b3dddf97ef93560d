//! The journal of migrations: its table, its rows, and reading them back. Rows are only ever added.
//! It is not replicated: what a server has been through is told by that server.

use super::{Statement, full, literal};
use crate::journal::Row;
use crate::names::TableName;

/// Rows read back at most: a migration leaves some 20, so this is thousands of them.
const ROWS_READ_MAX: u32 = 100_000;

/// The journal's table.
pub(crate) fn create_journal(name: &TableName) -> Statement {
    Statement::new(format!(
        "CREATE TABLE IF NOT EXISTS {}\n(\n    \
         `Number` UInt32,\n    `Event` LowCardinality(String),\n    `Position` UInt32,\n    \
         `At` DateTime64(3, 'UTC') DEFAULT now64(3),\n    `Runner` String,\n    \
         `Author` String,\n    `Tool` String,\n    `Phase` LowCardinality(String),\n    \
         `Origin` LowCardinality(String),\n    `Revision` String,\n    `Parent` String,\n    \
         `Checksum` String,\n    `Statements` Array(String),\n    `DurationMs` UInt64,\n    \
         `Detail` String\n)\nENGINE = MergeTree\nORDER BY (`Number`, `At`)\n\
         COMMENT 'Migrations of the OpenTelemetry tables; rows are never changed'",
        full(name)
    ))
}

/// One row. It is on disk when the server answers, and seen by every later read.
pub(crate) fn record(name: &TableName, row: &Row) -> Statement {
    let Row {
        number,
        event,
        position,
        at_millis: _,
        runner,
        author,
        tool,
        phase,
        origin,
        revision,
        parent,
        checksum,
        statements,
        duration_millis,
        detail,
        now_millis: _,
    } = row;
    let statements: Vec<String> = statements.iter().map(|text| literal(text)).collect();
    let texts = [author, tool, phase, origin, revision, parent, checksum]
        .map(|text| literal(text))
        .join(", ");
    Statement::new(format!(
        "INSERT INTO {} (`Number`, `Event`, `Position`, `Runner`, `Author`, `Tool`, `Phase`, \
         `Origin`, `Revision`, `Parent`, `Checksum`, `Statements`, `DurationMs`, `Detail`) \
         VALUES ({number}, {}, {position}, {}, {texts}, [{}], {duration_millis}, {})",
        full(name),
        literal(event),
        literal(runner),
        statements.join(", "),
        literal(detail),
    ))
    .with_setting("async_insert", "0")
}

/// Every row in the order written, each with the server's time of reading.
pub(crate) fn read_journal(name: &TableName) -> Statement {
    Statement::new(format!(
        "SELECT Number AS number, toString(Event) AS event, Position AS position, \
         toUnixTimestamp64Milli(At) AS at_millis, Runner AS runner, Author AS author, \
         Tool AS tool, toString(Phase) AS phase, toString(Origin) AS origin, \
         Revision AS revision, Parent AS parent, Checksum AS checksum, \
         Statements AS statements, DurationMs AS duration_millis, Detail AS detail, \
         toUnixTimestamp64Milli(now64(3)) AS now_millis \
         FROM {} ORDER BY At, Number, Position LIMIT {ROWS_READ_MAX}",
        full(name)
    ))
}

/// Who holds each signal's tables: whoever wrote that last.
pub(crate) fn read_holders(name: &TableName) -> Statement {
    Statement::new(format!(
        "SELECT arrayJoin(Statements) AS signal, argMax(Author, (At, Author)) AS holder, \
         toUnixTimestamp64Milli(now64(3)) - max(toUnixTimestamp64Milli(At)) AS age_millis \
         FROM {} WHERE Event = 'holds' GROUP BY signal",
        full(name)
    ))
}
