//! Writes OTLP requests as JSON by the protocol's rules, without the code under test.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, SummaryDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::{Map, Value, json};

pub fn traces(request: &ExportTraceServiceRequest) -> Value {
    json!({ "resourceSpans": list(&request.resource_spans, |group: &ResourceSpans| json!({
        "resource": maybe(group.resource.as_ref(), resource),
        "scopeSpans": list(&group.scope_spans, |scope: &ScopeSpans| json!({
            "scope": maybe(scope.scope.as_ref(), instrumentation_scope),
            "spans": list(&scope.spans, span),
            "schemaUrl": scope.schema_url,
        })),
        "schemaUrl": group.schema_url,
    })) })
}

pub fn logs(request: &ExportLogsServiceRequest) -> Value {
    json!({ "resourceLogs": list(&request.resource_logs, |group: &ResourceLogs| json!({
        "resource": maybe(group.resource.as_ref(), resource),
        "scopeLogs": list(&group.scope_logs, |scope: &ScopeLogs| json!({
            "scope": maybe(scope.scope.as_ref(), instrumentation_scope),
            "logRecords": list(&scope.log_records, log_record),
            "schemaUrl": scope.schema_url,
        })),
        "schemaUrl": group.schema_url,
    })) })
}

pub fn metrics(request: &ExportMetricsServiceRequest) -> Value {
    json!({ "resourceMetrics": list(&request.resource_metrics, |group: &ResourceMetrics| json!({
        "resource": maybe(group.resource.as_ref(), resource),
        "scopeMetrics": list(&group.scope_metrics, |scope: &ScopeMetrics| json!({
            "scope": maybe(scope.scope.as_ref(), instrumentation_scope),
            "metrics": list(&scope.metrics, metric),
            "schemaUrl": scope.schema_url,
        })),
        "schemaUrl": group.schema_url,
    })) })
}

fn list<T>(items: &[T], each: impl Fn(&T) -> Value) -> Value {
    items.iter().map(each).collect()
}

/// `null` means an absent field.
fn maybe<T>(value: Option<T>, each: impl Fn(T) -> Value) -> Value {
    value.map_or(Value::Null, each)
}

fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Writes odd numbers as text, even ones as numbers: both forms are allowed.
fn whole(value: impl Into<i128>) -> Value {
    let value = value.into();
    match u64::try_from(value) {
        Ok(even) if even % 2 == 0 => json!(even),
        _ => json!(value.to_string()),
    }
}

fn double(value: f64) -> Value {
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(value)
    }
}

fn resource(resource: &Resource) -> Value {
    json!({
        "attributes": list(&resource.attributes, key_value),
        "droppedAttributesCount": resource.dropped_attributes_count,
    })
}

fn instrumentation_scope(scope: &InstrumentationScope) -> Value {
    json!({
        "name": scope.name,
        "version": scope.version,
        "attributes": list(&scope.attributes, key_value),
        "droppedAttributesCount": scope.dropped_attributes_count,
    })
}

fn key_value(attribute: &KeyValue) -> Value {
    json!({ "key": attribute.key, "value": maybe(attribute.value.as_ref(), any_value) })
}

fn any_value(value: &AnyValue) -> Value {
    match &value.value {
        None => json!({}),
        Some(Any::StringValue(value)) => json!({ "stringValue": value }),
        Some(Any::BoolValue(value)) => json!({ "boolValue": value }),
        Some(Any::IntValue(value)) => json!({ "intValue": whole(*value) }),
        Some(Any::DoubleValue(value)) => json!({ "doubleValue": double(*value) }),
        Some(Any::BytesValue(value)) => json!({ "bytesValue": STANDARD.encode(value) }),
        Some(Any::ArrayValue(array)) => {
            json!({ "arrayValue": { "values": list(&array.values, any_value) } })
        }
        Some(Any::KvlistValue(members)) => {
            json!({ "kvlistValue": { "values": list(&members.values, key_value) } })
        }
        Some(other) => panic!("a value that these tests don't make: {other:?}"),
    }
}

fn span(span: &Span) -> Value {
    json!({
        "traceId": hex(&span.trace_id),
        "spanId": hex(&span.span_id),
        "traceState": span.trace_state,
        "parentSpanId": hex(&span.parent_span_id),
        "flags": span.flags,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": whole(span.start_time_unix_nano),
        "endTimeUnixNano": whole(span.end_time_unix_nano),
        "attributes": list(&span.attributes, key_value),
        "droppedAttributesCount": span.dropped_attributes_count,
        "events": list(&span.events, |event| json!({
            "timeUnixNano": whole(event.time_unix_nano),
            "name": event.name,
            "attributes": list(&event.attributes, key_value),
            "droppedAttributesCount": event.dropped_attributes_count,
        })),
        "droppedEventsCount": span.dropped_events_count,
        "links": list(&span.links, |link| json!({
            "traceId": hex(&link.trace_id),
            "spanId": hex(&link.span_id),
            "traceState": link.trace_state,
            "attributes": list(&link.attributes, key_value),
            "droppedAttributesCount": link.dropped_attributes_count,
            "flags": link.flags,
        })),
        "droppedLinksCount": span.dropped_links_count,
        "status": maybe(span.status.as_ref(), |status| json!({
            "message": status.message,
            "code": status.code,
        })),
    })
}

