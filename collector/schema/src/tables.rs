//! The tables themselves.
//!
//! Choices where writers differ, and why:
//! - the exponential table is `metrics_exponential_histogram` (Rotel, ClickStack; the Collector's
//!   exporter says `exp_histogram`);
//! - `MetricName` is `LowCardinality(String)` (newer Collector tables; older ones say `String`, and
//!   inserts convert either way);
//! - `EventName` is in both log variants, so that no variant loses data.

mod logs;
mod metrics;
pub(crate) mod parts;
mod traces;

use crate::kind::TableKind;
use crate::table::{Table, View};
use crate::types::Attributes;

/// All tables in one attribute variant, in the order they are made.
#[must_use]
pub fn tables(attributes: Attributes) -> Vec<Table> {
    TableKind::ALL.into_iter().map(|kind| table(kind, attributes)).collect()
}

/// One table in one attribute variant. `TraceIdTs` has no attributes: both variants are the same.
#[must_use]
pub fn table(kind: TableKind, attributes: Attributes) -> Table {
    match kind {
        TableKind::Traces => traces::traces(attributes),
        TableKind::TraceIdTs => traces::trace_id_ts(attributes),
        TableKind::Logs => logs::logs(attributes),
        TableKind::MetricsGauge
        | TableKind::MetricsSum
        | TableKind::MetricsHistogram
        | TableKind::MetricsExponentialHistogram
        | TableKind::MetricsSummary => metrics::metrics(kind, attributes),
    }
}

/// The view that fills [`TableKind::TraceIdTs`].
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
#[path = "../tests/unit/tables.rs"]
mod tests;
