//! Renders queries on system tables that observe what exists. Column names in each `SELECT` are the
//! fields of the row type that `observe` reads them into.

use millrace_schema::Identifier;

use crate::render::{Statement, literal};

fn literal_list(names: &[&str]) -> String {
    names.iter().copied().map(literal).collect::<Vec<_>>().join(", ")
}

/// Reads the database's engine: one row if it exists.
pub(crate) fn select_databases(name: &Identifier) -> Statement {
    let name = literal(name.as_str());
    Statement::new(format!("SELECT name, engine FROM system.databases WHERE name = {name}"))
}

/// Reads engine and keys of the named tables that exist.
pub(crate) fn select_tables(database: &Identifier, names: &[&str]) -> Statement {
    let (database, names) = (literal(database.as_str()), literal_list(names));
    Statement::new(format!(
        "SELECT name, engine, engine_full, partition_key, sorting_key, create_table_query, \
         toUInt64(ifNull(total_rows, 0)) AS rows, toUInt64(ifNull(total_bytes, 0)) AS bytes \
         FROM system.tables WHERE database = {database} AND name IN ({names}) ORDER BY name"
    ))
}

/// Reads engine and partition key of the named tables that exist, which decide whether an insert's
/// token is remembered. Fields: `name`, `engine`, `engine_full`, `partition_key`, and `server`, the
/// server's version, which decides which settings it accepts.
#[must_use]
pub fn insert_targets(database: &Identifier, names: &[&str]) -> Statement {
    let (database, names) = (literal(database.as_str()), literal_list(names));
    Statement::new(format!(
        "SELECT name, engine, engine_full, partition_key, version() AS server \
         FROM system.tables \
         WHERE database = {database} AND name IN ({names}) ORDER BY name"
    ))
}

/// Reads the columns of the named tables that exist, in order. Fields: `table`, `name`, `kind` (the
/// type) and `default_kind`.
#[must_use]
pub fn select_columns(database: &Identifier, names: &[&str]) -> Statement {
    let (database, names) = (literal(database.as_str()), literal_list(names));
    Statement::new(format!(
        "SELECT table, name, type AS kind, default_kind, compression_codec AS codec \
         FROM system.columns \
         WHERE database = {database} AND table IN ({names}) ORDER BY table, position"
    ))
}

/// Reads the data-skipping indexes of the named tables that exist: `kind` is the type's name.
pub(crate) fn select_indexes(database: &Identifier, names: &[&str]) -> Statement {
    let (database, names) = (literal(database.as_str()), literal_list(names));
    Statement::new(format!(
        "SELECT table, name, expr, type AS kind FROM system.data_skipping_indices \
         WHERE database = {database} AND table IN ({names}) ORDER BY table, name"
    ))
}

/// Reads the server's facts: one row.
pub(crate) fn select_server() -> Statement {
    Statement::new("SELECT version() AS version, hostName() AS host".to_owned())
}

/// Counts the live Keeper connections: one row. Where no Keeper is configured, the table itself
/// does not exist.
pub(crate) fn select_keepers() -> Statement {
    Statement::new(
        "SELECT toUInt64(countIf(NOT is_expired)) AS alive FROM system.zookeeper_connection"
            .to_owned(),
    )
}

/// Reads the replicated tables of a database, as this server observes them through Keeper.
pub(crate) fn select_replicas(database: &Identifier) -> Statement {
    let database = literal(database.as_str());
    Statement::new(format!(
        "SELECT table, toUInt8(is_readonly) AS is_readonly, toUInt64(total_replicas) AS total, \
         toUInt64(active_replicas) AS active FROM system.replicas \
         WHERE database = {database} ORDER BY table"
    ))
}
