//! Rows of the five metrics tables.

use millrace_schema::TableKind;

use super::super::cell::StoredCell;
use super::super::compare::{Comparison, span_text, trace_text};
use super::Times;
use crate::content::{
    Data, ExemplarContent, ExponentialData, HistogramData, HistogramTotals, MetricContent,
    MetricKind, PointContent, Points, SummaryData,
};

/// Position of `TimeUnix`.
const TIME: usize = 13;

pub(super) struct Rows {
    points: Points,
    times: Times,
}

impl Rows {
    pub(super) const fn new(points: Points, times: Times) -> Self {
        Self { points, times }
    }
}

impl super::Rows for Rows {
    fn tables(&self) -> &'static [TableKind] {
        &[
            TableKind::MetricsGauge,
            TableKind::MetricsSum,
            TableKind::MetricsHistogram,
            TableKind::MetricsExponentialHistogram,
            TableKind::MetricsSummary,
        ]
    }

    fn id_column(&self) -> usize {
        TIME
    }

    fn index_of(&self, row: &[StoredCell<'_>]) -> Option<u64> {
        self.times.index_of(row.get(TIME))
    }

    fn describe_id(&self, index: u64) -> String {
        self.times.describe_id(index)
    }

    fn table_of(&self, index: u64) -> TableKind {
        match self.points.metric_at(index).kind {
            MetricKind::Gauge => TableKind::MetricsGauge,
            MetricKind::Sum { .. } => TableKind::MetricsSum,
            MetricKind::Histogram { .. } => TableKind::MetricsHistogram,
            MetricKind::ExponentialHistogram { .. } => TableKind::MetricsExponentialHistogram,
            MetricKind::Summary => TableKind::MetricsSummary,
        }
    }

    fn describe_row(&self, index: u64, row: &mut Comparison<'_>) {
        let MetricContent { name, description, unit, kind } = *self.points.metric_at(index);
        let point = self.points.point_at(index);
        row.expect_resource_attributes();
        row.expect_resource_schema_url();
        row.expect_scope_name();
        row.expect_scope_version();
        row.expect_scope_attributes();
        row.expect_scope_dropped();
        row.expect_scope_schema_url();
        row.expect_service_name();
        row.expect_text(name);
        row.expect_text(description);
        row.expect_text(unit);
        row.expect_set(&point.attributes);
        row.expect_number(point.start_nanos);
        row.expect_number(point.time_nanos);
        match &point.data {
            Data::Number(number) => {
                row.expect_double(number.as_double());
                row.expect_number(point.flags.into());
                describe_exemplars(&point, row);
            }
            Data::Histogram(data) => describe_histogram(&point, data, row),
            Data::Exponential(data) => describe_exponential(&point, data, row),
            Data::Summary(data) => describe_summary(&point, data, row),
        }
        match kind {
            MetricKind::Gauge | MetricKind::Summary => {}
            MetricKind::Histogram { temporality }
            | MetricKind::ExponentialHistogram { temporality } => {
                row.expect_number(temporality.into());
            }
            MetricKind::Sum { temporality, is_monotonic } => {
                row.expect_number(temporality.into());
                row.expect_number(is_monotonic.into());
            }
        }
    }
}

fn describe_histogram(point: &PointContent, data: &HistogramData, row: &mut Comparison<'_>) {
    describe_totals(&data.totals, row);
    row.expect_numbers(data.buckets().iter().copied());
    row.expect_doubles(data.bounds());
    describe_exemplars(point, row);
    row.expect_number(point.flags.into());
    describe_extremes(&data.totals, row);
}

fn describe_exponential(point: &PointContent, data: &ExponentialData, row: &mut Comparison<'_>) {
    describe_totals(&data.totals, row);
    row.expect_signed(data.scale);
    row.expect_number(data.zero_count);
    row.expect_signed(data.positive_offset);
    row.expect_numbers(data.positive().iter().copied());
    row.expect_signed(data.negative_offset);
    row.expect_numbers(data.negative().iter().copied());
    describe_exemplars(point, row);
    row.expect_number(point.flags.into());
    describe_extremes(&data.totals, row);
}

fn describe_summary(point: &PointContent, data: &SummaryData, row: &mut Comparison<'_>) {
    row.expect_number(data.count);
    row.expect_double(data.sum);
    row.expect_doubles(data.quantiles());
    row.expect_doubles(data.values());
    row.expect_number(point.flags.into());
}

/// Absent values are stored as 0: the tables have no NULL.
fn describe_totals(totals: &HistogramTotals, row: &mut Comparison<'_>) {
    row.expect_number(totals.count);
    row.expect_double(totals.sum.unwrap_or(0.0));
}

fn describe_extremes(totals: &HistogramTotals, row: &mut Comparison<'_>) {
    row.expect_double(totals.min.unwrap_or(0.0));
    row.expect_double(totals.max.unwrap_or(0.0));
}

fn describe_exemplars(point: &PointContent, row: &mut Comparison<'_>) {
    let exemplars: Vec<ExemplarContent> = point.exemplars().copied().collect();
    row.expect_sets(&exemplars.iter().map(|exemplar| exemplar.attributes).collect::<Vec<_>>());
    row.expect_numbers(exemplars.iter().map(|exemplar| exemplar.time_nanos));
    row.expect_numbers(exemplars.iter().map(|exemplar| exemplar.value.as_double().to_bits()));
    row.expect_texts(exemplars.iter().map(|exemplar| span_text(exemplar.span_id)));
    row.expect_texts(exemplars.iter().map(|exemplar| trace_text(exemplar.trace_id)));
}
