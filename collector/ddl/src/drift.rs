//! Where live tables differ from their declaration: each difference with its weight, readable and
//! as JSON. Pure: compares values, asks nobody.

use std::fmt;

use serde::Serialize;

use crate::declared::{Declared, DeclaredTable, DeclaredView, Engine};
use crate::observe::{Observed, ObservedColumn, ObservedTable};
use crate::render;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// `database`, or `database.table`.
    pub object: String,
    /// What differs.
    #[serde(flatten)]
    pub kind: DriftKind,
    /// How much it matters.
    pub severity: Severity,
}

/// How much a difference matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Inserts and reads work; worth knowing.
    Notice,
    /// Inserts or reads fail, or what is promised (deduplication, retention) is not kept.
    Breaking,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "difference", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DriftKind {
    /// The database does not exist.
    MissingDatabase,
    /// The table does not exist.
    MissingTable,
    /// The view does not exist.
    MissingView,
    /// A declared column is not there.
    MissingColumn {
        /// Its name.
        column: String,
        /// Its declared type.
        declared: String,
    },
    /// A column is there that nobody declared.
    ExtraColumn {
        /// Its name.
        column: String,
        /// Its live type.
        live: String,
    },
    /// A column has another type.
    ColumnType {
        /// Its name.
        column: String,
        /// Its declared type.
        declared: String,
        /// Its live type.
        live: String,
    },
    /// A declared data-skipping index is not there.
    MissingIndex {
        /// Its name.
        index: String,
    },
    /// The table has another engine, or is no table at all.
    Engine {
        /// Declared engine.
        declared: String,
        /// Live engine.
        live: String,
    },
    /// The table is cut into other partitions.
    PartitionKey {
        /// Declared key.
        declared: String,
        /// Live key.
        live: String,
    },
    /// The table is sorted otherwise.
    SortingKey {
        /// Declared key.
        declared: String,
        /// Live key.
        live: String,
    },
    /// Rows are kept for another time.
    Ttl {
        /// Declared rule; `None`: for ever.
        declared: Option<String>,
        /// Live rule; `None`: for ever.
        live: Option<String>,
    },
    /// The table remembers fewer inserts than declared, so a late retry could be stored twice.
    Setting {
        /// Name of the setting.
        setting: String,
        /// Declared value.
        declared: u64,
        /// Live value; `None`: not set on the table.
        live: Option<String>,
    },
    /// The view fills another table, or is no materialized view.
    ViewTarget {
        /// Declared target.
        declared: String,
    },
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        let ever = |rule: &Option<String>| rule.clone().unwrap_or_else(|| "none".to_owned());
        match &self.kind {
            DriftKind::MissingDatabase => f.write_str("the database does not exist"),
            DriftKind::MissingTable => f.write_str("the table does not exist"),
            DriftKind::MissingView => f.write_str("the view does not exist"),
            DriftKind::MissingColumn { column, declared } => {
                write!(f, "column {column} ({declared}) is missing")
            }
            DriftKind::ExtraColumn { column, live } => {
                write!(f, "column {column} ({live}) is not declared")
            }
            DriftKind::ColumnType { column, declared, live } => {
                write!(f, "column {column} is {live}, declared {declared}")
            }
            DriftKind::MissingIndex { index } => write!(f, "index {index} is missing"),
            DriftKind::Engine { declared, live } => {
                write!(f, "engine is {live}, declared {declared}")
            }
            DriftKind::PartitionKey { declared, live } => {
                write!(f, "partition key is ({live}), declared ({declared})")
            }
            DriftKind::SortingKey { declared, live } => {
                write!(f, "sorting key is ({live}), declared ({declared})")
            }
            DriftKind::Ttl { declared, live } => {
                write!(f, "time to live is {}, declared {}", ever(live), ever(declared))
            }
            DriftKind::Setting { setting, declared, live } => {
                write!(f, "setting {setting} is {}, declared {declared}", ever(live))
            }
            DriftKind::ViewTarget { declared } => {
                write!(f, "is no materialized view that fills {declared}")
            }
        }
    }
}

/// Every difference, table by table in the order they are made. Empty means equal.
#[must_use]
pub fn diff(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let mut found = Vec::new();
    if !observed.database {
        found.push(breaking(&declared.database, DriftKind::MissingDatabase));
    }
    for table in declared.tables() {
        match observed.tables.get(table.name.table()) {
            None => found.push(breaking(&table.name, DriftKind::MissingTable)),
            Some(live) => found.extend(of_table(&table, live)),
        }
    }
    if let Some(view) = declared.view() {
        found.extend(of_view(&view, observed.tables.get(view.name.table())));
    }
    found
}

fn breaking(object: &impl fmt::Display, kind: DriftKind) -> Drift {
    Drift { object: object.to_string(), kind, severity: Severity::Breaking }
}

fn notice(object: &impl fmt::Display, kind: DriftKind) -> Drift {
    Drift { object: object.to_string(), kind, severity: Severity::Notice }
}

