//! Renders queries about Keeper for a ClickHouse server: its sessions, replicas, counters, and its
//! tables' requests. Column names in each `SELECT` are the fields of the row types in
//! `coordination`.

use millrace_schema::Identifier;

use crate::render::{Statement, literal, quote};

/// The system tables of these queries, which a user may lack the right to read.
pub(crate) const SESSIONS: &str = "zookeeper_connection";
/// See [`SESSIONS`].
pub(crate) const REPLICAS: &str = "replicas";
/// See [`SESSIONS`].
pub(crate) const EVENTS: &str = "events";
/// See [`SESSIONS`].
pub(crate) const PARTS: &str = "part_log";

/// The period over which a table's load is counted, in seconds: the greatest age of figures in a
/// status.
const LOAD_SECONDS: u32 = 600;

/// Reads the server's sessions. The age comes from the time of connecting, which every version has.
pub(crate) fn select_sessions() -> Statement {
    Statement::new(format!(
        "SELECT name, host, toUInt16(port) AS port, toUInt8(is_expired) AS is_expired, \
         toUInt64(greatest(0, dateDiff('second', connected_time, now()))) AS age_seconds \
         FROM system.{SESSIONS} ORDER BY name"
    ))
}

/// Reads the server's replicas of the named tables.
pub(crate) fn replica_states(database: &Identifier, names: &[&str]) -> Statement {
    let database = literal(database.as_str());
    let names = names.iter().copied().map(literal).collect::<Vec<_>>().join(", ");
    Statement::new(format!(
        "SELECT table, toUInt8(is_readonly) AS is_readonly, \
         toUInt8(is_session_expired) AS is_session_expired, zookeeper_exception AS exception, \
         toUInt64(queue_size) AS queue_entries, toUInt64(absolute_delay) AS delay_seconds, \
         toUInt64(total_replicas) AS total, toUInt64(active_replicas) AS active \
         FROM system.{REPLICAS} WHERE database = {database} AND table IN ({names}) ORDER BY table"
    ))
}

/// Returns the statement with which an administrator lets a user read these tables, and no other of
/// `system`.
pub(crate) fn grant_reading(tables: &[&str], user: &str) -> String {
    let each: Vec<String> =
        tables.iter().map(|table| format!("SELECT ON system.{table}")).collect();
    format!("GRANT {} TO {}", each.join(", "), quote(user))
}

/// Reads the server's counters in one row; an unused counter is 0.
pub(crate) fn keeper_counters() -> Statement {
    let counter = |event: &str, name: &str| {
        format!("toUInt64(sumIf(value, event = {})) AS {name}", literal(event))
    };
    let counters = [
        counter("ZooKeeperTransactions", "requests"),
        counter("ZooKeeperMulti", "multi_requests"),
        counter("ZooKeeperWaitMicroseconds", "wait_microseconds"),
        counter("ZooKeeperHardwareExceptions", "broken"),
        counter("InsertedRows", "rows"),
    ];
    Statement::new(format!("SELECT {} FROM system.{EVENTS}", counters.join(", ")))
}

/// Counts recent Keeper requests of the named tables' parts. ClickHouse counts a thread's requests
/// while it writes and commits a part, fetches one or merges; it doesn't count requests that pull
/// and clean a table's queue (newer versions have those by path in `aggregated_zookeeper_log`). An
/// insert dropped as repeated (code 389) has requests and no rows.
pub(crate) fn table_loads(database: &Identifier, names: &[&str]) -> Statement {
    let database = literal(database.as_str());
    let names = names.iter().copied().map(literal).collect::<Vec<_>>().join(", ");
    let inserted = "event_type = 'NewPart' AND error = 0";
    Statement::new(format!(
        "SELECT table, toUInt64(countIf({inserted})) AS parts, \
         toUInt64(sumIf(rows, {inserted})) AS inserted_rows, \
         toUInt64(sum(ProfileEvents['ZooKeeperTransactions'])) AS requests \
         FROM system.{PARTS} WHERE event_date >= toDate(now() - {LOAD_SECONDS}) \
         AND event_time >= now() - {LOAD_SECONDS} AND database = {database} \
         AND table IN ({names}) GROUP BY table ORDER BY table"
    ))
}
