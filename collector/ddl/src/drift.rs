//! Where live tables differ from their declaration: each difference with its weight, readable and
//! as JSON. Pure: compares values, asks nobody.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::declared::{Declared, DeclaredTable, DeclaredView};
use crate::names::TableName;
use crate::observe::{Observed, ObservedColumn, ObservedTable};
use crate::options::Engine;
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
    /// An index is there that nobody declared; every insert pays for it.
    ExtraIndex {
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
    /// The table lies on another storage policy.
    StoragePolicy {
        /// Declared policy.
        declared: String,
        /// Live policy; `None`: the server's default.
        live: Option<String>,
    },
    /// Columns are compressed otherwise.
    Compression {
        /// Their names, in order; at least one.
        columns: Vec<String>,
        /// What is declared for the first.
        declared: String,
        /// What the first has; empty: the server's default.
        live: String,
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
            DriftKind::ExtraIndex { index } => write!(f, "index {index} is not declared"),
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
            DriftKind::StoragePolicy { declared, live } => {
                write!(f, "storage policy is {}, declared {declared}", ever(live))
            }
            DriftKind::Compression { columns, declared, live } => {
                let (count, first) = (columns.len(), columns.first().map_or("", String::as_str));
                let live = if live.is_empty() { "the server's default" } else { live };
                write!(
                    f,
                    "compression of {count} columns differs: {first} has {live}, declared \
                     {declared}"
                )
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
    found.extend(of_companions(declared, observed));
    found
}

/// Roll-ups and tables over shards: made by one statement each and never altered, so what counts is
/// whether they are there.
fn of_companions(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let live = |name: &TableName| observed.tables.get(name.table());
    let mut found = Vec::new();
    for rollup in declared.rollups() {
        if live(&rollup.name).is_none() {
            found.push(notice(&rollup.name, DriftKind::MissingTable));
        }
        if live(&rollup.view).is_none() {
            found.push(notice(&rollup.view, DriftKind::MissingView));
        }
    }
    for table in declared.distributed_tables() {
        match live(&table.name) {
            None => found.push(notice(&table.name, DriftKind::MissingTable)),
            Some(there) if there.engine != "Distributed" => {
                let (declared, live) = ("Distributed".to_owned(), there.engine.clone());
                found.push(breaking(&table.name, DriftKind::Engine { declared, live }));
            }
            Some(_) => {}
        }
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
    for index in &live.indexes {
        if !table.indexes.iter().any(|declared| declared.name == index) {
            found.push(notice(name, DriftKind::ExtraIndex { index: index.clone() }));
        }
    }
    found.extend(of_keys(declared, live));
    found.extend(of_compression(declared, live));
    // Before the time to live, whose moves name volumes of this policy.
    if let Some(policy) = &options.storage.policy {
        let there = live.setting("storage_policy").map(|text| text.trim_matches('\'').to_owned());
        let policy = policy.to_string();
        if there.as_ref() != Some(&policy) {
            found.push(breaking(name, DriftKind::StoragePolicy { declared: policy, live: there }));
        }
    }
    let declared_ttl = render::canonical_ttl(table.ttl_from, options);
    if declared_ttl.as_deref().map(by_seconds) != live.ttl().map(by_seconds) {
        let live = live.ttl().map(str::to_owned);
        found.push(breaking(name, DriftKind::Ttl { declared: declared_ttl, live }));
    }
    for (setting, wanted) in render::deduplication_settings(options) {
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

/// Rules of a time to live, of which those that delete a row in the same second are the same text:
/// other writers spell the time as `toDateTime(Start)`, which is of that type already, and
/// `TimestampTime` is `toDateTime(Timestamp)`.
fn by_seconds(rules: &str) -> String {
    let times = ["Timestamp", "TimeUnix", "Start"];
    let spelled = rules.replace("TimestampTime", "Timestamp");
    times.iter().fold(spelled, |text, time| text.replace(&format!("toDateTime({time})"), time))
}

/// All columns that are compressed otherwise as one difference: one statement mends them.
fn of_compression(declared: &DeclaredTable, live: &ObservedTable) -> Option<Drift> {
    let differing: Vec<(&str, String, &str)> = declared
        .table
        .columns
        .iter()
        .filter_map(|column| {
            let there = live.columns.iter().find(|there| there.name == column.name)?;
            let wanted = render::canonical_codec(column.codec)?;
            (there.codec != wanted).then_some((column.name, wanted, there.codec.as_str()))
        })
        .collect();
    let (_, wanted, live) = differing.first()?.clone();
    let columns = differing.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let kind = DriftKind::Compression { columns, declared: wanted, live: live.to_owned() };
    Some(notice(&declared.name, kind))
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
    let other = table.order_by_attributes().map(|keys| render::canonical_list(&keys));
    if sorting != live.sorting_key && other.as_ref() != Some(&live.sorting_key) {
        let live = live.sorting_key.clone();
        found.push(notice(name, DriftKind::SortingKey { declared: sorting, live }));
    }
    found
}

fn of_columns(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options: _ } = declared;
    let there: BTreeMap<&str, &str> =
        live.columns.iter().map(|column| (column.name.as_str(), column.ty.as_str())).collect();
    let inserted = table
        .columns
        .iter()
        .map(|column| (column.name, declared.column_type(column), Severity::Breaking));
    let own = declared
        .own_columns()
        .map(|column| (column.name, column.ty.type_name().to_owned(), Severity::Notice));
    let mut found = Vec::new();
    for (column, wanted, severity) in inserted.chain(own) {
        let object = name.to_string();
        let column_name = column.to_owned();
        match there.get(column) {
            None => {
                let kind = DriftKind::MissingColumn { column: column_name, declared: wanted };
                found.push(Drift { object, kind, severity });
            }
            Some(live) if plain_type(live) != plain_type(&wanted) => {
                let severity = match is_converted_on_insert(&wanted, live) {
                    true => Severity::Notice,
                    false => Severity::Breaking,
                };
                let live = (*live).to_owned();
                let kind = DriftKind::ColumnType { column: column_name, declared: wanted, live };
                found.push(Drift { object, kind, severity });
            }
            Some(_) => {}
        }
    }
    for ObservedColumn { name: column, ty, .. } in &live.columns {
        let is_own = declared.own_columns().any(|own| own.name == column);
        if table.column(column).is_none() && !is_own {
            let kind = DriftKind::ExtraColumn { column: column.clone(), live: ty.clone() };
            found.push(notice(name, kind));
        }
    }
    found
}

/// Whether values of one type go into a column of the other without loss.
pub(crate) fn is_lossless(declared: &str, live: &str) -> bool {
    plain_type(declared) == plain_type(live) || is_converted_on_insert(declared, live)
}

/// A type without the quotes that servers put around some paths and not around others.
fn plain_type(ty: &str) -> String {
    ty.replace('`', "")
}

/// Whether the server turns one type into the other while inserting, without loss: dictionaries and
/// plain strings, and a time zone that only changes how a time is shown.
fn is_converted_on_insert(declared: &str, live: &str) -> bool {
    bare(declared) == bare(live) || (holds_json(declared) && holds_json(live))
}

/// `JSON` with whatever typed paths and limits: each is turned into the other on insert.
fn holds_json(ty: &str) -> bool {
    ty == "JSON" || (ty.starts_with("JSON(") && ty.ends_with(')'))
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

    /// Scenario: the same retention as each writer spells it, and others. Guarantee: only what
    /// deletes in the same second is equal.
    #[test]
    fn a_retention_is_told_by_when_it_deletes() {
        for (ours, theirs) in [
            ("TimestampTime + toIntervalDay(30)", "toDateTime(Timestamp) + toIntervalDay(30)"),
            ("TimestampTime + toIntervalDay(30)", "Timestamp + toIntervalDay(30)"),
            ("Start + toIntervalDay(30)", "toDateTime(Start) + toIntervalDay(30)"),
            ("toDateTime(TimeUnix) + toIntervalDay(1)", "TimeUnix + toIntervalDay(1)"),
        ] {
            assert_eq!(by_seconds(ours), by_seconds(theirs), "{ours} {theirs}");
        }
        for (ours, theirs) in [
            ("Start + toIntervalDay(30)", "Start + toIntervalDay(31)"),
            ("Start + toIntervalDay(30)", "End + toIntervalDay(30)"),
            ("Start + toIntervalDay(30)", "toDate(Start) + toIntervalDay(30)"),
        ] {
            assert_ne!(by_seconds(ours), by_seconds(theirs), "{ours} {theirs}");
        }
    }

    /// Scenario: pairs of live and declared types. Guarantee: only lossless ones count as equal.
    #[test]
    fn lossless_types_are_told_from_others() {
        for (declared, live) in [
            ("LowCardinality(String)", "String"),
            ("Array(String)", "Array(LowCardinality(String))"),
            ("DateTime64(9)", "DateTime64(9, 'UTC')"),
            ("Array(DateTime64(9))", "Array(DateTime64(9, 'Europe/Berlin'))"),
            ("Map(LowCardinality(String), String)", "Map(String, String)"),
            ("JSON", "JSON(max_dynamic_paths=256)"),
            ("JSON(`a.b` String)", "JSON"),
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
