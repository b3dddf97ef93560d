//! Rows of the five metrics tables.

use millrace_schema::TableKind;

use super::super::cell::Cell;
use super::super::compare::{Comparison, span_text, trace_text};
use super::Times;
use crate::content::{
    Data, Exemplar, ExponentialData, HistogramData, Kind, Metric, Point, Points, SummaryData,
    Totals,
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

    fn index_of(&self, row: &[Cell<'_>]) -> Option<u64> {
        self.times.index_of(row.get(TIME))
    }

    fn wanted_id(&self, index: u64) -> String {
        self.times.wanted_id(index)
    }

    fn table_of(&self, index: u64) -> TableKind {
        match self.points.metric(index).kind {
            Kind::Gauge => TableKind::MetricsGauge,
            Kind::Sum { .. } => TableKind::MetricsSum,
            Kind::Histogram { .. } => TableKind::MetricsHistogram,
            Kind::ExponentialHistogram { .. } => TableKind::MetricsExponentialHistogram,
            Kind::Summary => TableKind::MetricsSummary,
        }
    }

    fn describe(&self, index: u64, row: &mut Comparison<'_>) {
        let Metric { name, description, unit, kind } = *self.points.metric(index);
        let point = self.points.at(index);
        row.resource_attributes();
        row.resource_schema_url();
        row.scope_name();
        row.scope_version();
        row.scope_attributes();
        row.scope_dropped();
        row.scope_schema_url();
        row.service_name();
        row.text(name);
        row.text(description);
        row.text(unit);
        row.set(&point.attributes);
        row.number(point.start_nanos);
        row.number(point.time_nanos);
        match &point.data {
            Data::Number(number) => {
                row.double(number.as_double());
                row.number(point.flags.into());
                describe_exemplars(&point, row);
            }
            Data::Histogram(data) => describe_histogram(&point, data, row),
            Data::Exponential(data) => describe_exponential(&point, data, row),
            Data::Summary(data) => describe_summary(&point, data, row),
        }
        match kind {
            Kind::Gauge | Kind::Summary => {}
            Kind::Histogram { temporality } | Kind::ExponentialHistogram { temporality } => {
                row.number(temporality.into());
            }
            Kind::Sum { temporality, is_monotonic } => {
                row.number(temporality.into());
                row.number(is_monotonic.into());
            }
        }
    }
}

fn describe_histogram(point: &Point, data: &HistogramData, row: &mut Comparison<'_>) {
    describe_totals(&data.totals, row);
    row.numbers(data.buckets().iter().copied());
    row.doubles(data.bounds());
    describe_exemplars(point, row);
    row.number(point.flags.into());
    describe_extremes(&data.totals, row);
}

fn describe_exponential(point: &Point, data: &ExponentialData, row: &mut Comparison<'_>) {
    describe_totals(&data.totals, row);
    row.signed(data.scale);
    row.number(data.zero_count);
    row.signed(data.positive_offset);
    row.numbers(data.positive().iter().copied());
    row.signed(data.negative_offset);
    row.numbers(data.negative().iter().copied());
    describe_exemplars(point, row);
    row.number(point.flags.into());
    describe_extremes(&data.totals, row);
}

fn describe_summary(point: &Point, data: &SummaryData, row: &mut Comparison<'_>) {
    row.number(data.count);
    row.double(data.sum);
    row.doubles(data.quantiles());
    row.doubles(data.values());
    row.number(point.flags.into());
}

/// What is absent is stored as 0: the tables have no NULL.
fn describe_totals(totals: &Totals, row: &mut Comparison<'_>) {
    row.number(totals.count);
    row.double(totals.sum.unwrap_or(0.0));
}

fn describe_extremes(totals: &Totals, row: &mut Comparison<'_>) {
    row.double(totals.min.unwrap_or(0.0));
    row.double(totals.max.unwrap_or(0.0));
}

fn describe_exemplars(point: &Point, row: &mut Comparison<'_>) {
    let exemplars: Vec<Exemplar> = point.exemplars().copied().collect();
    row.sets(&exemplars.iter().map(|exemplar| exemplar.attributes).collect::<Vec<_>>());
    row.numbers(exemplars.iter().map(|exemplar| exemplar.time_nanos));
    row.numbers(exemplars.iter().map(|exemplar| exemplar.value.as_double().to_bits()));
    row.texts(exemplars.iter().map(|exemplar| span_text(exemplar.span_id)));
    row.texts(exemplars.iter().map(|exemplar| trace_text(exemplar.trace_id)));
}
