//! Observes the declared objects that exist on a live server. It only reads, with four short
//! queries of system tables, whatever the number of tables.

use std::collections::BTreeMap;

use clickhouse::Row;
use millrace_schema::Identifier;
use serde::{Deserialize, Serialize};

use crate::client::{ClientError, DdlClient};
use crate::declared::Declared;
use crate::declared::names::TableName;
use crate::privileges;
use crate::render;

/// The existing objects of a declared set on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether the database exists.
    pub database: bool,
    /// Whether the database replicates its statements and its tables' definitions: its engine is
    /// `Replicated`, or `Shared` of ClickHouse Cloud.
    pub replicates_itself: bool,
    /// Existing tables and views, by name.
    pub tables: BTreeMap<String, ObservedTable>,
}

/// One live table or view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedTable {
    /// Engine name.
    pub engine: String,
    /// Engine with keys, time to live and settings, in the server's spelling.
    pub engine_full: String,
    /// Partition key, in the server's spelling.
    pub partition_key: String,
    /// Sorting key, in the server's spelling.
    pub sorting_key: String,
    /// The statement that would create it, in the server's spelling.
    pub create_statement: String,
    /// Columns in order.
    pub columns: Vec<ObservedColumn>,
    /// Data-skipping indexes by name.
    pub indexes: BTreeMap<String, ObservedIndex>,
    /// The number of rows that the server reports; 0 if it reports none.
    pub rows: u64,
    /// Bytes on disk; 0 if the server does not report them.
    pub bytes: u64,
}

/// One live data-skipping index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedIndex {
    /// The indexed expression, in the server's spelling.
    pub expr: String,
    /// The type's name, such as `bloom_filter`, without its parameters.
    pub kind: String,
}

/// One live column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedColumn {
    /// The column's name; a Nested part is `outer.inner`.
    pub name: String,
    /// The type, in the server's spelling.
    pub ty: String,
    /// `DEFAULT`, `MATERIALIZED`, `ALIAS`, `EPHEMERAL`, or empty.
    pub default_kind: String,
    /// `CODEC(...)` in the server's spelling; empty: the server's default.
    pub codec: String,
}

impl ObservedTable {
    /// Returns the value of a table setting, if the table sets it.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        let settings = self.engine_full.split_once(" SETTINGS ")?.1;
        settings.split(", ").find_map(|pair| pair.strip_prefix(name)?.strip_prefix(" = "))
    }

    /// Returns the value of a table setting as a number, if the table sets it.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.setting(name)? {
            "false" => Some(0),
            "true" => Some(1),
            number => number.parse().ok(),
        }
    }

    /// Returns the rows' time to live in the server's spelling, if the table has one.
    #[must_use]
    pub fn ttl(&self) -> Option<&str> {
        let after = self.engine_full.split_once(" TTL ")?.1;
        Some(after.split_once(" SETTINGS ").map_or(after, |(ttl, _)| ttl).trim())
    }
}

#[derive(Row, Serialize, Deserialize)]
struct DatabaseRow {
    name: String,
    engine: String,
}

#[derive(Row, Serialize, Deserialize)]
struct TableRow {
    name: String,
    engine: String,
    engine_full: String,
    partition_key: String,
    sorting_key: String,
    create_table_query: String,
    rows: u64,
    bytes: u64,
}

#[derive(Row, Serialize, Deserialize)]
struct ColumnRow {
    table: String,
    name: String,
    kind: String,
    default_kind: String,
    codec: String,
}

#[derive(Row, Serialize, Deserialize)]
struct IndexRow {
    table: String,
    name: String,
    expr: String,
    kind: String,
}

/// Observes the existing objects of `declared` on the client's server.
///
/// # Errors
/// The server cannot be queried; see [`ClientError::category`].
pub async fn observe_declared(
    client: &DdlClient,
    declared: &Declared,
) -> Result<Observed, ClientError> {
    observe_all(client, &declared.database, std::slice::from_ref(declared)).await
}

/// Returns every possible name of a set, including its journal.
fn names_of(declared: &Declared) -> Vec<String> {
    let tables = declared.table_names();
    let view = declared.view().into_iter().map(|view| view.name);
    let rollups = declared.rollups().into_iter().flat_map(|rollup| [rollup.name, rollup.view]);
    let distributed = declared.distributed_tables().into_iter().map(|table| table.name);
    // The Collector's name for its table of exponential histograms shows whose tables these are.
    let foreign = declared.metrics.iter().map(|_| declared.foreign_exponential());
    tables
        .chain(view)
        .chain(foreign)
        .chain(rollups)
        .chain(distributed)
        .chain([declared.journal()])
        .map(|name| name.table().to_owned())
        .collect()
}

