//! Renders `DROP` statements for the view and tables of a declared set. No plan contains one: only
//! a user who requested deletion gets it, through [`drop_all`]. The database stays, since it may
//! contain other tables.

use crate::declared::Declared;
use crate::declared::names::{ClusterName, TableName};
use crate::render::{Statement, ddl_statement, on_cluster, qualified_name};

/// Returns every statement that removes a declared set with all its rows, but not its journal, the
/// view before its source. An object that no longer exists causes no error.
#[must_use]
pub fn drop_all(declared: &Declared) -> Vec<Statement> {
    let cluster = declared.cluster.as_ref();
    let distributed = declared.distributed_tables().into_iter().map(|each| ("TABLE", each.name));
    let rollups = declared.rollups();
    let views = rollups.iter().map(|rollup| ("VIEW", rollup.view.clone()));
    let views = views.chain(declared.view().map(|view| ("VIEW", view.name)));
    let tables = declared.tables().into_iter().rev().map(|table| ("TABLE", table.name));
    distributed
        .chain(views)
        .chain(rollups.iter().map(|rollup| ("TABLE", rollup.name.clone())))
        .chain(tables)
        .map(|(what, name)| drop_object(what, &name, cluster))
        .collect()
}

/// Returns the statement that removes the journal, which all signals of a prefix share.
pub(crate) fn drop_journal(declared: &Declared) -> Statement {
    drop_object("TABLE", &declared.journal(), declared.cluster.as_ref())
}

/// With SYNC a replicated table leaves Keeper before the answer, so that it can be created again. A
/// server's limit, 50 GB by default, prevents accidents; who requests deletion means large tables
/// too (<https://clickhouse.com/docs/operations/settings/settings#max_table_size_to_drop>).
fn drop_object(what: &str, name: &TableName, cluster: Option<&ClusterName>) -> Statement {
    let (name, cluster_clause) = (qualified_name(name), on_cluster(cluster));
    ddl_statement(format!("DROP {what} IF EXISTS {name}{cluster_clause} SYNC"), cluster)
        .with_setting("max_table_size_to_drop", "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::options::{Signals, TableOptions};

    /// Scenario: all signals. Guarantee: the view goes first, every table once, the database never.
    #[test]
    fn tables_are_dropped_and_the_database_is_kept() {
        let declared = Declared::uniform(
            "db".parse().unwrap(),
            "otel".parse().unwrap(),
            Signals::ALL,
            &TableOptions::default(),
        );
        let statements = drop_all(&declared);
        assert_eq!(statements.len(), declared.tables().len() + 1);
        assert!(statements[0].sql().starts_with("DROP VIEW IF EXISTS `db`.`otel_traces_"));
        assert!(statements.iter().all(|each| !each.sql().contains("DATABASE")));
    }
}
