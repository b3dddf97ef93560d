//! The tables' definitions.
//!
//! Choices where writers differ, and why:
//! - the exponential table is `metrics_exponential_histogram` (Rotel, ClickStack; the Collector's
//!   exporter has `exp_histogram`);
//! - `MetricName` is `LowCardinality(String)` (newer Collector tables; older ones have `String`,
//!   and inserts convert in both directions); so are the other texts of points that repeat with
//!   each point, which all others have as `String`;
//! - `EventName` is in both log variants, so that no variant loses data.

mod logs;
mod metrics;
pub(crate) mod parts;
mod traces;

use crate::kind::TableKind;
use crate::table::{Table, View};
use crate::types::AttributeStorage;

/// Returns all tables in one attribute variant, in creation order.
#[must_use]
pub fn all_tables(attributes: AttributeStorage) -> Vec<Table> {
    TableKind::ALL.into_iter().map(|kind| build_table(kind, attributes)).collect()
}

/// Returns one table in one attribute variant. `TraceIdTs` has no attributes, so both variants are
/// the same.
#[must_use]
pub fn build_table(kind: TableKind, attributes: AttributeStorage) -> Table {
    match kind {
        TableKind::Traces => traces::traces_table(attributes),
        TableKind::TraceIdTs => traces::trace_id_ts(attributes),
        TableKind::Logs => logs::logs_table(attributes),
        TableKind::MetricsGauge
        | TableKind::MetricsSum
        | TableKind::MetricsHistogram
        | TableKind::MetricsExponentialHistogram
        | TableKind::MetricsSummary => metrics::metrics_table(kind, attributes),
    }
}

/// Returns the view that fills [`TableKind::TraceIdTs`].
#[must_use]
pub const fn trace_id_view() -> View {
    View {
        suffix: "traces_trace_id_ts_mv",
        source: TableKind::Traces,
        target: TableKind::TraceIdTs,
        group_by: "TraceId",
        time: "Timestamp",
        minimum: "Start",
        maximum: "End",
    }
}

#[cfg(test)]
mod tests;