fn of_view(view: &DeclaredView, live: Option<&ObservedTable>) -> Option<Drift> {
    let DeclaredView { name, source: _, target, view: _ } = view;
    let Some(live) = live else {
        return Some(breaking(name, DriftKind::MissingView));
    };
    let plain = live.create_statement.replace('`', "");
    let fills = format!(" TO {target}");
    let is_ours = live.engine == "MaterializedView"
        && plain.split_once(&fills).is_some_and(|(_, rest)| !rest.starts_with(is_word));
    let kind = DriftKind::ViewTarget { declared: target.to_string() };
    (!is_ours).then(|| breaking(name, kind))
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn of_table(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options } = declared;
    let engine = options.engine.name();
    // The managed service stores every MergeTree table in its own shared engines.
    if live.engine != engine && live.engine != format!("Shared{engine}").replace("Replicated", "") {
        let kind = DriftKind::Engine { declared: engine.to_owned(), live: live.engine.clone() };
        let mut found = vec![breaking(name, kind)];
        // A view or a foreign table in the way has columns that nobody can add to.
        if live.engine.ends_with("MergeTree") || live.engine == "Null" {
            found.extend(of_columns(declared, live));
        }
        return found;
    }
    let mut found = of_columns(declared, live);
    if options.engine == Engine::Null {
        return found;
    }
    for index in &table.indexes {
        if !live.indexes.contains(index.name) {
            found.push(notice(name, DriftKind::MissingIndex { index: index.name.to_owned() }));
        }
    }
    found.extend(of_keys(declared, live));
    let declared_ttl = options.ttl.map(|kept| render::canonical_ttl(table.ttl_from, kept));
    if declared_ttl.as_deref() != live.ttl() {
        let live = live.ttl().map(str::to_owned);
        found.push(breaking(name, DriftKind::Ttl { declared: declared_ttl, live }));
    }
    for (setting, wanted) in render::deduplication_settings(&options.engine) {
        let value = live.setting(setting);
        let is_enough = value.and_then(|text| text.parse().ok()).is_some_and(|n: u64| n >= wanted);
        if !is_enough {
            let kind = DriftKind::Setting {
                setting: setting.to_owned(),
                declared: wanted,
                live: value.map(str::to_owned),
            };
            found.push(breaking(name, kind));
        }
    }
    found
}

fn of_keys(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options: _ } = declared;
    let mut found = Vec::new();
    let partition = render::canonical_list(&[table.partition_by]);
    if partition != live.partition_key {
        let live = live.partition_key.clone();
        found.push(notice(name, DriftKind::PartitionKey { declared: partition, live }));
    }
    let sorting = render::canonical_list(&table.order_by);
    if sorting != live.sorting_key {
        let live = live.sorting_key.clone();
        found.push(notice(name, DriftKind::SortingKey { declared: sorting, live }));
    }
    found
}

fn of_columns(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options: _ } = declared;
    let mut found = Vec::new();
    for column in &table.columns {
        let wanted = column.ty.to_string();
        let there = live.columns.iter().find(|live| live.name == column.name);
        let column = column.name.to_owned();
        match there {
            None => {
                found.push(breaking(name, DriftKind::MissingColumn { column, declared: wanted }));
            }
            Some(ObservedColumn { ty, .. }) if *ty != wanted => {
                let converts = is_converted_on_insert(&wanted, ty);
                let kind = DriftKind::ColumnType { column, declared: wanted, live: ty.clone() };
                found.push(if converts { notice(name, kind) } else { breaking(name, kind) });
            }
            Some(_) => {}
        }
    }
    for ObservedColumn { name: column, ty, default_kind: _ } in &live.columns {
        if table.column(column).is_none() {
            let kind = DriftKind::ExtraColumn { column: column.clone(), live: ty.clone() };
            found.push(notice(name, kind));
        }
    }
    found
}

/// Whether the server turns one type into the other while inserting, without loss: dictionaries and
/// plain strings, and a time zone that only changes how a time is shown.
fn is_converted_on_insert(declared: &str, live: &str) -> bool {
    bare(declared) == bare(live)
}

/// The type without dictionaries and time zones.
fn bare(ty: &str) -> String {
    let plain = ty.replace("LowCardinality(String)", "String");
    match (plain.find(", '"), plain.find("DateTime64(9")) {
        (Some(zone), Some(_)) => {
            let end = plain[zone..].find(')').map_or(plain.len(), |at| zone + at);
            format!("{}{}", &plain[..zone], &plain[end..])
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: pairs of live and declared types. Guarantee: only lossless ones count as equal.
    #[test]
    fn lossless_types_are_told_from_others() {
        for (declared, live) in [
            ("LowCardinality(String)", "String"),
            ("Array(String)", "Array(LowCardinality(String))"),
            ("DateTime64(9)", "DateTime64(9, 'UTC')"),
            ("Array(DateTime64(9))", "Array(DateTime64(9, 'Europe/Berlin'))"),
            ("Map(LowCardinality(String), String)", "Map(String, String)"),
        ] {
            assert!(is_converted_on_insert(declared, live), "{declared} {live}");
        }
        for (declared, live) in [
            ("DateTime64(9)", "DateTime64(3)"),
            ("UInt64", "UInt32"),
            ("JSON", "Map(LowCardinality(String), String)"),
            ("String", "FixedString(16)"),
        ] {
            assert!(!is_converted_on_insert(declared, live), "{declared} {live}");
        }
    }
}
