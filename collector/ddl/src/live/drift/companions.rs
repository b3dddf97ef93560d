//! Compares what accompanies the tables: the view of traces, roll-ups, tables over shards.

use super::{Drift, DriftKind, breaking_drift, has_equal_ttl, notice_drift};
use crate::declared::names::TableName;
use crate::declared::{Declared, DeclaredDistributed, DeclaredView};
use crate::live::observe::{Observed, ObservedColumn, ObservedTable};
use crate::render;

pub(super) fn of_view(view: &DeclaredView, live: Option<&ObservedTable>) -> Option<Drift> {
    let DeclaredView { name, source: _, target, view: _ } = view;
    let Some(live) = live else {
        return Some(breaking_drift(name, DriftKind::MissingView));
    };
    let plain = live.create_statement.replace('`', "");
    let fills = format!(" TO {target}");
    let is_ours = live.engine == "MaterializedView"
        && plain.split_once(&fills).is_some_and(|(_, rest)| !rest.starts_with(is_word));
    if !is_ours {
        let kind = DriftKind::ViewTarget { declared: target.to_string() };
        return Some(breaking_drift(name, kind));
    }
    let live = render::read_view_query(&live.create_statement)?;
    let declared = render::canonical_view_query(view);
    let kind = DriftKind::ViewQuery { declared: declared.clone(), live: live.clone() };
    (live != declared).then(|| notice_drift(name, kind))
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Compares roll-ups and tables over shards: whether they exist, whether a roll-up has the
/// retention of its source, and whether a table over shards has the columns of the shards' tables.
pub(super) fn of_companions(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let live = |name: &TableName| observed.tables.get(name.table());
    let mut found = Vec::new();
    for rollup in declared.rollups() {
        let declared = render::canonical_rollup_ttl(&rollup);
        match live(&rollup.name) {
            None => found.push(notice_drift(&rollup.name, DriftKind::MissingTable)),
            // Another kind of object may have its name.
            Some(there) if !there.engine.ends_with("MergeTree") => {}
            Some(there) if has_equal_ttl(declared.as_deref(), there) => {}
            Some(there) => {
                let live = there.ttl().map(str::to_owned);
                found.push(breaking_drift(&rollup.name, DriftKind::Ttl { declared, live }));
            }
        }
        if live(&rollup.view).is_none() {
            found.push(notice_drift(&rollup.view, DriftKind::MissingView));
        }
    }
    for table in declared.distributed_tables() {
        match live(&table.name) {
            None => found.push(notice_drift(&table.name, DriftKind::MissingTable)),
            Some(there) if there.engine != "Distributed" => {
                let (declared, live) = ("Distributed".to_owned(), there.engine.clone());
                found.push(breaking_drift(&table.name, DriftKind::Engine { declared, live }));
            }
            Some(there) => found.extend(of_distributed(declared, observed, (&table, there))),
        }
    }
    found
}

/// Compares the columns of a table over shards, which stores nothing: readers can't name a column
/// that it lacks, and fail on one that the shards' table has lost.
fn of_distributed(
    declared: &Declared,
    observed: &Observed,
    (table, live): (&DeclaredDistributed, &ObservedTable),
) -> Vec<Drift> {
    let Some(local) = declared.tables().into_iter().find(|local| local.name == table.local) else {
        return Vec::new();
    };
    let stored = observed.tables.get(table.local.table());
    let has = |columns: &[ObservedColumn], name: &str| columns.iter().any(|each| each.name == name);
    let inserted =
        local.table.columns.iter().map(|column| (column.name, local.column_type(column)));
    let computed =
        local.computed_columns().map(|column| (column.name, column.ty.type_name().to_owned()));
    let expected: Vec<(&str, String)> = inserted.chain(computed).collect();
    let mut found = Vec::new();
    for (name, ty) in expected.iter().filter(|(name, _)| !has(&live.columns, name)) {
        let kind = DriftKind::MissingColumn { column: (*name).to_owned(), declared: ty.clone() };
        found.push(notice_drift(&table.name, kind));
    }
    let is_removed = |column: &&ObservedColumn| {
        stored.is_some_and(|stored| !has(&stored.columns, &column.name))
            && expected.iter().all(|(name, _)| *name != column.name)
    };
    for ObservedColumn { name, ty, .. } in live.columns.iter().filter(is_removed) {
        let kind = DriftKind::ExtraColumn { column: name.clone(), live: ty.clone() };
        found.push(notice_drift(&table.name, kind));
    }
    found
}
