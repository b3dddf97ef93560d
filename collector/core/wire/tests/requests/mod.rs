//! Random OTLP requests, built from the reference library's messages. Tests of several crates share
//! them by path.
#![allow(dead_code, missing_docs, unreachable_pub)]

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary,
    SummaryDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;

/// Keys that are often equal, nest into each other, or are odd.
pub fn key() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[abc]",
        2 => "[ab]\\.[abc]",
        1 => Just(String::new()),
        1 => Just("service.name".to_owned()),
        1 => ".{0,12}",
    ]
    .boxed()
}

pub fn text() -> BoxedStrategy<String> {
    prop_oneof![3 => "[a-z]{0,8}", 1 => ".{0,20}", 1 => "x{120,140}"].boxed()
}

pub fn double() -> BoxedStrategy<f64> {
    prop_oneof![
        3 => any::<f64>(),
        2 => (-1000_i32..1000).prop_map(f64::from),
        1 => prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
    ]
    .boxed()
}

pub fn any_value() -> BoxedStrategy<AnyValue> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::StringValue).prop_map(Some),
        2 => any::<i64>().prop_map(Value::IntValue).prop_map(Some),
        2 => double().prop_map(Value::DoubleValue).prop_map(Some),
        2 => any::<bool>().prop_map(Value::BoolValue).prop_map(Some),
        1 => vec(any::<u8>(), 0..8).prop_map(Value::BytesValue).prop_map(Some),
        1 => Just(None),
    ]
    .prop_map(|value| AnyValue { value });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = vec((key(), option::of(inner.clone())), 0..4);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|values| Value::ArrayValue(ArrayValue { values })),
            uniform_array().prop_map(|values| Value::ArrayValue(ArrayValue { values })),
            list.prop_map(|members| Value::KvlistValue(KeyValueList {
                values: members.into_iter().map(key_value).collect(),
            })),
        ]
        .prop_map(|value| AnyValue { value: Some(value) })
    })
    .boxed()
}

/// Elements of one scalar type, with gaps.
fn uniform_array() -> BoxedStrategy<Vec<AnyValue>> {
    let of = |values: BoxedStrategy<Value>| {
        vec(option::weighted(0.8, values), 0..5)
            .prop_map(|values| values.into_iter().map(|value| AnyValue { value }).collect())
    };
    prop_oneof![
        of(text().prop_map(Value::StringValue).boxed()),
        of(any::<i64>().prop_map(Value::IntValue).boxed()),
        of(double().prop_map(Value::DoubleValue).boxed()),
        of(any::<bool>().prop_map(Value::BoolValue).boxed()),
    ]
    .boxed()
}

fn key_value((key, value): (String, Option<AnyValue>)) -> KeyValue {
    KeyValue { key, value, ..KeyValue::default() }
}

pub fn attributes() -> BoxedStrategy<Vec<KeyValue>> {
    vec((key(), option::weighted(0.9, any_value())).prop_map(key_value), 0..5).boxed()
}

fn trace_id() -> BoxedStrategy<Vec<u8>> {
    id(16)
}

fn span_id() -> BoxedStrategy<Vec<u8>> {
    id(8)
}

fn id(length: usize) -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), length..=length),
        1 => Just(Vec::new()),
        1 => Just(vec![0; length]),
    ]
    .boxed()
}

/// Times on two days around midnight, and odd ones.
pub fn time() -> BoxedStrategy<u64> {
    const MIDNIGHT: u64 = 1_790_035_200_000_000_000;
    prop_oneof![
        8 => (MIDNIGHT - 5_000_000_000)..(MIDNIGHT + 5_000_000_000),
        1 => Just(0),
        1 => any::<u64>(),
    ]
    .boxed()
}

fn resource() -> BoxedStrategy<Option<Resource>> {
    option::weighted(
        0.9,
        attributes().prop_map(|attributes| Resource { attributes, ..Resource::default() }),
    )
    .boxed()
}

fn scope() -> BoxedStrategy<Option<InstrumentationScope>> {
    let scope = (text(), text(), attributes(), any::<u32>());
    option::weighted(
        0.8,
        scope.prop_map(|(name, version, attributes, dropped_attributes_count)| {
            InstrumentationScope { name, version, attributes, dropped_attributes_count }
        }),
    )
    .boxed()
}

fn event() -> BoxedStrategy<Event> {
    (time(), text(), attributes(), any::<u32>())
        .prop_map(|(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        })
        .boxed()
}

