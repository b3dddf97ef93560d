//! `CREATE`: database, tables, view. Every statement may be run again without effect.

use millrace_schema::{Column, Identifier, Origin, OwnColumn, TableKind};

use super::companion::{create_distributed, create_rollup, create_rollup_view};
use super::engine::{engine_of, settings};
use super::expression::{codec, expression, index, list, own, ttl};
use super::{Statement, change, full, on_cluster, quote};
use crate::declared::{Declared, DeclaredTable, DeclaredView};
use crate::names::ClusterName;

/// Every statement that makes a declared set, in order, on a server that has none of it.
#[must_use]
pub fn create_all(declared: &Declared) -> Vec<Statement> {
    let cluster = declared.cluster.as_ref();
    let mut statements = vec![create_database(&declared.database, cluster)];
    statements.extend(declared.tables().iter().map(|table| create_table(table, cluster)));
    statements.extend(declared.view().iter().map(|view| create_view(view, cluster)));
    for rollup in declared.rollups() {
        statements.push(create_rollup(&rollup, cluster));
        statements.push(create_rollup_view(&rollup, cluster));
    }
    let distributed = declared.distributed_tables();
    statements.extend(distributed.iter().map(|table| create_distributed(table, cluster)));
    statements
}

/// The database, with the server's default engine.
pub(crate) fn create_database(name: &Identifier, cluster: Option<&ClusterName>) -> Statement {
    let sql =
        format!("CREATE DATABASE IF NOT EXISTS {}{}", quote(name.as_str()), on_cluster(cluster));
    change(sql, cluster)
}

/// One table.
pub(crate) fn create_table(table: &DeclaredTable, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredTable { name, table: shape, options } = table;
    let mut lines: Vec<String> = shape.columns.iter().map(|each| column(table, each)).collect();
    lines.extend(table.own_columns().map(|each| own_column(table, each)));
    let keeps_rows = options.engine.keeps_rows();
    if keeps_rows {
        lines.extend(shape.indexes.iter().map(|each| format!("INDEX {}", index(each))));
    }
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    {}\n)\nENGINE = {}",
        full(name),
        on_cluster(cluster),
        lines.join(",\n    "),
        engine(table),
    );
    if keeps_rows {
        sql.push_str(&format!("\nPARTITION BY {}", expression(shape.partition_by)));
        if !shape.primary_key.is_empty() {
            sql.push_str(&format!("\nPRIMARY KEY ({})", list(&shape.primary_key)));
        }
        sql.push_str(&format!("\nORDER BY ({})", list(&shape.order_by)));
        if let Some(rules) = ttl(shape.ttl_from, options) {
            sql.push_str(&format!("\nTTL {rules}"));
        }
        sql.push_str(&format!("\nSETTINGS {}", settings(options)));
    }
    change(sql, cluster)
}

/// The view that fills the trace-id table from inserted spans.
pub(crate) fn create_view(declared: &DeclaredView, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredView { name, source, target, view } = declared;
    let (group_by, time) = (quote(view.group_by), quote(view.time));
    let sql = format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {}{} TO {}\nAS SELECT\n    {group_by},\n    \
         min({time}) AS {},\n    max({time}) AS {}\nFROM {}\nWHERE {group_by} != ''\n\
         GROUP BY {group_by}",
        full(name),
        on_cluster(cluster),
        full(target),
        quote(view.minimum),
        quote(view.maximum),
        full(source),
    );
    change(sql, cluster)
}

/// `name type [DEFAULT expr] [CODEC(...)]`.
pub(super) fn column(table: &DeclaredTable, column: &Column) -> String {
    let Column { name, ty: _, codec: packing, origin } = column;
    let default = match origin {
        Origin::Insert => String::new(),
        Origin::Default(expr) => format!(" DEFAULT {}", expression(*expr)),
    };
    format!("{} {}{default}{}", quote(name), table.column_type(column), codec(*packing))
}

/// `name type MATERIALIZED expr CODEC(...)`, of a user's own or for a reader.
pub(super) fn own_column(table: &DeclaredTable, column: OwnColumn<'_>) -> String {
    let holder = column.column.name(table.table.kind).unwrap_or_default();
    let value = own(table.options.attributes, holder, column);
    let name = quote(column.name);
    format!("{name} {} MATERIALIZED {value} CODEC(ZSTD(1))", column.ty.type_name())
}

fn engine(table: &DeclaredTable) -> String {
    let version = match table.table.kind {
        // Of the rows of one trace that began in one second the one that ends last stays.
        TableKind::TraceIdTs if table.options.engine.is_replacing() => Some("End"),
        _ => None,
    };
    engine_of(&table.options.engine, table.options.engine.name(), &table.name, version)
}
