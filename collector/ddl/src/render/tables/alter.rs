//! Renders `ALTER` statements, which bring an existing table closer to its declaration. The two
//! that drop something name it, and are only planned for a name that a person gave.

use millrace_schema::{Column, ComputedColumn, Index};

use super::companion::rollup_ttl;
use super::create::{column_definition, computed_column};
use super::expression::{render_codec, render_index, render_ttl};
use crate::declared::names::TableName;
use crate::declared::names::{ClusterName, StorageName};
use crate::declared::{DeclaredRollup, DeclaredTable};
use crate::render::{Statement, ddl_statement, literal, on_cluster, qualified_name, quote};

fn alter_table(name: &TableName, cluster: Option<&ClusterName>, what: &str) -> Statement {
    ddl_statement(
        format!("ALTER TABLE {}{} {what}", qualified_name(name), on_cluster(cluster)),
        cluster,
    )
}

/// Adds a missing column, behind its predecessor in the declaration, or first.
pub(crate) fn add_column(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    missing: &Column,
    after: Option<&str>,
) -> Statement {
    let position =
        after.map_or_else(|| "FIRST".to_owned(), |name| format!("AFTER {}", quote(name)));
    let what = format!("ADD COLUMN IF NOT EXISTS {} {position}", column_definition(table, missing));
    alter_table(&table.name, cluster, &what)
}

/// Adds a missing column of the user's own; in existing rows it is computed on read.
pub(crate) fn add_computed_column(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    missing: ComputedColumn<'_>,
) -> Statement {
    let what = format!("ADD COLUMN IF NOT EXISTS {}", computed_column(table, missing));
    alter_table(&table.name, cluster, &what)
}

/// Sets other typed paths of a JSON column; the server rewrites every part.
pub(crate) fn modify_column_type(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    changed: &Column,
) -> Statement {
    let what = format!("MODIFY COLUMN {} {}", quote(changed.name), table.column_type(changed));
    alter_table(&table.name, cluster, &what)
}

/// Drops a column and its data. `name` is in the server's own spelling.
pub(crate) fn drop_column(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &str,
) -> Statement {
    alter_table(table, cluster, &format!("DROP COLUMN IF EXISTS {}", quote(name)))
}

/// Drops a data-skipping index; it changes no row. `name` is in the server's own spelling.
pub(crate) fn drop_index(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &str,
) -> Statement {
    alter_table(table, cluster, &format!("DROP INDEX IF EXISTS {}", quote(name)))
}

/// Adds a missing data-skipping index; existing parts stay without it.
pub(crate) fn add_index(
    table: &TableName,
    cluster: Option<&ClusterName>,
    missing: &Index,
) -> Statement {
    alter_table(table, cluster, &format!("ADD INDEX IF NOT EXISTS {}", render_index(missing)))
}

/// Sets another time to live or move; `None`: there is none to set.
pub(crate) fn modify_ttl(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
) -> Option<Statement> {
    let rules = render_ttl(table.table.ttl_from, &table.options)?;
    Some(alter_table(&table.name, cluster, &format!("MODIFY TTL {rules}")))
}

/// Sets another time to live of a roll-up; `None`: there is none to set.
pub(crate) fn modify_rollup_ttl(
    rollup: &DeclaredRollup,
    cluster: Option<&ClusterName>,
) -> Option<Statement> {
    Some(alter_table(&rollup.name, cluster, &format!("MODIFY TTL {}", rollup_ttl(rollup)?)))
}

/// Sets these columns' declared codecs; existing parts retain theirs until merged.
pub(crate) fn modify_codecs(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    columns: &[&Column],
) -> Statement {
    let each: Vec<String> = columns
        .iter()
        .map(|column| format!("MODIFY COLUMN {}{}", quote(column.name), render_codec(column.codec)))
        .collect();
    alter_table(&table.name, cluster, &each.join(", "))
}

/// Sets another storage policy; the server refuses one that lacks a volume in use.
pub(crate) fn modify_storage_policy(
    table: &TableName,
    cluster: Option<&ClusterName>,
    policy: &StorageName,
) -> Statement {
    let policy = literal(&policy.to_string());
    alter_table(table, cluster, &format!("MODIFY SETTING storage_policy = {policy}"))
}

/// Removes the time to live.
pub(crate) fn remove_ttl(table: &TableName, cluster: Option<&ClusterName>) -> Statement {
    alter_table(table, cluster, "REMOVE TTL")
}

/// Changes a table setting.
pub(crate) fn modify_setting(
    table: &TableName,
    cluster: Option<&ClusterName>,
    name: &'static str,
    value: u64,
) -> Statement {
    alter_table(table, cluster, &format!("MODIFY SETTING {name} = {value}"))
}
