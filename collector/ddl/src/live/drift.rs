//! Lists where live tables differ from their declaration, each difference with its severity, as
//! text and as JSON. Pure: it compares values and queries no server.

mod companions;
mod indexes;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::declared::names::TableName;
use crate::declared::options::Engine;
use crate::declared::ttl::interval_seconds;
use crate::declared::{Declared, DeclaredTable};
use crate::live::observe::{Observed, ObservedColumn, ObservedTable};
use crate::render;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// `database`, or `database.table`.
    pub object: String,
    /// The kind of the difference.
    #[serde(flatten)]
    pub kind: DriftKind,
    /// Its severity.
    pub severity: Severity,
}

/// The severity of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Inserts and reads work; the user should know.
    Notice,
    /// Inserts or reads fail, or a promise (deduplication, retention) is broken.
    Breaking,
}

/// The kind of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "difference", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DriftKind {
    /// The database does not exist.
    MissingDatabase,
    /// The table does not exist.
    MissingTable,
    /// The view does not exist.
    MissingView,
    /// A declared column does not exist.
    MissingColumn {
        /// The column's name.
        column: String,
        /// The declared type.
        declared: String,
    },
    /// A column exists that is not declared.
    ExtraColumn {
        /// The column's name.
        column: String,
        /// The live type.
        live: String,
    },
    /// A column has another type.
    ColumnType {
        /// The column's name.
        column: String,
        /// The declared type.
        declared: String,
        /// The live type.
        live: String,
    },
    /// A declared data-skipping index does not exist.
    MissingIndex {
        /// The index's name.
        index: String,
    },
    /// An index exists that is not declared; every insert pays for it.
    ExtraIndex {
        /// The index's name.
        index: String,
    },
    /// An index has the declared name and indexes something else, or in another way.
    IndexDefinition {
        /// The index's name.
        index: String,
        /// The declared expression and type.
        declared: String,
        /// The live expression and type.
        live: String,
    },
    /// The table has another engine, or the object is not a table.
    Engine {
        /// Declared engine.
        declared: String,
        /// Live engine.
        live: String,
    },
    /// The table has another partition key.
    PartitionKey {
        /// Declared key.
        declared: String,
        /// Live key.
        live: String,
    },
    /// The table has another sorting key.
    SortingKey {
        /// Declared key.
        declared: String,
        /// Live key.
        live: String,
    },
    /// The table retains rows for another time.
    Ttl {
        /// Declared rule; `None`: for ever.
        declared: Option<String>,
        /// Live rule; `None`: for ever.
        live: Option<String>,
    },
    /// A table setting differs: the table remembers fewer inserts than declared, so that a late
    /// retry could be stored twice, or rows would not expire as its partitions require.
    Setting {
        /// Name of the setting.
        setting: String,
        /// Declared value.
        declared: u64,
        /// Live value; `None`: not set on the table.
        live: Option<String>,
    },
    /// The table has another storage policy.
    StoragePolicy {
        /// Declared policy.
        declared: String,
        /// Live policy; `None`: the server's default.
        live: Option<String>,
    },
    /// Columns have other codecs.
    Compression {
        /// The columns' names, in order; at least one.
        columns: Vec<String>,
        /// The declared codec of the first column.
        declared: String,
        /// The live codec of the first column; empty: the server's default.
        live: String,
    },
    /// The view has another query: it stores other rows than declared.
    ViewQuery {
        /// Declared query.
        declared: String,
        /// Live query.
        live: String,
    },
    /// The view fills another table, or is not a materialized view.
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
                write!(f, "column {column} is {live}, declared {declared}")?;
                match loses_precision(declared, live) && !is_converted_on_insert(declared, live) {
                    true => f.write_str(": inserts work, and times lose precision"),
                    false => Ok(()),
                }
            }
            DriftKind::MissingIndex { index } => write!(f, "index {index} is missing"),
            DriftKind::ExtraIndex { index } => write!(f, "index {index} is not declared"),
            DriftKind::IndexDefinition { index, declared, live } => {
                write!(f, "index {index} is {live}, declared {declared}")
            }
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
            DriftKind::ViewQuery { declared, live } => {
                write!(f, "the view's query is {live}, declared {declared}")
            }
            DriftKind::ViewTarget { declared } => {
                write!(f, "is no materialized view that fills {declared}")
            }
        }
    }
}

