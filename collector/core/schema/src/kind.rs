//! The tables of the set, by name.

use std::fmt;
use std::str::FromStr;

/// Every table of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// Spans with their events and links.
    Traces,
    /// First and last time of each trace id; a view fills it, and no writer inserts into it.
    TraceIdTs,
    /// Log records.
    Logs,
    /// Gauge points.
    MetricsGauge,
    /// Sum points.
    MetricsSum,
    /// Histogram points.
    MetricsHistogram,
    /// Exponential histogram points.
    MetricsExponentialHistogram,
    /// Summary points.
    MetricsSummary,
}

impl TableKind {
    /// All tables, in creation order.
    pub const ALL: [Self; 8] = [
        Self::Traces,
        Self::TraceIdTs,
        Self::Logs,
        Self::MetricsGauge,
        Self::MetricsSum,
        Self::MetricsHistogram,
        Self::MetricsExponentialHistogram,
        Self::MetricsSummary,
    ];

    /// Returns the suffix of the table's name after `<prefix>_`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::TraceIdTs => "traces_trace_id_ts",
            Self::Logs => "logs",
            Self::MetricsGauge => "metrics_gauge",
            Self::MetricsSum => "metrics_sum",
            Self::MetricsHistogram => "metrics_histogram",
            Self::MetricsExponentialHistogram => "metrics_exponential_histogram",
            Self::MetricsSummary => "metrics_summary",
        }
    }

    /// Returns whether its rows are points of metrics.
    #[must_use]
    pub const fn has_points(self) -> bool {
        match self {
            Self::Traces | Self::TraceIdTs | Self::Logs => false,
            Self::MetricsGauge
            | Self::MetricsSum
            | Self::MetricsHistogram
            | Self::MetricsExponentialHistogram
            | Self::MetricsSummary => true,
        }
    }

    /// Returns the columns without which a row is not worth storing: its time, its owner, its
    /// measurement. A writer may omit other columns that a live table lacks, never these.
    #[must_use]
    pub const fn essential_columns(self) -> &'static [&'static str] {
        match self {
            Self::Traces => &["Timestamp", "TraceId", "SpanId"],
            Self::TraceIdTs => &["TraceId", "Start", "End"],
            Self::Logs => &["Timestamp", "Body"],
            Self::MetricsGauge | Self::MetricsSum => &["TimeUnix", "MetricName", "Value"],
            Self::MetricsHistogram | Self::MetricsExponentialHistogram | Self::MetricsSummary => {
                &["TimeUnix", "MetricName", "Count", "Sum"]
            }
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.suffix())
    }
}

impl FromStr for TableKind {
    type Err = String;

    fn from_str(suffix: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.suffix() == suffix)
            .ok_or_else(|| format!("no table has the suffix {suffix:?}"))
    }
}