fn link() -> BoxedStrategy<Link> {
    (trace_id(), span_id(), text(), attributes(), any::<u32>())
        .prop_map(|(trace_id, span_id, trace_state, attributes, flags)| Link {
            trace_id,
            span_id,
            trace_state,
            attributes,
            dropped_attributes_count: 3,
            flags,
        })
        .boxed()
}

fn span() -> BoxedStrategy<Span> {
    let ids = (trace_id(), span_id(), text(), span_id(), text());
    let times = (-1_i32..8, time(), time(), any::<u32>());
    let status = option::of((text(), -1_i32..5));
    let lists = (attributes(), vec(event(), 0..3), vec(link(), 0..3));
    (ids, times, status, lists)
        .prop_map(|(ids, times, status, lists)| {
            let (trace_id, span_id, trace_state, parent_span_id, name) = ids;
            let (kind, start_time_unix_nano, end_time_unix_nano, flags) = times;
            let (attributes, events, links) = lists;
            Span {
                trace_id,
                span_id,
                trace_state,
                parent_span_id,
                flags,
                name,
                kind,
                start_time_unix_nano,
                end_time_unix_nano,
                attributes,
                dropped_attributes_count: 1,
                events,
                dropped_events_count: 2,
                links,
                dropped_links_count: 3,
                status: status.map(|(message, code)| Status { message, code }),
            }
        })
        .boxed()
}

pub fn traces() -> BoxedStrategy<ExportTraceServiceRequest> {
    let scope_spans = (scope(), vec(span(), 0..5), text())
        .prop_map(|(scope, spans, schema_url)| ScopeSpans { scope, spans, schema_url });
    vec((resource(), vec(scope_spans, 0..3), text()), 0..4)
        .prop_map(|groups| ExportTraceServiceRequest {
            resource_spans: groups
                .into_iter()
                .map(|(resource, scope_spans, schema_url)| ResourceSpans {
                    resource,
                    scope_spans,
                    schema_url,
                })
                .collect(),
        })
        .boxed()
}

fn log_record() -> BoxedStrategy<LogRecord> {
    let times = (time(), time(), -1_i32..26, text());
    let rest = (option::of(any_value()), attributes(), any::<u32>());
    (times, rest, trace_id(), span_id(), text())
        .prop_map(|(times, rest, trace_id, span_id, event_name)| {
            let (time_unix_nano, observed_time_unix_nano, severity_number, severity_text) = times;
            let (body, attributes, flags) = rest;
            LogRecord {
                time_unix_nano,
                observed_time_unix_nano,
                severity_number,
                severity_text,
                body,
                attributes,
                dropped_attributes_count: 1,
                flags,
                trace_id,
                span_id,
                event_name,
            }
        })
        .boxed()
}

pub fn logs() -> BoxedStrategy<ExportLogsServiceRequest> {
    let scope_logs = (scope(), vec(log_record(), 0..5), text())
        .prop_map(|(scope, log_records, schema_url)| ScopeLogs { scope, log_records, schema_url });
    vec((resource(), vec(scope_logs, 0..3), text()), 0..4)
        .prop_map(|groups| ExportLogsServiceRequest {
            resource_logs: groups
                .into_iter()
                .map(|(resource, scope_logs, schema_url)| ResourceLogs {
                    resource,
                    scope_logs,
                    schema_url,
                })
                .collect(),
        })
        .boxed()
}

fn exemplar() -> BoxedStrategy<Exemplar> {
    let value = option::of(prop_oneof![
        double().prop_map(exemplar::Value::AsDouble),
        any::<i64>().prop_map(exemplar::Value::AsInt),
    ]);
    (attributes(), time(), value, span_id(), trace_id())
        .prop_map(|(filtered_attributes, time_unix_nano, value, span_id, trace_id)| Exemplar {
            filtered_attributes,
            time_unix_nano,
            value,
            span_id,
            trace_id,
        })
        .boxed()
}

fn number_point() -> BoxedStrategy<NumberDataPoint> {
    let value = option::of(prop_oneof![
        double().prop_map(number_data_point::Value::AsDouble),
        any::<i64>().prop_map(number_data_point::Value::AsInt),
    ]);
    (attributes(), time(), time(), vec(exemplar(), 0..2), any::<u32>(), value)
        .prop_map(|(attributes, start, time, exemplars, flags, value)| NumberDataPoint {
            attributes,
            start_time_unix_nano: start,
            time_unix_nano: time,
            exemplars,
            flags,
            value,
        })
        .boxed()
}