/// Returns every difference, table by table in creation order. An empty list means equal.
#[must_use]
pub fn find_drift(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let mut found = Vec::new();
    if !observed.database {
        found.push(breaking_drift(&declared.database, DriftKind::MissingDatabase));
    }
    for table in declared.tables() {
        match observed.tables.get(table.name.table()) {
            None => found.push(breaking_drift(&table.name, DriftKind::MissingTable)),
            Some(live) => found.extend(of_table(&table, live)),
        }
    }
    if let Some(view) = declared.view() {
        found.extend(companions::of_view(&view, observed.tables.get(view.name.table())));
    }
    found.extend(companions::of_companions(declared, observed));
    found
}

fn breaking_drift(object: &impl fmt::Display, kind: DriftKind) -> Drift {
    Drift { object: object.to_string(), kind, severity: Severity::Breaking }
}

fn notice_drift(object: &impl fmt::Display, kind: DriftKind) -> Drift {
    Drift { object: object.to_string(), kind, severity: Severity::Notice }
}

fn of_table(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options } = declared;
    let engine = options.engine.as_str();
    // ClickHouse Cloud stores every MergeTree table in its own shared engines.
    if live.engine != engine && live.engine != format!("Shared{engine}").replace("Replicated", "") {
        let kind = DriftKind::Engine { declared: engine.to_owned(), live: live.engine.clone() };
        let mut found = vec![breaking_drift(name, kind)];
        // No statement can add columns to a view or a foreign table of that name.
        if live.engine.ends_with("MergeTree") || live.engine == "Null" {
            found.extend(of_columns(declared, live));
        }
        return found;
    }
    let mut found = of_columns(declared, live);
    if options.engine == Engine::Null {
        return found;
    }
    found.extend(indexes::of_indexes(declared, live));
    found.extend(of_keys(declared, live));
    found.extend(of_compression(declared, live));
    // This comes before the time to live, whose moves name volumes of this policy.
    if let Some(policy) = &options.storage.policy {
        let there = live.setting("storage_policy").map(|text| text.trim_matches('\'').to_owned());
        let policy = policy.to_string();
        if there.as_ref() != Some(&policy) {
            found.push(breaking_drift(
                name,
                DriftKind::StoragePolicy { declared: policy, live: there },
            ));
        }
    }
    // This also comes before the time to live, which would rewrite the parts without these
    // settings.
    if options.ttl.is_some() || options.storage.move_after.is_some() {
        found.extend(of_retention_settings(name, live));
    }
    let declared_ttl = render::canonical_ttl(table.ttl_from, options);
    if !has_equal_ttl(declared_ttl.as_deref(), live) {
        let live = live.ttl().map(str::to_owned);
        found.push(breaking_drift(name, DriftKind::Ttl { declared: declared_ttl, live }));
    }
    found.extend(of_deduplication_settings(declared, live));
    found
}

/// Returns windows that are smaller than declared, or not set. A larger one harms nothing.
fn of_deduplication_settings(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table: _, options } = declared;
    let expected = render::deduplication_settings(options).into_iter();
    let smaller =
        expected.filter(|(setting, value)| live.number(setting).is_none_or(|live| live < *value));
    smaller
        .map(|(setting, value)| breaking_drift(name, setting_drift(setting, value, live)))
        .collect()
}

