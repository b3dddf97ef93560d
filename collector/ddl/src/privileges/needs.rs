//! Lists the privileges that repairing a difference needs. Pure.

use std::collections::BTreeSet;

use crate::declared::Declared;
use crate::declared::names::TableName;
use crate::live::drift::{Drift, DriftKind};
use crate::privileges::privilege::{Privilege, PrivilegeScope};
use crate::render::{CREATE_DATABASE, CREATE_TABLE};

/// Returns the privileges that repairing one difference needs.
pub(crate) fn of_drift(declared: &Declared, drift: &Drift) -> BTreeSet<Privilege> {
    let mut needed = BTreeSet::new();
    let on = |name, on| Privilege { name, on };
    let tables = declared.tables();
    let table = tables.iter().find(|table| table.name.to_string() == drift.object);
    let mut add = |name| {
        needed.extend(table.map(|table| on(name, PrivilegeScope::Table(table.name.clone()))))
    };
    match &drift.kind {
        DriftKind::MissingTable if table.is_some() => add(CREATE_TABLE),
        DriftKind::MissingColumn { .. } if table.is_some() => add("ALTER ADD COLUMN"),
        DriftKind::MissingColumn { .. } => {
            needed.extend(of_distributed(declared, &drift.object, "ALTER ADD COLUMN"))
        }
        DriftKind::ColumnType { .. } | DriftKind::Compression { .. } => add("ALTER MODIFY COLUMN"),
        DriftKind::MissingIndex { .. } => add("ALTER ADD INDEX"),
        DriftKind::Setting { .. } | DriftKind::StoragePolicy { .. } => add("ALTER SETTINGS"),
        DriftKind::Ttl { .. } if table.is_some() => add("ALTER TTL"),
        DriftKind::Ttl { .. } => {
            let rollups = declared.rollups().into_iter().map(|rollup| rollup.name);
            let name = rollups.filter(|name| name.to_string() == drift.object);
            needed.extend(name.map(|name| on("ALTER TTL", PrivilegeScope::Table(name))));
        }
        DriftKind::ExtraColumn { .. } if table.is_some() => add("ALTER DROP COLUMN"),
        DriftKind::ExtraColumn { .. } => {
            needed.extend(of_distributed(declared, &drift.object, "ALTER DROP COLUMN"))
        }
        DriftKind::ExtraIndex { .. } | DriftKind::IndexDefinition { .. } => add("ALTER DROP INDEX"),
        DriftKind::MissingDatabase => {
            needed.insert(on(CREATE_DATABASE, PrivilegeScope::Database(declared.database.clone())));
        }
        DriftKind::MissingTable => needed.extend(of_companion(declared, &drift.object)),
        DriftKind::MissingView => needed.extend(of_view(declared, &drift.object)),
        DriftKind::Engine { .. }
        | DriftKind::PartitionKey { .. }
        | DriftKind::SortingKey { .. }
        | DriftKind::ViewQuery { .. }
        | DriftKind::ViewTarget { .. } => {}
    }
    if declared.cluster.is_some() && !needed.is_empty() {
        needed.insert(on("CLUSTER", PrivilegeScope::Server));
    }
    needed
}

/// Returns the privileges for a roll-up, or for a table over all shards, which also connects to
/// other servers.
fn of_companion(declared: &Declared, object: &str) -> Vec<Privilege> {
    let rollup = declared.rollups().into_iter().find(|each| each.name.to_string() == object);
    if let Some(rollup) = rollup {
        return vec![Privilege { name: CREATE_TABLE, on: PrivilegeScope::Table(rollup.name) }];
    }
    let all = declared.distributed_tables();
    let table = all.into_iter().find(|each| each.name.to_string() == object);
    table.map_or_else(Vec::new, |table| {
        vec![
            Privilege { name: CREATE_TABLE, on: PrivilegeScope::Table(table.name) },
            Privilege { name: "REMOTE", on: PrivilegeScope::Server },
        ]
    })
}

/// Returns the privilege on a table over all shards.
fn of_distributed(declared: &Declared, object: &str, name: &'static str) -> Option<Privilege> {
    let all = declared.distributed_tables();
    let table = all.into_iter().find(|each| each.name.to_string() == object)?;
    Some(Privilege { name, on: PrivilegeScope::Table(table.name) })
}

/// Returns the privileges for a view: it reads its source and fills its target with its creator's
/// rights.
fn of_view(declared: &Declared, object: &str) -> Vec<Privilege> {
    let of = |view: TableName, source: TableName, target: TableName| {
        let on =
            |name, table: &TableName| Privilege { name, on: PrivilegeScope::Table(table.clone()) };
        vec![
            on("CREATE VIEW", &view),
            on("SELECT", &source),
            on("SELECT", &target),
            on("INSERT", &target),
        ]
    };
    if let Some(view) = declared.view().filter(|view| view.name.to_string() == object) {
        return of(view.name, view.source, view.target);
    }
    let rollup = declared.rollups().into_iter().find(|each| each.view.to_string() == object);
    rollup.map_or_else(Vec::new, |rollup| of(rollup.view, rollup.source, rollup.name))
}
