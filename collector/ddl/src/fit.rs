//! How a live table takes a writer's inserts: which of the declared columns it has, which of them
//! with another type, and whether it remembers the tokens of inserts. Pure: rows of system tables
//! in, a judgement out.

use std::fmt;

use millrace_schema::Table;

use crate::drift::is_lossless;
use crate::observe::ObservedTable;

/// Functions of a partition key whose partitions are days or unions of days. An insert holds rows
/// of one day (in UTC), so it falls into one such partition where the server counts days in UTC.
const BY_DAY_OR_COARSER: [&str; 11] = [
    "toDate",
    "toYYYYMMDD",
    "toStartOfDay",
    "toMonday",
    "toStartOfWeek",
    "toYYYYMM",
    "toStartOfMonth",
    "toStartOfQuarter",
    "toStartOfYear",
    "toYear",
    "toRelativeDayNum",
];

/// How a live table takes inserts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Declared columns that take no value: not there, or computed by the server.
    pub missing: Vec<&'static str>,
    /// Declared columns of a type that values may not fit into.
    pub differing: Vec<Differing>,
    /// Why the table may store a repeated insert twice; `None`: it recognises repetitions.
    pub undeduplicated: Option<Undeduplicated>,
    /// How many inserts it remembers, and for how long.
    pub remembers: Remembers,
}

/// How many inserts a live table remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembers {
    /// The last so many; none where it recognises no repetition.
    pub inserts: u64,
    /// For how many seconds at most; `None`: it goes by their number alone.
    pub seconds: Option<u64>,
}

/// What a replicated table remembers where it doesn't say: the least that released servers had.
const REPLICATED_DEFAULT: Remembers = Remembers { inserts: 1_000, seconds: Some(3_600) };

/// A column with another type than declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Its name.
    pub column: &'static str,
    /// Its declared type.
    pub declared: String,
    /// Its live type.
    pub live: String,
}

impl fmt::Display for Differing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} is {}, written as {}", self.column, self.live, self.declared)
    }
}

/// Why a table may store a repeated insert twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undeduplicated {
    /// Its engine remembers no inserts.
    Engine(String),
    /// It is told to remember none; the name of the setting.
    NoWindow(&'static str),
    /// An insert may fall into several partitions, and a server that stops between them leaves one
    /// part remembered and the other not; the key.
    PartitionKey(String),
}

impl fmt::Display for Undeduplicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(engine) => write!(f, "engine {engine} remembers no inserts"),
            Self::NoWindow(setting) => write!(f, "{setting} is 0"),
            Self::PartitionKey(key) => write!(f, "partition key {key} may cut a day's insert"),
        }
    }
}

/// Judges a live table. `None` when it shows none of the declared columns: it isn't there, or the
/// user who asked may not see them.
#[must_use]
pub fn fit(declared: &Table, live: &ObservedTable) -> Option<Fit> {
    let undeduplicated = undeduplicated(live);
    let remembers = remembers(live, undeduplicated.as_ref());
    let mut fit = Fit { undeduplicated, remembers, ..Fit::default() };
    let mut known = 0;
    for column in declared.insert_columns() {
        let found = live.columns.iter().find(|live| live.name == column.name);
        known += usize::from(found.is_some());
        match found {
            Some(there) if !is_computed(&there.default_kind) => {
                let wanted = column.ty.to_string();
                if !is_lossless(&wanted, &there.ty) {
                    let live = there.ty.clone();
                    fit.differing.push(Differing { column: column.name, declared: wanted, live });
                }
            }
            Some(_) | None => fit.missing.push(column.name),
        }
    }
    (known > 0).then_some(fit)
}

/// Whether a column's values are the server's own: an insert that names it is refused.
fn is_computed(default_kind: &str) -> bool {
    matches!(default_kind, "MATERIALIZED" | "ALIAS")
}

fn remembers(live: &ObservedTable, undeduplicated: Option<&Undeduplicated>) -> Remembers {
    let number = |setting| live.setting(setting).and_then(|text| text.parse::<u64>().ok());
    if matches!(undeduplicated, Some(Undeduplicated::Engine(_) | Undeduplicated::NoWindow(_))) {
        return Remembers::default();
    }
    if !is_replicated(live) {
        let inserts = number("non_replicated_deduplication_window").unwrap_or(0);
        return Remembers { inserts, seconds: None };
    }
    Remembers {
        inserts: number("replicated_deduplication_window").unwrap_or(REPLICATED_DEFAULT.inserts),
        seconds: number("replicated_deduplication_window_seconds").or(REPLICATED_DEFAULT.seconds),
    }
}

fn is_replicated(live: &ObservedTable) -> bool {
    live.engine.starts_with("Replicated") || live.engine.starts_with("Shared")
}

fn undeduplicated(live: &ObservedTable) -> Option<Undeduplicated> {
    let engine = live.engine.as_str();
    if !engine.ends_with("MergeTree") {
        return Some(Undeduplicated::Engine(engine.to_owned()));
    }
    // Replicated and shared tables remember by default, plain ones only if told to.
    let (setting, default) = match is_replicated(live) {
        true => ("replicated_deduplication_window", 1),
        false => ("non_replicated_deduplication_window", 0),
    };
    let window = live.setting(setting).map_or(Some(default), |text| text.parse::<u64>().ok());
    if window == Some(0) {
        return Some(Undeduplicated::NoWindow(setting));
    }
    let key = live.partition_key.as_str();
    (!is_by_day_or_coarser(key)).then(|| Undeduplicated::PartitionKey(key.to_owned()))
}

fn is_by_day_or_coarser(key: &str) -> bool {
    if key.is_empty() || key == "tuple()" {
        return true;
    }
    let Some((function, rest)) = key.split_once('(') else { return false };
    let argument = rest.strip_suffix(')').unwrap_or(rest);
    // A second argument would be another time zone or another column.
    BY_DAY_OR_COARSER.contains(&function) && !argument.contains([',', '('])
}

#[cfg(test)]
#[path = "../tests/unit/fit.rs"]
mod tests;