/// Returns settings by which rows of the live partitions, declared or not, would not expire as they
/// should. A setting that is not set is 0, the server's default.
fn of_retention_settings(name: &TableName, live: &ObservedTable) -> Vec<Drift> {
    let expected = render::retention_settings(has_day_partitions(&live.partition_key)).into_iter();
    let other = expected.filter(|(setting, value)| live.number(setting).unwrap_or(0) != *value);
    other.map(|(setting, value)| notice_drift(name, setting_drift(setting, value, live))).collect()
}

fn setting_drift(setting: &str, declared: u64, live: &ObservedTable) -> DriftKind {
    let live = live.setting(setting).map(str::to_owned);
    DriftKind::Setting { setting: setting.to_owned(), declared, live }
}

/// Returns whether each partition of this key is a day or part of one.
fn has_day_partitions(key: &str) -> bool {
    key.split(", ").any(|part| {
        let part = part.trim_start_matches('(').trim_end_matches(')');
        part.split_once('(').is_some_and(|(function, argument)| {
            let is_day = ["toDate", "toYYYYMMDD", "toStartOfDay", "toStartOfHour"];
            is_day.contains(&function) && !argument.contains('(')
        })
    })
}

/// Returns whether the live table's rows expire and move when the declared rules say.
fn has_equal_ttl(declared: Option<&str>, live: &ObservedTable) -> bool {
    declared.map(by_seconds) == live.ttl().map(by_seconds)
}

/// Returns the rules of a time to live, normalized so that rules that delete a row in the same
/// second are equal: other writers spell the time as `toDateTime(Start)`, which already has that
/// type, `TimestampTime` is `toDateTime(Timestamp)`, and a day is 86,400 seconds.
fn by_seconds(rules: &str) -> Vec<String> {
    let times = ["Timestamp", "TimeUnix", "Start"];
    let spelled = rules.replace("TimestampTime", "Timestamp");
    let spelled =
        times.iter().fold(spelled, |text, time| text.replace(&format!("toDateTime({time})"), time));
    let of_rule = |rule: &str| {
        let (when, to) = rule.split_once(" TO ").unwrap_or((rule, ""));
        let parts = when.rsplit_once(" + ");
        let parts = parts.and_then(|(time, age)| Some((time, interval_seconds(age)?)));
        parts.map_or_else(|| rule.to_owned(), |(time, seconds)| format!("{time} {seconds} {to}"))
    };
    spelled.split(", ").map(of_rule).collect()
}

/// Returns all columns with other codecs as one difference, since one statement repairs them.
fn of_compression(declared: &DeclaredTable, live: &ObservedTable) -> Option<Drift> {
    let differing: Vec<(&str, String, &str)> = declared
        .table
        .columns
        .iter()
        .filter_map(|column| {
            let there = live.columns.iter().find(|there| there.name == column.name)?;
            let expected = render::canonical_codec(column.codec)?;
            (there.codec != expected).then_some((column.name, expected, there.codec.as_str()))
        })
        .collect();
    let (_, expected, live) = differing.first()?.clone();
    let columns = differing.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let kind = DriftKind::Compression { columns, declared: expected, live: live.to_owned() };
    Some(notice_drift(&declared.name, kind))
}

