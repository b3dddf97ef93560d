//! Renders `CREATE` statements: database, tables, view. Every statement may run again without
//! effect.

use millrace_schema::{Column, ComputedColumn, Identifier, TableKind, ValueOrigin};

use super::companion::{create_distributed, create_rollup, create_rollup_view};
use super::engine::{engine_of, table_settings};
use super::expression::{
    computed_expression, render_codec, render_expression, render_index, render_list, render_ttl,
};
use crate::declared::names::ClusterName;
use crate::declared::{Declared, DeclaredTable, DeclaredView};
use crate::render::{Statement, ddl_statement, on_cluster, qualified_name, quote};

/// Returns every statement that creates a declared set on an empty server, in order.
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

/// Creates the database, with the server's default engine.
pub(crate) fn create_database(name: &Identifier, cluster: Option<&ClusterName>) -> Statement {
    let sql =
        format!("CREATE DATABASE IF NOT EXISTS {}{}", quote(name.as_str()), on_cluster(cluster));
    ddl_statement(sql, cluster)
}

/// Creates one table.
pub(crate) fn create_table(table: &DeclaredTable, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredTable { name, table: shape, options } = table;
    let mut lines: Vec<String> =
        shape.columns.iter().map(|each| column_definition(table, each)).collect();
    lines.extend(table.computed_columns().map(|each| computed_column(table, each)));
    let stores_rows = options.engine.stores_rows();
    if stores_rows {
        lines.extend(shape.indexes.iter().map(|each| format!("INDEX {}", render_index(each))));
    }
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    {}\n)\nENGINE = {}",
        qualified_name(name),
        on_cluster(cluster),
        lines.join(",\n    "),
        engine_clause(table),
    );
    if stores_rows {
        sql.push_str(&format!("\nPARTITION BY {}", render_expression(shape.partition_by)));
        if !shape.primary_key.is_empty() {
            sql.push_str(&format!("\nPRIMARY KEY ({})", render_list(&shape.primary_key)));
        }
        sql.push_str(&format!("\nORDER BY ({})", render_list(&shape.order_by)));
        if let Some(rules) = render_ttl(shape.ttl_from, options) {
            sql.push_str(&format!("\nTTL {rules}"));
        }
        sql.push_str(&format!(
            "\nSETTINGS {}",
            table_settings(options, table.has_day_partitions())
        ));
    }
    ddl_statement(sql, cluster)
}

/// Creates the view that fills the trace-id table from inserted spans.
pub(crate) fn create_view(declared: &DeclaredView, cluster: Option<&ClusterName>) -> Statement {
    let sql = format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {}{} TO {}\nAS {}",
        qualified_name(&declared.name),
        on_cluster(cluster),
        qualified_name(&declared.target),
        view_query(declared),
    );
    ddl_statement(sql, cluster)
}

fn view_query(declared: &DeclaredView) -> String {
    let DeclaredView { name: _, source, target: _, view } = declared;
    let (group_by, time) = (quote(view.group_by), quote(view.time));
    format!(
        "SELECT\n    {group_by},\n    min({time}) AS {},\n    max({time}) AS {}\nFROM {}\n\
         WHERE {group_by} != ''\nGROUP BY {group_by}",
        quote(view.minimum),
        quote(view.maximum),
        qualified_name(source),
    )
}

/// Returns the query of a view, without quotes, from the statement that a server shows of it.
pub(crate) fn read_view_query(create_statement: &str) -> Option<String> {
    let plain = create_statement.replace('`', "");
    plain.split_once(" AS SELECT ").map(|(_, query)| format!("SELECT {query}"))
}

/// Returns the view's query in the spelling of `system.tables`, on one line and unquoted.
pub(crate) fn canonical_view_query(declared: &DeclaredView) -> String {
    let query = view_query(declared).replace('`', "");
    query.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Renders `name type [DEFAULT expr] [CODEC(...)]`.
pub(super) fn column_definition(table: &DeclaredTable, column: &Column) -> String {
    let Column { name, ty: _, codec: packing, origin, reason: _ } = column;
    let default = match origin {
        ValueOrigin::Insert => String::new(),
        ValueOrigin::Default(expr) => format!(" DEFAULT {}", render_expression(*expr)),
    };
    format!("{} {}{default}{}", quote(name), table.column_type(column), render_codec(*packing))
}

/// Renders `name type MATERIALIZED expr CODEC(...)`, for a user's own column or a reader's.
pub(super) fn computed_column(table: &DeclaredTable, column: ComputedColumn<'_>) -> String {
    let holder = column.column.column_name(table.table.kind).unwrap_or_default();
    let value = computed_expression(table.options.attributes, holder, column);
    let name = quote(column.name);
    format!("{name} {} MATERIALIZED {value} CODEC(ZSTD(1))", column.ty.type_name())
}

fn engine_clause(table: &DeclaredTable) -> String {
    let version = match table.table.kind {
        // Of a trace's rows that began in the same second, the one that ends last stays.
        TableKind::TraceIdTs if table.options.engine.is_replacing() => Some("End"),
        _ => None,
    };
    engine_of(&table.options.engine, table.options.engine.as_str(), &table.name, version)
}
