//! Describes a server with exactly the declared tables, for tests of plans in this crate and its
//! callers (feature `testing`). The description comes from no server; `columns_tables` and
//! `tables/ddl/engine.rs` compare it with a real one.

use crate::declared::{Declared, DeclaredTable};
use crate::live::observe::{Observed, ObservedColumn, ObservedIndex, ObservedTable};
use crate::render;

fn observed_index(index: &millrace_schema::Index) -> (String, ObservedIndex) {
    let definition = render::canonical_index_kind(index);
    let (expr, kind) = definition.rsplit_once(' ').unwrap_or_default();
    (index.name.to_owned(), ObservedIndex { expr: expr.to_owned(), kind: kind.to_owned() })
}

/// Returns the description of a server with exactly the declared tables.
#[must_use]
pub fn observed_as_declared(declared: &Declared) -> Observed {
    let mut observed = Observed { database: true, ..Observed::default() };
    for declared_table in declared.tables() {
        let is_by_day = declared_table.has_day_partitions();
        let DeclaredTable { name, table, options } = declared_table;
        let engine = options.engine.as_str();
        let ttl = render::canonical_ttl(table.ttl_from, &options)
            .map(|rules| format!(" TTL {rules}"))
            .unwrap_or_default();
        let settings: String = render::retention_settings(is_by_day)
            .iter()
            .chain(&render::deduplication_settings(&options))
            .map(|(name, value)| format!(", {name} = {value}"))
            .collect();
        let column = |column: &millrace_schema::Column| ObservedColumn {
            name: column.name.to_owned(),
            ty: column.ty.to_string(),
            default_kind: String::new(),
            codec: render::canonical_codec(column.codec).unwrap_or_default(),
        };
        let live = ObservedTable {
            engine: engine.to_owned(),
            engine_full: format!("{engine} ...{ttl} SETTINGS index_granularity = 8192{settings}"),
            partition_key: render::canonical_list(&[table.partition_by]),
            sorting_key: render::canonical_list(&table.order_by),
            create_statement: String::new(),
            columns: table.columns.iter().map(column).collect(),
            indexes: table.indexes.iter().map(observed_index).collect(),
            rows: 5,
            bytes: 500,
        };
        observed.tables.insert(name.table().to_owned(), live);
    }
    if let Some(view) = declared.view() {
        let live = ObservedTable {
            engine: "MaterializedView".to_owned(),
            create_statement: format!(
                "CREATE MATERIALIZED VIEW {} TO {} (`TraceId` String) AS {}",
                view.name,
                view.target,
                render::canonical_view_query(&view),
            ),
            ..ObservedTable::default()
        };
        observed.tables.insert(view.name.table().to_owned(), live);
    }
    observed
}