fn of_keys(declared: &DeclaredTable, live: &ObservedTable) -> Vec<Drift> {
    let DeclaredTable { name, table, options: _ } = declared;
    let mut found = Vec::new();
    let partition = render::canonical_list(&[table.partition_by]);
    if partition != live.partition_key {
        let live = live.partition_key.clone();
        found.push(notice_drift(name, DriftKind::PartitionKey { declared: partition, live }));
    }
    let sorting = render::canonical_list(&table.order_by);
    let other = table.former_order_by().map(|keys| render::canonical_list(&keys));
    if sorting != live.sorting_key && other.as_ref() != Some(&live.sorting_key) {
        let live = live.sorting_key.clone();
        found.push(notice_drift(name, DriftKind::SortingKey { declared: sorting, live }));
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
        .computed_columns()
        .map(|column| (column.name, column.ty.type_name().to_owned(), Severity::Notice));
    let mut found = Vec::new();
    for (column, expected, severity) in inserted.chain(own) {
        let object = name.to_string();
        let column_name = column.to_owned();
        match there.get(column) {
            None => {
                let kind = DriftKind::MissingColumn { column: column_name, declared: expected };
                found.push(Drift { object, kind, severity });
            }
            Some(live) if has_fewer_dictionaries(&expected, live) => {}
            Some(live) if plain_type(live) != plain_type(&expected) => {
                let severity = match accepts_inserts(&expected, live) {
                    true => Severity::Notice,
                    false => Severity::Breaking,
                };
                let live = (*live).to_owned();
                let kind = DriftKind::ColumnType { column: column_name, declared: expected, live };
                found.push(Drift { object, kind, severity });
            }
            Some(_) => {}
        }
    }
    for ObservedColumn { name: column, ty, .. } in &live.columns {
        let is_own = declared.computed_columns().any(|own| own.name == column);
        if table.column(column).is_none() && !is_own {
            let kind = DriftKind::ExtraColumn { column: column.clone(), live: ty.clone() };
            found.push(notice_drift(name, kind));
        }
    }
    found
}

/// Returns whether the live type is the declared one with fewer dictionaries: inserts and queries
/// are the same and only cost more. Such a table is older, or another writer's; it stays as it is
/// and is no difference.
fn has_fewer_dictionaries(declared: &str, live: &str) -> bool {
    let count = |ty: &str| ty.matches("LowCardinality(").count();
    bare_type(declared) == bare_type(live) && count(live) < count(declared)
}

/// Returns whether a column of the live type accepts values of the declared type, perhaps with less
/// precise times.
pub(crate) fn accepts_inserts(declared: &str, live: &str) -> bool {
    plain_type(declared) == plain_type(live)
        || is_converted_on_insert(declared, live)
        || loses_precision(declared, live)
}

/// Returns whether the live column stores the same times in coarser units: the server rounds them
/// on insert. Newer tables of the exporter and ClickStack have whole seconds for points.
fn loses_precision(declared: &str, live: &str) -> bool {
    let element = |ty: &str| Some(ty.strip_prefix("Array(")?.strip_suffix(')')?.to_owned());
    if let (Some(declared), Some(live)) = (element(declared), element(live)) {
        return loses_precision(&declared, &live);
    }
    let live = live.split_once('(').map_or(live, |(name, _)| name);
    declared == "DateTime64(9)" && matches!(live, "DateTime" | "DateTime64")
}

/// Returns a type without the quotes that servers put around some paths and not around others.
fn plain_type(ty: &str) -> String {
    ty.replace('`', "")
}

/// Returns whether the server converts one type to the other on insert without loss: dictionaries
/// and plain strings, and a time zone, which only changes how a time is shown.
fn is_converted_on_insert(declared: &str, live: &str) -> bool {
    bare_type(declared) == bare_type(live) || (holds_json(declared) && holds_json(live))
}

/// Returns whether the type is `JSON`, with any typed paths and limits: the server converts each to
/// the other on insert.
fn holds_json(ty: &str) -> bool {
    ty == "JSON" || (ty.starts_with("JSON(") && ty.ends_with(')'))
}

/// Returns the type without dictionaries and time zones.
fn bare_type(ty: &str) -> String {
    let plain = ty.replace("LowCardinality(String)", "String");
    match time_zone(&plain) {
        Some(zone) => {
            plain.replace(&format!(", '{zone}')"), ")").replace(&format!("('{zone}')"), "")
        }
        None => plain,
    }
}

/// Returns the time zone of a type `DateTime('UTC')`, `DateTime64(9, 'UTC')`, or of an array of
/// them.
pub(crate) fn time_zone(ty: &str) -> Option<&str> {
    let (_, arguments) = ty.split_once("DateTime")?;
    arguments.split('\'').nth(1)
}

#[cfg(test)]
mod tests;
