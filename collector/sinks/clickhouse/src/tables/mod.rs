//! The tables of this sink: their names and definitions.

pub(crate) mod table_check;
pub(crate) mod test_rows;

use std::sync::Arc;

use millrace_config::push_encoded;
use millrace_ddl::TableName;
use millrace_pipeline::sink::TableIndex;
use millrace_schema::{AttributeStorage, Identifier, Table, TableKind, build_table};

#[derive(Debug)]
pub(super) struct TableEntry {
    pub(super) index: TableIndex,
    /// The name with its database, as text.
    pub(super) name: Arc<str>,
    /// The name with its database.
    pub(super) full_name: TableName,
    /// The declared table.
    pub(super) definition: Table,
}

/// All tables, by kind.
#[derive(Debug)]
pub(super) struct SinkTables {
    entries: [TableEntry; TableKind::ALL.len()],
}

impl SinkTables {
    pub(super) fn new(
        database: &Identifier,
        prefix: &Identifier,
        attributes: AttributeStorage,
    ) -> Self {
        let mut next = 0;
        let entries = TableKind::ALL.map(|kind| {
            let full_name = TableName::new(database, prefix, kind);
            let name = full_name.to_string().into();
            let index = TableIndex(next);
            next += 1;
            TableEntry { index, name, full_name, definition: build_table(kind, attributes) }
        });
        Self { entries }
    }

    /// Returns all tables, in the order of their indexes.
    pub(super) fn all_entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.entries.iter()
    }

    pub(super) fn of_kind(&self, kind: TableKind) -> &TableEntry {
        // `ALL` lists every kind once, in the order of their discriminants.
        &self.entries[kind as usize]
    }

    pub(super) fn of_index(&self, index: TableIndex) -> Option<&TableEntry> {
        self.entries.get(usize::from(index.0))
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    push_encoded(&mut encoded, text);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every kind of table. Guarantee: its kind and its index find the same one.
    #[test]
    fn tables_are_found_by_kind_and_by_index() {
        let name = |text| Identifier::new(text).unwrap();
        let tables = SinkTables::new(&name("db"), &name("otel"), AttributeStorage::Json);
        for kind in TableKind::ALL {
            let entry = tables.of_kind(kind);
            assert_eq!(entry.name.as_ref(), format!("db.otel_{}", kind.suffix()));
            assert_eq!(tables.of_index(entry.index).unwrap().name, entry.name);
        }
        assert!(tables.of_index(TableIndex(99)).is_none());
    }

    /// Scenario: characters with a meaning in a URL. Guarantee: none is left.
    #[test]
    fn a_query_is_safe_inside_a_url() {
        assert_eq!(
            percent_encoded("a `b`.c (d) & e=f?#ä"),
            "a%20%60b%60.c%20%28d%29%20%26%20e%3Df%3F%23%C3%A4"
        );
    }
}
