//! Writes metrics and their points as protobuf.

use std::ops::Range;

use super::Records;
use super::write::{
    put_attributes, put_bytes, put_double, put_fixed64, put_message, put_packed, put_packed64,
    put_signed, put_span_id, put_text, put_trace_id, put_varint,
};
use crate::content::{
    Data, ExemplarContent, ExponentialData, HistogramData, HistogramTotals, Measurement,
    MetricContent, MetricKind, PointContent, Points, SummaryData,
};

impl Records for Points {
    fn put_records(&mut self, records: Range<u64>, scope: &mut Vec<u8>) {
        let mut first = records.start;
        while first < records.end {
            let end = self.metric_end(first).min(records.end);
            let MetricContent { name, description, unit, kind } = *self.metric_at(first);
            put_message(scope, 2, |out| {
                put_bytes(out, 1, name.as_bytes());
                put_text(out, 2, description);
                put_text(out, 3, unit);
                put_message(out, field_of(kind), |out| {
                    for index in first..end {
                        let point = self.point_at(index);
                        put_message(out, 1, |out| put_point(out, &point));
                    }
                    put_kind(out, kind);
                });
            });
            first = end;
        }
    }
}

/// Returns the field of `Metric` that holds a kind's points.
const fn field_of(kind: MetricKind) -> u8 {
    match kind {
        MetricKind::Gauge => 5,
        MetricKind::Sum { .. } => 7,
        MetricKind::Histogram { .. } => 9,
        MetricKind::ExponentialHistogram { .. } => 10,
        MetricKind::Summary => 11,
    }
}

/// Appends the fields next to the points.
fn put_kind(out: &mut Vec<u8>, kind: MetricKind) {
    match kind {
        MetricKind::Gauge | MetricKind::Summary => {}
        MetricKind::Histogram { temporality }
        | MetricKind::ExponentialHistogram { temporality } => {
            put_varint(out, 2, temporality.into());
        }
        MetricKind::Sum { temporality, is_monotonic } => {
            put_varint(out, 2, temporality.into());
            if is_monotonic {
                put_varint(out, 3, 1);
            }
        }
    }
}

/// Fields 2 and 3 are the same in all kinds of points.
fn put_point(out: &mut Vec<u8>, point: &PointContent) {
    if point.start_nanos != 0 {
        put_fixed64(out, 2, point.start_nanos);
    }
    put_fixed64(out, 3, point.time_nanos);
    match &point.data {
        Data::Number(number) => put_number(out, point, *number),
        Data::Histogram(data) => put_histogram(out, point, data),
        Data::Exponential(data) => put_exponential(out, point, data),
        Data::Summary(data) => put_summary(out, point, data),
    }
}

fn put_number(out: &mut Vec<u8>, point: &PointContent, number: Measurement) {
    if let Measurement::Double(value) = number {
        put_double(out, 4, value);
    }
    put_exemplars(out, 5, point);
    if let Measurement::Int(value) = number {
        put_fixed64(out, 6, value as u64);
    }
    put_attributes(out, 7, &point.attributes);
    put_flags(out, 8, point);
}

fn put_histogram(out: &mut Vec<u8>, point: &PointContent, data: &HistogramData) {
    put_totals(out, &data.totals);
    if !data.buckets().is_empty() {
        put_packed64(out, 6, data.buckets().iter().copied());
        put_packed64(out, 7, data.bounds().iter().map(|bound| bound.to_bits()));
    }
    put_exemplars(out, 8, point);
    put_attributes(out, 9, &point.attributes);
    put_flags(out, 10, point);
    put_extremes(out, 11, &data.totals);
}

fn put_exponential(out: &mut Vec<u8>, point: &PointContent, data: &ExponentialData) {
    put_attributes(out, 1, &point.attributes);
    put_totals(out, &data.totals);
    put_signed(out, 6, data.scale);
    put_fixed64(out, 7, data.zero_count);
    for (field, offset, counts) in
        [(8, data.positive_offset, data.positive()), (9, data.negative_offset, data.negative())]
    {
        put_message(out, field, |out| {
            put_signed(out, 1, offset);
            if !counts.is_empty() {
                put_packed(out, 2, counts);
            }
        });
    }
    put_flags(out, 10, point);
    put_exemplars(out, 11, point);
    put_extremes(out, 12, &data.totals);
    if data.zero_threshold != 0.0 {
        put_double(out, 14, data.zero_threshold);
    }
}

fn put_summary(out: &mut Vec<u8>, point: &PointContent, data: &SummaryData) {
    put_fixed64(out, 4, data.count);
    put_double(out, 5, data.sum);
    for (quantile, value) in data.quantiles().iter().zip(data.values()) {
        put_message(out, 6, |out| {
            put_double(out, 1, *quantile);
            put_double(out, 2, *value);
        });
    }
    put_attributes(out, 7, &point.attributes);
    put_flags(out, 8, point);
}

/// Fields 4 and 5 are the same in both kinds of histograms.
fn put_totals(out: &mut Vec<u8>, totals: &HistogramTotals) {
    put_fixed64(out, 4, totals.count);
    if let Some(sum) = totals.sum {
        put_double(out, 5, sum);
    }
}

/// Minimum and maximum; their fields are neighbours.
fn put_extremes(out: &mut Vec<u8>, first: u8, totals: &HistogramTotals) {
    if let Some(min) = totals.min {
        put_double(out, first, min);
    }
    if let Some(max) = totals.max {
        put_double(out, first + 1, max);
    }
}

fn put_flags(out: &mut Vec<u8>, field: u8, point: &PointContent) {
    if point.flags != 0 {
        put_varint(out, field, point.flags.into());
    }
}

fn put_exemplars(out: &mut Vec<u8>, field: u8, point: &PointContent) {
    for ExemplarContent { time_nanos, value, trace_id, span_id, attributes } in point.exemplars() {
        put_message(out, field, |out| {
            put_fixed64(out, 2, *time_nanos);
            match value {
                Measurement::Double(value) => put_double(out, 3, *value),
                Measurement::Int(value) => put_fixed64(out, 6, *value as u64),
            }
            put_span_id(out, 4, *span_id);
            put_trace_id(out, 5, *trace_id);
            put_attributes(out, 7, attributes);
        });
    }
}
