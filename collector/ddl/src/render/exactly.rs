//! What a server describes that has exactly the declared tables: for tests of plans, here and of
//! those that call this crate (feature `testing`). No server was asked; `columns_tables` and
//! `tables/ddl_engine.rs` compare with a real one.

use crate::declared::{Declared, DeclaredTable};
use crate::observe::{Observed, ObservedColumn, ObservedTable};
use crate::render;

/// What a server describes that has exactly the declared tables.
#[must_use]
pub fn exactly(declared: &Declared) -> Observed {
    let mut observed = Observed { database: true, ..Observed::default() };
    for DeclaredTable { name, table, options } in declared.tables() {
        let engine = options.engine.name();
        let ttl = render::canonical_ttl(table.ttl_from, &options)
            .map(|rules| format!(" TTL {rules}"))
            .unwrap_or_default();
        let settings: String = render::deduplication_settings(&options)
            .iter()
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
