//! Renders the journal of migrations: its table, its rows, and their query. Rows are only ever
//! added. The journal is not replicated: each server reports its own history.

use std::time::Duration;

use super::{Statement, literal, qualified_name};
use crate::declared::names::TableName;
use crate::migrate::journal::Row;

/// The maximum number of migrations read back. One has some 20 rows, of which one has its
/// statements (16 KiB if all tables are created): 1 MiB, a quarter of the longest accepted answer.
const MIGRATIONS_READ_MAX: u32 = 50;

/// Days after which a claim's rows expire: long after its lease of 90 seconds.
const CLAIM_DAYS: u32 = 7;

/// Creates the journal's table.
pub(crate) fn create_journal(name: &TableName) -> Statement {
    Statement::new(format!(
        "CREATE TABLE IF NOT EXISTS {}\n(\n    \
         `Number` UInt32,\n    `Event` LowCardinality(String),\n    `Position` UInt32,\n    \
         `At` DateTime64(3, 'UTC') DEFAULT now64(3),\n    `Runner` String,\n    \
         `Author` String,\n    `Tool` String,\n    `Phase` LowCardinality(String),\n    \
         `Origin` LowCardinality(String),\n    `Revision` String,\n    \
         `Statements` Array(String),\n    `DurationMs` UInt64,\n    `Detail` String\n)\n\
         ENGINE = MergeTree\nORDER BY (`Number`, `At`)\n\
         TTL toDateTime(`At`) + toIntervalDay({CLAIM_DAYS}) DELETE \
         WHERE `Event` IN ('claimed', 'released')\n\
         COMMENT 'Migrations of the OpenTelemetry tables; rows are never changed'",
        qualified_name(name)
    ))
}

/// Writes one row. It is on disk when the server answers, and every later read returns it.
pub(crate) fn insert_journal_row(name: &TableName, row: &Row) -> Statement {
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
        statements,
        duration_millis,
        detail,
        now_millis: _,
    } = row;
    let statements: Vec<String> = statements.iter().map(|text| literal(text)).collect();
    let texts = [author, tool, phase, origin, revision].map(|text| literal(text)).join(", ");
    Statement::new(format!(
        "INSERT INTO {} (`Number`, `Event`, `Position`, `Runner`, `Author`, `Tool`, `Phase`, \
         `Origin`, `Revision`, `Statements`, `DurationMs`, `Detail`) \
         VALUES ({number}, {}, {position}, {}, {texts}, [{}], {duration_millis}, {})",
        qualified_name(name),
        literal(event),
        literal(runner),
        statements.join(", "),
        literal(detail),
    ))
    .with_setting("async_insert", "0")
}

/// Reads the rows of the latest migrations, and of runs that wrote within `lease`, in the order
/// written, each with the server's time of reading. The answer's length doesn't grow with the
/// journal. A cloud's replicas see each other's rows at once only with this setting, which
/// concurrent runs require.
pub(crate) fn read_journal(name: &TableName, lease: Duration) -> Statement {
    let (journal, lease_millis) = (qualified_name(name), lease.as_millis());
    Statement::new(format!(
        "SELECT Number AS number, toString(Event) AS event, Position AS position, \
         toUnixTimestamp64Milli(At) AS at_millis, Runner AS runner, Author AS author, \
         Tool AS tool, toString(Phase) AS phase, toString(Origin) AS origin, \
         Revision AS revision, Statements AS statements, DurationMs AS duration_millis, \
         Detail AS detail, toUnixTimestamp64Milli(now64(3)) AS now_millis \
         FROM {journal} WHERE (Number > 0 AND Number + {MIGRATIONS_READ_MAX} > \
         (SELECT max(Number) FROM {journal})) OR (Event IN ('claimed', 'released') AND Runner IN \
         (SELECT Runner FROM {journal} WHERE At > now64(3) - \
         toIntervalMillisecond({lease_millis}))) ORDER BY At, Number, Position"
    ))
    .with_setting("select_sequential_consistency", "1")
}

/// Reads the holder of each signal's tables: the last one written.
pub(crate) fn read_holders(name: &TableName) -> Statement {
    Statement::new(format!(
        "SELECT arrayJoin(Statements) AS signal, argMax(Author, (At, Author)) AS holder, \
         toUnixTimestamp64Milli(now64(3)) - max(toUnixTimestamp64Milli(At)) AS age_millis \
         FROM {} WHERE Event = 'holds' GROUP BY signal",
        qualified_name(name)
    ))
    .with_setting("select_sequential_consistency", "1")
}
