//! `ALTER`: what brings an existing table nearer to its declaration. The two that drop something
//! name it, and are only planned for a name that a person gave.

use millrace_schema::{Column, Index, OwnColumn};

use super::create::{column, own_column};
use super::expression::{codec, index, ttl};
use super::{Statement, change, full, literal, on_cluster, quote};
use crate::declared::DeclaredTable;
use crate::names::TableName;
use crate::names::{ClusterName, StorageName};

fn alter(name: &TableName, cluster: Option<&ClusterName>, what: &str) -> Statement {
    change(format!("ALTER TABLE {}{} {what}", full(name), on_cluster(cluster)), cluster)
}

/// A missing column, behind the one that stands before it in the declaration, or first.
pub(crate) fn add_column(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    missing: &Column,
    after: Option<&str>,
) -> Statement {
    let place = after.map_or_else(|| "FIRST".to_owned(), |name| format!("AFTER {}", quote(name)));
    let what = format!("ADD COLUMN IF NOT EXISTS {} {place}", column(table, missing));
    alter(&table.name, cluster, &what)
}

/// A missing column of a user's own; of rows written before, it is computed when read.
pub(crate) fn add_own_column(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    missing: OwnColumn<'_>,
) -> Statement {
    let what = format!("ADD COLUMN IF NOT EXISTS {}", own_column(table, missing));
    alter(&table.name, cluster, &what)
}

/// Other typed paths of a JSON column: every part is written again.
pub(crate) fn modify_column_type(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    changed: &Column,
) -> Statement {
    let what = format!("MODIFY COLUMN {} {}", quote(changed.name), table.column_type(changed));
    alter(&table.name, cluster, &what)
}

/// A column with all it holds. `name` is the server's own spelling.
pub(crate) fn drop_column(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &str,
) -> Statement {
    alter(table, cluster, &format!("DROP COLUMN IF EXISTS {}", quote(name)))
}

/// A data-skipping index; no row is touched. `name` is the server's own spelling.
pub(crate) fn drop_index(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &str,
) -> Statement {
    alter(table, cluster, &format!("DROP INDEX IF EXISTS {}", quote(name)))
}

/// A missing data-skipping index; parts written before it stay without.
pub(crate) fn add_index(
    table: &TableName,
    cluster: Option<&ClusterName>,
    missing: &Index,
) -> Statement {
    alter(table, cluster, &format!("ADD INDEX IF NOT EXISTS {}", index(missing)))
}

/// Another time to live or move; `None`: there is none to set.
pub(crate) fn modify_ttl(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
) -> Option<Statement> {
    let rules = ttl(table.table.ttl_from, &table.options)?;
    Some(alter(&table.name, cluster, &format!("MODIFY TTL {rules}")))
}

/// The declared compression of these columns; parts written before keep theirs until merged.
pub(crate) fn modify_codecs(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    columns: &[&Column],
) -> Statement {
    let each: Vec<String> = columns
        .iter()
        .map(|column| format!("MODIFY COLUMN {}{}", quote(column.name), codec(column.codec)))
        .collect();
    alter(&table.name, cluster, &each.join(", "))
}

/// Another storage policy; the server refuses one that lacks a volume in use.
pub(crate) fn modify_storage_policy(
    table: &TableName,
    cluster: Option<&ClusterName>,
    policy: &StorageName,
) -> Statement {
    let policy = literal(&policy.to_string());
    alter(table, cluster, &format!("MODIFY SETTING storage_policy = {policy}"))
}

/// No time to live any more.
pub(crate) fn remove_ttl(table: &TableName, cluster: Option<&ClusterName>) -> Statement {
    alter(table, cluster, "REMOVE TTL")
}

/// A table setting.
pub(crate) fn modify_setting(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &'static str,
    value: u64,
) -> Statement {
    alter(table, cluster, &format!("MODIFY SETTING {name} = {value}"))
}
