//! Guesses who made a set of tables, from columns, keys and names that only one writer uses. Pure.
//! The guess is for people and the journal; no plan depends on it, since a plan compares live with
//! declared tables, whoever made them.

use std::fmt;

use serde::Serialize;

use crate::declared::Declared;
use crate::declared::deduplication_window::DeduplicationWindow;
use crate::declared::options::TableOptions;
use crate::live::observe::{Observed, ObservedTable};
use crate::render::deduplication_settings;

/// Who made a set of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TableOrigin {
    /// Nobody: no tables exist.
    Nobody,
    /// Millrace, before it had a journal.
    Millrace,
    /// Rotel's `clickhouse-ddl`.
    Rotel,
    /// The OpenTelemetry Collector's exporter.
    Collector,
    /// ClickStack's collector.
    ClickStack,
    /// Another writer, or by hand.
    Unknown,
}

impl fmt::Display for TableOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "nobody",
            Self::Millrace => "millrace",
            Self::Rotel => "rotel",
            Self::Collector => "opentelemetry-collector",
            Self::ClickStack => "clickstack",
            Self::Unknown => "unknown",
        })
    }
}

/// Returns who made the existing tables of this set.
#[must_use]
pub fn detect_origin(declared: &Declared, observed: &Observed) -> TableOrigin {
    let tables = declared.tables();
    let live: Vec<(&str, &ObservedTable)> = tables
        .iter()
        .filter_map(|table| observed.tables.get_key_value(table.name.table()))
        .map(|(name, table)| (name.as_str(), table))
        .collect();
    let foreign = observed.tables.contains_key(declared.foreign_exponential().table());
    if live.is_empty() {
        return if foreign { TableOrigin::Collector } else { TableOrigin::Nobody };
    }
    let any = |is: &dyn Fn(&ObservedTable) -> bool| live.iter().any(|(_, table)| is(table));
    if any(&has_clickstack_columns) {
        return TableOrigin::ClickStack;
    }
    if any(&|table| is_ours(declared, table)) {
        return TableOrigin::Millrace;
    }
    if foreign || any(&has_collector_marks) {
        return TableOrigin::Collector;
    }
    let has_all_columns = tables.iter().all(|table| {
        observed.tables.get(table.name.table()).is_none_or(|live| {
            let missing = table
                .table
                .insert_columns()
                .filter(|column| !live.columns.iter().any(|live| live.name == column.name));
            // Rotel's Map logs have no event name.
            missing.map(|column| column.name).all(|name| name == "EventName")
        })
    });
    if has_all_columns { TableOrigin::Rotel } else { TableOrigin::Unknown }
}

/// Returns whether the table has ClickStack's marks: computed columns with its prefix, and a sample
/// rate.
fn has_clickstack_columns(table: &ObservedTable) -> bool {
    table
        .columns
        .iter()
        .any(|column| column.name.starts_with("__hdx_materialized_") || column.name == "SampleRate")
}

/// Returns whether the table has Millrace's mark, a long deduplication window: the declared one, or
/// the minimum, which was set before there were more gateways.
fn is_ours(declared: &Declared, table: &ObservedTable) -> bool {
    [&declared.traces, &declared.logs, &declared.metrics].into_iter().flatten().any(|options| {
        let windows = deduplication_settings(options);
        let least = TableOptions { window: DeduplicationWindow::default(), ..options.clone() };
        let least = deduplication_settings(&least);
        let is_set = |(name, value): &(&str, u64)| {
            let live = table.setting(name).and_then(|live| live.parse().ok());
            live == Some(*value) || live.is_some_and(|live| least.contains(&(*name, live)))
        };
        !windows.is_empty() && windows.iter().all(is_set)
    })
}

/// Returns whether the table has the Collector's marks: arrays of attribute names alongside JSON
/// columns, event names in Map logs, or in newer tables logs sorted by five minutes.
fn has_collector_marks(table: &ObservedTable) -> bool {
    let has = |name: &str| table.columns.iter().any(|column| column.name == name);
    let has_maps = table.columns.iter().any(|column| column.ty.starts_with("Map("));
    let is_map_log = has("LogAttributes") && has_maps;
    has("ResourceAttributesKeys")
        || (is_map_log && has("EventName"))
        || table.sorting_key.contains("toStartOfFiveMinutes")
}