fn histogram_point() -> BoxedStrategy<HistogramDataPoint> {
    let times = (attributes(), time(), time(), any::<u64>(), any::<u32>());
    let buckets = (vec(any::<u64>(), 0..5), vec(double(), 0..5), vec(exemplar(), 0..2));
    let range = (option::of(double()), option::of(double()), option::of(double()));
    (times, buckets, range)
        .prop_map(|(times, buckets, (sum, min, max))| {
            let (attributes, start_time_unix_nano, time_unix_nano, count, flags) = times;
            let (bucket_counts, explicit_bounds, exemplars) = buckets;
            HistogramDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                bucket_counts,
                explicit_bounds,
                exemplars,
                flags,
                min,
                max,
            }
        })
        .boxed()
}

fn buckets() -> BoxedStrategy<Option<Buckets>> {
    option::of(
        (any::<i32>(), vec(any::<u64>(), 0..5))
            .prop_map(|(offset, bucket_counts)| Buckets { offset, bucket_counts }),
    )
    .boxed()
}

fn exponential_point() -> BoxedStrategy<ExponentialHistogramDataPoint> {
    let times = (attributes(), time(), time(), any::<u64>(), any::<u32>());
    let range = (option::of(double()), option::of(double()), option::of(double()));
    let shape = (any::<i32>(), any::<u64>(), buckets(), buckets(), vec(exemplar(), 0..2));
    (times, range, shape)
        .prop_map(|(times, (sum, min, max), shape)| {
            let (attributes, start_time_unix_nano, time_unix_nano, count, flags) = times;
            let (scale, zero_count, positive, negative, exemplars) = shape;
            ExponentialHistogramDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                scale,
                zero_count,
                positive,
                negative,
                flags,
                exemplars,
                min,
                max,
                zero_threshold: 0.5,
            }
        })
        .boxed()
}

fn summary_point() -> BoxedStrategy<SummaryDataPoint> {
    let times = (attributes(), time(), time(), any::<u64>(), any::<u32>(), double());
    let quantiles = vec((double(), double()), 0..4);
    (times, quantiles)
        .prop_map(|(times, quantiles)| {
            let (attributes, start_time_unix_nano, time_unix_nano, count, flags, sum) = times;
            SummaryDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                count,
                sum,
                quantile_values: quantiles
                    .into_iter()
                    .map(|(quantile, value)| ValueAtQuantile { quantile, value })
                    .collect(),
                flags,
            }
        })
        .boxed()
}

fn data() -> BoxedStrategy<Data> {
    let temporality = -1_i32..4;
    prop_oneof![
        vec(number_point(), 0..4).prop_map(|data_points| Data::Gauge(Gauge { data_points })),
        (vec(number_point(), 0..4), temporality.clone(), any::<bool>()).prop_map(
            |(data_points, aggregation_temporality, is_monotonic)| Data::Sum(Sum {
                data_points,
                aggregation_temporality,
                is_monotonic,
            })
        ),
        (vec(histogram_point(), 0..4), temporality.clone()).prop_map(
            |(data_points, aggregation_temporality)| Data::Histogram(Histogram {
                data_points,
                aggregation_temporality,
            })
        ),
        (vec(exponential_point(), 0..4), temporality).prop_map(
            |(data_points, aggregation_temporality)| {
                Data::ExponentialHistogram(ExponentialHistogram {
                    data_points,
                    aggregation_temporality,
                })
            }
        ),
        vec(summary_point(), 0..4).prop_map(|data_points| Data::Summary(Summary { data_points })),
    ]
    .boxed()
}

fn metric() -> BoxedStrategy<Metric> {
    (text(), text(), text(), attributes(), option::weighted(0.95, data()))
        .prop_map(|(name, description, unit, metadata, data)| Metric {
            name,
            description,
            unit,
            metadata,
            data,
        })
        .boxed()
}

pub fn metrics() -> BoxedStrategy<ExportMetricsServiceRequest> {
    let scope_metrics = (scope(), vec(metric(), 0..4), text())
        .prop_map(|(scope, metrics, schema_url)| ScopeMetrics { scope, metrics, schema_url });
    vec((resource(), vec(scope_metrics, 0..3), text()), 0..3)
        .prop_map(|groups| ExportMetricsServiceRequest {
            resource_metrics: groups
                .into_iter()
                .map(|(resource, scope_metrics, schema_url)| ResourceMetrics {
                    resource,
                    scope_metrics,
                    schema_url,
                })
                .collect(),
        })
        .boxed()
}
