//! Compares data-skipping indexes.

use super::{Drift, DriftKind, notice_drift};
use crate::declared::DeclaredTable;
use crate::live::observe::{ObservedIndex, ObservedTable};
use crate::render;

/// Compares indexes by name, expression and type. Parameters of a type don't count: another
/// writer's filter of another size serves the same queries.
pub(super) fn of_indexes(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options: _ } = declared;
    let mut found = Vec::new();
    for expected in &table.indexes {
        let index = expected.name.to_owned();
        let declared = render::canonical_index_kind(expected);
        match live.indexes.get(expected.name) {
            None => found.push(notice_drift(name, DriftKind::MissingIndex { index })),
            Some(ObservedIndex { expr, kind }) => {
                // Servers quote names with dots.
                let live = format!("{} {kind}", expr.replace('`', ""));
                if live == declared {
                    continue;
                }
                let kind = DriftKind::IndexDefinition { index, declared, live };
                found.push(notice_drift(name, kind));
            }
        }
    }
    for index in live.indexes.keys() {
        if !table.indexes.iter().any(|declared| declared.name == index) {
            found.push(notice_drift(name, DriftKind::ExtraIndex { index: index.clone() }));
        }
    }
    found
}
