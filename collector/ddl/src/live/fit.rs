//! Judges how a live table accepts a writer's inserts: which declared columns it has, which have
//! another type, and whether it remembers the inserts' tokens. Pure: it maps rows of system tables
//! to a result.

use std::fmt;

use millrace_schema::Table;

use crate::live::drift::{accepts_inserts, time_zone};
use crate::live::observe::ObservedTable;

/// Functions of a partition key whose partitions are days or unions of days. An insert has rows of
/// one (UTC) day, so it falls into one such partition if the column's days are counted in UTC; a
/// column without a time zone has the server's.
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

/// Names of time zones whose days are UTC's.
const UTC: [&str; 8] =
    ["UTC", "Etc/UTC", "UCT", "Etc/UCT", "GMT", "Etc/GMT", "Universal", "Etc/Universal"];

/// How a live table accepts inserts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Declared columns that accept no value: they do not exist, or the server computes them.
    pub missing: Vec<&'static str>,
    /// Declared columns whose live type may not fit their values.
    pub mismatched: Vec<TypeMismatch>,
    /// Why the table may store a repeated insert twice; `None`: it recognises repeated inserts.
    pub dedup_fault: Option<DedupFault>,
    /// The number of inserts that it remembers, and for how long.
    pub dedup_window: LiveDeduplicationWindow,
}

/// The number of inserts that a live table remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveDeduplicationWindow {
    /// The number of latest inserts; 0 if it recognises no repeated insert.
    pub inserts: u64,
    /// The maximum time in seconds; `None`: only the number limits them.
    pub seconds: Option<u64>,
}

/// The memory of a replicated table without its own settings: the minimum of released servers'
/// defaults.
const REPLICATED_DEFAULT: LiveDeduplicationWindow =
    LiveDeduplicationWindow { inserts: 1_000, seconds: Some(3_600) };

/// A column with another type than declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The column's name.
    pub column: &'static str,
    /// The declared type.
    pub declared: String,
    /// The live type.
    pub live: String,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} is {}, written as {}", self.column, self.live, self.declared)
    }
}

/// Why a table may store a repeated insert twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupFault {
    /// Its engine remembers no inserts.
    Engine(String),
    /// This setting turns its memory off.
    NoWindow(&'static str),
    /// With this key an insert may fall into several partitions. A server that stops between them
    /// remembers only one part.
    PartitionKey(String),
}

impl fmt::Display for DedupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(engine) => write!(f, "engine {engine} remembers no inserts"),
            Self::NoWindow(setting) => write!(f, "{setting} is 0"),
            Self::PartitionKey(key) => write!(f, "partition key {key} may cut a day's insert"),
        }
    }
}

/// Judges a live table. Returns `None` if it shows none of the declared columns: it does not exist,
/// or the user may not see them.
#[must_use]
pub fn assess_fit(declared: &Table, live: &ObservedTable) -> Option<Fit> {
    let undeduplicated = dedup_fault(live);
    let remembers = dedup_window(live, undeduplicated.as_ref());
    let mut fit = Fit { dedup_fault: undeduplicated, dedup_window: remembers, ..Fit::default() };
    let mut known = 0;
    for column in declared.insert_columns() {
        let found = live.columns.iter().find(|live| live.name == column.name);
        known += usize::from(found.is_some());
        match found {
            Some(there) if !is_computed(&there.default_kind) => {
                let expected = column.ty.to_string();
                if !accepts_inserts(&expected, &there.ty) {
                    let live = there.ty.clone();
                    fit.mismatched.push(TypeMismatch {
                        column: column.name,
                        declared: expected,
                        live,
                    });
                }
            }
            Some(_) | None => fit.missing.push(column.name),
        }
    }
    (known > 0).then_some(fit)
}

/// Returns whether the server computes a column's values: it refuses an insert that names such a
/// column.
fn is_computed(default_kind: &str) -> bool {
    matches!(default_kind, "MATERIALIZED" | "ALIAS")
}

fn dedup_window(
    live: &ObservedTable,
    undeduplicated: Option<&DedupFault>,
) -> LiveDeduplicationWindow {
    let number = |setting| live.number(setting);
    if matches!(undeduplicated, Some(DedupFault::Engine(_) | DedupFault::NoWindow(_))) {
        return LiveDeduplicationWindow::default();
    }
    if !is_replicated(live) {
        let inserts = number("non_replicated_deduplication_window").unwrap_or(0);
        return LiveDeduplicationWindow { inserts, seconds: None };
    }
    LiveDeduplicationWindow {
        inserts: number("replicated_deduplication_window").unwrap_or(REPLICATED_DEFAULT.inserts),
        seconds: number("replicated_deduplication_window_seconds").or(REPLICATED_DEFAULT.seconds),
    }
}

fn is_replicated(live: &ObservedTable) -> bool {
    live.engine.starts_with("Replicated") || live.engine.starts_with("Shared")
}

fn dedup_fault(live: &ObservedTable) -> Option<DedupFault> {
    let engine = live.engine.as_str();
    if !engine.ends_with("MergeTree") {
        return Some(DedupFault::Engine(engine.to_owned()));
    }
    // Replicated and shared tables remember inserts by default, plain ones only with a setting.
    let (setting, default) = match is_replicated(live) {
        true => ("replicated_deduplication_window", 1),
        false => ("non_replicated_deduplication_window", 0),
    };
    let window = live.setting(setting).map_or(Some(default), |text| text.parse::<u64>().ok());
    if window == Some(0) {
        return Some(DedupFault::NoWindow(setting));
    }
    let key = live.partition_key.as_str();
    (!has_complete_days(live)).then(|| DedupFault::PartitionKey(key.to_owned()))
}

/// Returns whether each partition is made of whole days of UTC.
fn has_complete_days(live: &ObservedTable) -> bool {
    let key = live.partition_key.as_str();
    if key.is_empty() || key == "tuple()" {
        return true;
    }
    let Some((function, rest)) = key.split_once('(') else { return false };
    let argument = rest.strip_suffix(')').unwrap_or(rest);
    // A second argument would be another time zone or another column.
    if !BY_DAY_OR_COARSER.contains(&function) || argument.contains([',', '(']) {
        return false;
    }
    let column = live.columns.iter().find(|column| column.name == argument);
    column.and_then(|column| time_zone(&column.ty)).is_none_or(|zone| UTC.contains(&zone))
}

#[cfg(test)]
mod tests;
