//! Renders all SQL text, including insert headers. Other modules pass [`Statement`]s around, which
//! only this module can build.
//!
//! Inputs are checked before they arrive ([`crate::Identifier`], [`crate::ClusterName`],
//! [`crate::KeeperPath`], column names that are constants of `millrace_schema`), and are still
//! quoted or escaped here, so that no single mistake becomes an injection. Pure: no clock, no I/O.

mod grant;
mod insert;
mod journal;
mod queries;
mod tables;

pub use insert::{insert_columns, insert_statement};
pub use tables::create::create_all;
pub use tables::drop::drop_all;

pub(crate) use grant::{
    CREATE_DATABASE, CREATE_TABLE, check_grant, grant_statement, readonly_mode,
};
pub(crate) use journal::{create_journal, insert_journal_row, read_holders, read_journal};
pub(crate) use queries::coordination::{
    EVENTS, PARTS, REPLICAS, SESSIONS, grant_reading, keeper_counters, replica_states,
    select_sessions, table_loads,
};
pub use queries::system::{insert_targets, select_columns};
pub use queries::test_run::{test_rows, test_rows_grant};
pub(crate) use tables::alter::{
    add_column, add_computed_column, add_index, drop_column, drop_index, modify_codecs,
    modify_column_type, modify_rollup_ttl, modify_setting, modify_storage_policy, modify_ttl,
    remove_ttl,
};
pub(crate) use tables::companion::{
    canonical_rollup_ttl, create_distributed, create_rollup, create_rollup_view,
};
pub(crate) use tables::create::{
    canonical_view_query, create_database, create_table, create_view, read_view_query,
};
pub(crate) use tables::drop::drop_journal;
pub(crate) use tables::engine::{MERGED_BY_COLUMN, deduplication_settings, retention_settings};
pub(crate) use tables::expression::{
    canonical_codec, canonical_index, canonical_index_kind, canonical_list, canonical_ttl,
};

pub(crate) use queries::system::{
    select_databases, select_indexes, select_keepers, select_replicas, select_server, select_tables,
};

use crate::declared::names::{ClusterName, TableName};

/// One SQL statement and the settings it runs with. It holds no secret and may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    sql: String,
    settings: Vec<(&'static str, String)>,
}

impl Statement {
    fn new(sql: String) -> Self {
        Self { sql, settings: Vec::new() }
    }

    fn with_setting(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// Returns the statement with the time to wait for other servers that it reaches.
    pub(crate) fn with_replica_timeout(self) -> Self {
        self.with_setting("distributed_ddl_task_timeout", DISTRIBUTED_DDL_SECONDS)
            .with_setting("distributed_ddl_output_mode", "null_status_on_timeout_only_active")
    }

    /// Returns the text, without a closing semicolon.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Settings to send with it (URL parameters of the HTTP interface).
    #[must_use]
    pub fn settings(&self) -> &[(&'static str, String)] {
        &self.settings
    }
}

impl serde::Serialize for Statement {
    /// Serializes the text alone.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.sql)
    }
}

/// Quotes a name in backticks. Checked names contain no backtick; it would be escaped.
fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('`');
    for character in name.chars() {
        if matches!(character, '`' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('`');
    quoted
}

/// Returns a string literal in single quotes.
fn literal(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for character in text.chars() {
        match character {
            '\'' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0' => quoted.push_str("\\0"),
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

fn qualified_name(name: &TableName) -> String {
    format!("{}.{}", quote(name.database().as_str()), quote(name.table()))
}

fn on_cluster(cluster: Option<&ClusterName>) -> String {
    cluster.map_or_else(String::new, |name| format!(" ON CLUSTER {}", literal(&name.to_string())))
}

/// How long, in seconds, the queried server waits for the others of a cluster or of a database that
/// replicates itself; less than the
/// client's own limit. A host that is later or down is no error: it gets the change from the queue,
/// and the next observation reports the difference until then.
const DISTRIBUTED_DDL_SECONDS: &str = "30";

/// Returns a statement that changes metadata, with the cluster's waiting time if it has a cluster.
fn ddl_statement(sql: String, cluster: Option<&ClusterName>) -> Statement {
    let statement = Statement::new(sql);
    match cluster {
        Some(_) => statement.with_replica_timeout(),
        None => statement,
    }
}

#[cfg(test)]
mod tests;

pub use queries::check;