/// Returns whether the database replicates itself; `None`: it doesn't exist.
pub(crate) async fn observe_database(
    client: &DdlClient,
    database: &Identifier,
) -> Result<Option<bool>, ClientError> {
    let found: Vec<DatabaseRow> = client.fetch(&render::select_databases(database)).await?;
    let found = found.into_iter().find(|row| row.name == database.as_str());
    Ok(found.map(|row| matches!(row.engine.as_str(), "Replicated" | "Shared")))
}

/// Returns whether a table of this set exists that the user may see.
pub(crate) async fn has_tables(
    client: &DdlClient,
    declared: &Declared,
) -> Result<bool, ClientError> {
    let names: Vec<String> = declared.table_names().map(|name| name.table().to_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(false);
    }
    let found: Vec<TableRow> =
        client.fetch(&render::select_tables(&declared.database, &names)).await?;
    Ok(!found.is_empty())
}

/// Observes several sets of one database at once and returns one result for all of them.
///
/// # Errors
/// The server cannot be queried; see [`ClientError::category`].
pub async fn observe_all(
    client: &DdlClient,
    database: &Identifier,
    sets: &[Declared],
) -> Result<Observed, ClientError> {
    let Some(replicates_itself) = observe_database(client, database).await? else {
        return Ok(Observed::default());
    };
    let mut names: Vec<String> = Vec::new();
    for declared in sets {
        names.extend(names_of(declared));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(Observed { database: true, replicates_itself, tables: BTreeMap::new() });
    }
    let mut tables: BTreeMap<String, ObservedTable> = BTreeMap::new();
    for row in client.fetch::<TableRow>(&render::select_tables(database, &names)).await? {
        let TableRow {
            name,
            engine,
            engine_full,
            partition_key,
            sorting_key,
            create_table_query,
            rows,
            bytes,
        } = row;
        let table = ObservedTable {
            engine,
            engine_full,
            partition_key,
            sorting_key,
            create_statement: create_table_query,
            columns: Vec::new(),
            indexes: BTreeMap::new(),
            rows,
            bytes,
        };
        tables.insert(name, table);
    }
    for row in client.fetch::<ColumnRow>(&render::select_columns(database, &names)).await? {
        let ColumnRow { table, name, kind: ty, default_kind, codec } = row;
        if let Some(table) = tables.get_mut(&table) {
            table.columns.push(ObservedColumn { name, ty, default_kind, codec });
        }
    }
    for row in client.fetch::<IndexRow>(&render::select_indexes(database, &names)).await? {
        let IndexRow { table, name, expr, kind } = row;
        if let Some(table) = tables.get_mut(&table) {
            table.indexes.insert(name, ObservedIndex { expr, kind });
        }
    }
    for declared in sets {
        may_see(client, declared, &tables).await?;
    }
    Ok(Observed { database: true, replicates_itself, tables })
}

/// Checks that the user may see the table: a table that is not shown may only be hidden.
async fn may_see(
    client: &DdlClient,
    declared: &Declared,
    found: &BTreeMap<String, ObservedTable>,
) -> Result<(), ClientError> {
    let is_bare = |name: &str| found.get(name).is_none_or(|table| table.columns.is_empty());
    let unseen: Vec<TableName> =
        declared.table_names().filter(|name| is_bare(name.table())).collect();
    let needed = privileges::of_seeing(&unseen);
    match privileges::missing_privileges(client, &needed).await? {
        None => Ok(()),
        Some(lacked) => Err(ClientError::Privilege {
            endpoint: client.endpoint().clone(),
            user: lacked.user.clone(),
            message: lacked.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: engine texts in servers' spelling. Guarantee: time to live and settings are found,
    /// and a setting whose name ends like another's is distinguished from it.
    #[test]
    fn ttl_and_settings_are_read_from_the_engine_text() {
        let table = ObservedTable {
            engine_full: "MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, \
                          toDateTime(Timestamp)) TTL toDateTime(Timestamp) + toIntervalDay(3) \
                          SETTINGS index_granularity = 8192, \
                          non_replicated_deduplication_window = 1000"
                .to_owned(),
            ..ObservedTable::default()
        };
        assert_eq!(table.ttl(), Some("toDateTime(Timestamp) + toIntervalDay(3)"));
        assert_eq!(table.setting("non_replicated_deduplication_window"), Some("1000"));
        assert_eq!(table.setting("replicated_deduplication_window"), None);
        assert_eq!(ObservedTable::default().ttl(), None);
    }
}