fn log_record(record: &LogRecord) -> Value {
    json!({
        "timeUnixNano": whole(record.time_unix_nano),
        "observedTimeUnixNano": whole(record.observed_time_unix_nano),
        "severityNumber": record.severity_number,
        "severityText": record.severity_text,
        "body": maybe(record.body.as_ref(), any_value),
        "attributes": list(&record.attributes, key_value),
        "droppedAttributesCount": record.dropped_attributes_count,
        "flags": record.flags,
        "traceId": hex(&record.trace_id),
        "spanId": hex(&record.span_id),
        "eventName": record.event_name,
    })
}

fn metric(metric: &Metric) -> Value {
    let mut fields = json!({
        "name": metric.name,
        "description": metric.description,
        "unit": metric.unit,
        "metadata": list(&metric.metadata, key_value),
    });
    let (name, data) = match &metric.data {
        None => return fields,
        Some(Data::Gauge(data)) => {
            ("gauge", json!({ "dataPoints": list(&data.data_points, number_point) }))
        }
        Some(Data::Sum(data)) => (
            "sum",
            json!({
                "dataPoints": list(&data.data_points, number_point),
                "aggregationTemporality": data.aggregation_temporality,
                "isMonotonic": data.is_monotonic,
            }),
        ),
        Some(Data::Histogram(data)) => (
            "histogram",
            json!({
                "dataPoints": list(&data.data_points, histogram_point),
                "aggregationTemporality": data.aggregation_temporality,
            }),
        ),
        Some(Data::ExponentialHistogram(data)) => (
            "exponentialHistogram",
            json!({
                "dataPoints": list(&data.data_points, exponential_point),
                "aggregationTemporality": data.aggregation_temporality,
            }),
        ),
        Some(Data::Summary(data)) => {
            ("summary", json!({ "dataPoints": list(&data.data_points, summary_point) }))
        }
    };
    fields[name] = data;
    fields
}

fn exemplar(exemplar: &Exemplar) -> Value {
    let mut fields = json!({
        "filteredAttributes": list(&exemplar.filtered_attributes, key_value),
        "timeUnixNano": whole(exemplar.time_unix_nano),
        "spanId": hex(&exemplar.span_id),
        "traceId": hex(&exemplar.trace_id),
    });
    match exemplar.value {
        Some(exemplar::Value::AsDouble(value)) => fields["asDouble"] = double(value),
        Some(exemplar::Value::AsInt(value)) => fields["asInt"] = whole(value),
        None => {}
    }
    fields
}

fn number_point(point: &NumberDataPoint) -> Value {
    let mut fields = json!({
        "attributes": list(&point.attributes, key_value),
        "startTimeUnixNano": whole(point.start_time_unix_nano),
        "timeUnixNano": whole(point.time_unix_nano),
        "exemplars": list(&point.exemplars, exemplar),
        "flags": point.flags,
    });
    match point.value {
        Some(number_data_point::Value::AsDouble(value)) => fields["asDouble"] = double(value),
        Some(number_data_point::Value::AsInt(value)) => fields["asInt"] = whole(value),
        None => {}
    }
    fields
}

fn histogram_point(point: &HistogramDataPoint) -> Value {
    json!({
        "attributes": list(&point.attributes, key_value),
        "startTimeUnixNano": whole(point.start_time_unix_nano),
        "timeUnixNano": whole(point.time_unix_nano),
        "count": whole(point.count),
        "sum": maybe(point.sum, double),
        "bucketCounts": list(&point.bucket_counts, |count| whole(*count)),
        "explicitBounds": list(&point.explicit_bounds, |bound| double(*bound)),
        "exemplars": list(&point.exemplars, exemplar),
        "flags": point.flags,
        "min": maybe(point.min, double),
        "max": maybe(point.max, double),
    })
}

fn buckets(buckets: &Buckets) -> Value {
    json!({
        "offset": buckets.offset,
        "bucketCounts": list(&buckets.bucket_counts, |count| whole(*count)),
    })
}

fn exponential_point(point: &ExponentialHistogramDataPoint) -> Value {
    json!({
        "attributes": list(&point.attributes, key_value),
        "startTimeUnixNano": whole(point.start_time_unix_nano),
        "timeUnixNano": whole(point.time_unix_nano),
        "count": whole(point.count),
        "sum": maybe(point.sum, double),
        "scale": point.scale,
        "zeroCount": whole(point.zero_count),
        "positive": maybe(point.positive.as_ref(), buckets),
        "negative": maybe(point.negative.as_ref(), buckets),
        "flags": point.flags,
        "exemplars": list(&point.exemplars, exemplar),
        "min": maybe(point.min, double),
        "max": maybe(point.max, double),
        "zeroThreshold": double(point.zero_threshold),
    })
}

fn summary_point(point: &SummaryDataPoint) -> Value {
    json!({
        "attributes": list(&point.attributes, key_value),
        "startTimeUnixNano": whole(point.start_time_unix_nano),
        "timeUnixNano": whole(point.time_unix_nano),
        "count": whole(point.count),
        "sum": double(point.sum),
        "quantileValues": list(&point.quantile_values, |quantile| json!({
            "quantile": double(quantile.quantile),
            "value": double(quantile.value),
        })),
        "flags": point.flags,
    })
}

/// Adds keys that OTLP doesn't know, with any content, to every object.
pub fn with_unknown_keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.iter().map(|(key, value)| (key.clone(), with_unknown_keys(value)));
            let unknown = [
                ("".to_owned(), json!({ "a": [1, [], {}, "}\"]"] })),
                ("zzFuture".to_owned(), json!([[null, true], { "traceId": 7 }])),
            ];
            Value::Object(unknown.into_iter().chain(known).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(with_unknown_keys).collect(),
        other => other.clone(),
    }
}
