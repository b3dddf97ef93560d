//! `ALTER`: what brings an existing table nearer to its declaration. Nothing here drops anything.

use millrace_schema::{Column, Expr, Index};

use super::create::column;
use super::expression::{index, ttl};
use super::{Statement, change, full, on_cluster, quote};
use crate::declared::{ClusterName, TableName};
use crate::ttl::Ttl;

fn alter(name: &TableName, cluster: Option<&ClusterName>, what: &str) -> Statement {
    change(format!("ALTER TABLE {}{} {what}", full(name), on_cluster(cluster)), cluster)
}

/// A missing column, behind the one that stands before it in the declaration, or first.
pub(crate) fn add_column(
    table: &TableName,
    cluster: Option<&ClusterName>,
    missing: &Column,
    after: Option<&str>,
) -> Statement {
    let place = after.map_or_else(|| "FIRST".to_owned(), |name| format!("AFTER {}", quote(name)));
    let what = format!("ADD COLUMN IF NOT EXISTS {} {place}", column(missing));
    alter(table, cluster, &what)
}

/// A missing data-skipping index; parts written before it stay without.
pub(crate) fn add_index(
    table: &TableName,
    cluster: Option<&ClusterName>,
    missing: &Index,
) -> Statement {
    alter(table, cluster, &format!("ADD INDEX IF NOT EXISTS {}", index(missing)))
}

/// Another time to live.
pub(crate) fn modify_ttl(
    table: &TableName,
    cluster: Option<&ClusterName>,
    from: Expr,
    kept: Ttl,
) -> Statement {
    alter(table, cluster, &format!("MODIFY TTL {}", ttl(from, kept)))
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
