//! Describes a server with exactly the declared tables, for tests of plans in this crate and its
//! callers (feature `testing`). The description comes from no server; `columns_tables` and
//! `tables/ddl_engine.rs` compare it with a real one.

use crate::declared::{Declared, DeclaredTable};
use crate::observe::{Observed, ObservedColumn, ObservedTable};
use crate::render;

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
            indexes: table.indexes.iter().map(|index| index.name.to_owned()).collect(),
            rows: 5,
            bytes: 500,
        };
        observed.tables.insert(name.table().to_owned(), live);
    }
    if let Some(view) = declared.view() {
        let live = ObservedTable {
            engine: "MaterializedView".to_owned(),
            create_statement: format!(
                "CREATE MATERIALIZED VIEW {} TO {} (`TraceId` String) AS SELECT ...",
                view.name, view.target
            ),
            ..ObservedTable::default()
        };
        observed.tables.insert(view.name.table().to_owned(), live);
    }
    observed
}
