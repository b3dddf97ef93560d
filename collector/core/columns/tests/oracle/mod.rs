//! Computes the expected rows of a request from the reference library's messages, by the rules in
//! the crate's documentation, without the crate's own code.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;

use millrace_schema::{AttributeStorage, TableKind};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint, SummaryDataPoint,
    exemplar, number_data_point,
};

use super::native::Value;

/// Rows by table and day, each with its values in the order of the table's insert columns.
pub type Rows = BTreeMap<(TableKind, u16), Vec<Vec<Value>>>;

#[derive(Clone, Copy)]
pub struct Oracle {
    pub attributes: AttributeStorage,
    pub nested_depth: u32,
}

fn text(text: impl AsRef<[u8]>) -> Value {
    Value::Text(text.as_ref().to_vec())
}

fn time(nanos: u64) -> Value {
    Value::Int(nanos.min(i64::MAX as u64) as i64)
}

fn float(number: f64) -> Value {
    Value::Float(number.to_bits())
}

fn id(id: &[u8]) -> Value {
    if id.iter().all(|&byte| byte == 0) {
        return text("");
    }
    text(id.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn day(nanos: u64) -> u16 {
    let days = nanos.min(i64::MAX as u64) / 86_400_000_000_000;
    (days % 65_536) as u16
}

impl Oracle {
    fn set(&self, attributes: &[KeyValue]) -> Value {
        match self.attributes {
            AttributeStorage::Json => {
                let mut object = BTreeMap::new();
                for KeyValue { key, value, .. } in attributes {
                    self.flatten(key.clone().into_bytes(), value.as_ref(), 0, &mut object);
                }
                Value::Json(object)
            }
            AttributeStorage::Map => Value::Map(
                attributes
                    .iter()
                    .map(|KeyValue { key, value, .. }| (text(key), text(plain(value.as_ref()))))
                    .collect(),
            ),
        }
    }

    /// Returns a set that identifies a series: as a map it has its pairs in the order of their
    /// keys.
    fn series_set(&self, attributes: &[KeyValue]) -> Value {
        let mut sorted = attributes.to_vec();
        sorted.sort_by(|one, other| one.key.as_bytes().cmp(other.key.as_bytes()));
        match self.attributes {
            AttributeStorage::Json => self.set(attributes),
            AttributeStorage::Map => self.set(&sorted),
        }
    }

    fn flatten(
        &self,
        path: Vec<u8>,
        value: Option<&AnyValue>,
        depth: u32,
        object: &mut BTreeMap<Vec<u8>, (String, Value)>,
    ) {
        let typed = match value.and_then(|value| value.value.as_ref()) {
            None => return,
            Some(Any::KvlistValue(list)) if depth < self.nested_depth => {
                for KeyValue { key, value, .. } in &list.values {
                    let path = [&path, &b"."[..], key.as_bytes()].concat();
                    self.flatten(path, value.as_ref(), depth + 1, object);
                }
                return;
            }
            Some(Any::KvlistValue(_)) => ("String".to_owned(), text(json(value))),
            Some(Any::ArrayValue(array)) => typed_array(&array.values),
            Some(scalar) => typed_scalar(scalar),
        };
        object.insert(path, typed);
    }

    fn sets<'a>(&self, sets: impl Iterator<Item = &'a Vec<KeyValue>>) -> Value {
        Value::Array(sets.map(|set| self.set(set)).collect())
    }

    fn service(&self, attributes: &[KeyValue]) -> Value {
        let named = attributes.iter().rfind(|attribute| attribute.key == "service.name");
        text(plain(named.and_then(|attribute| attribute.value.as_ref())))
    }

    pub fn traces(&self, request: &ExportTraceServiceRequest) -> Rows {
        let mut rows = Rows::new();
        for group in &request.resource_spans {
            let resource = group.resource.clone().unwrap_or_default().attributes;
            for scope_group in &group.scope_spans {
                let scope = scope_group.scope.clone().unwrap_or_default();
                for span in &scope_group.spans {
                    let status = span.status.clone().unwrap_or_default();
                    let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
                    let kinds =
                        ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];
                    let kind = usize::try_from(span.kind).ok().and_then(|kind| kinds.get(kind));
                    let code = usize::try_from(status.code).ok();
                    let code = code.and_then(|code| ["Unset", "Ok", "Error"].get(code).copied());
                    let events = || span.events.iter();
                    let links = || span.links.iter();
                    let row = vec![
                        time(start),
                        id(&span.trace_id),
                        id(&span.span_id),
                        id(&span.parent_span_id),
                        text(&span.trace_state),
                        text(&span.name),
                        text(kind.unwrap_or(&"")),
                        self.service(&resource),
                        self.set(&resource),
                        text(&scope.name),
                        text(&scope.version),
                        self.set(&span.attributes),
                        Value::UInt(end.saturating_sub(start)),
                        text(code.unwrap_or("")),
                        text(&status.message),
                        Value::Array(events().map(|event| time(event.time_unix_nano)).collect()),
                        Value::Array(events().map(|event| text(&event.name)).collect()),
                        self.sets(events().map(|event| &event.attributes)),
                        Value::Array(links().map(|link| id(&link.trace_id)).collect()),
                        Value::Array(links().map(|link| id(&link.span_id)).collect()),
                        Value::Array(links().map(|link| text(&link.trace_state)).collect()),
                        self.sets(links().map(|link| &link.attributes)),
                    ];
                    rows.entry((TableKind::Traces, day(start))).or_default().push(row);
                }
            }
        }
        rows
    }

    pub fn logs(&self, request: &ExportLogsServiceRequest) -> Rows {
        let mut rows = Rows::new();
        for group in &request.resource_logs {
            let resource = group.resource.clone().unwrap_or_default().attributes;
            for scope_group in &group.scope_logs {
                let scope = scope_group.scope.clone().unwrap_or_default();
                for record in &scope_group.log_records {
                    let at = match record.time_unix_nano {
                        0 => record.observed_time_unix_nano,
                        at => at,
                    };
                    let day = match self.attributes {
                        AttributeStorage::Json => day(at),
                        AttributeStorage::Map => {
                            let seconds = at.min(i64::MAX as u64) / 1_000_000_000;
                            (seconds % (1 << 32) / 86_400) as u16
                        }
                    };
                    let row = vec![
                        time(at),
                        id(&record.trace_id),
                        id(&record.span_id),
                        Value::UInt(u64::from(record.flags & 0xff)),
                        text(&record.severity_text),
                        Value::UInt((record.severity_number & 0xff) as u64),
                        self.service(&resource),
                        text(plain(record.body.as_ref())),
                        text(&group.schema_url),
                        self.set(&resource),
                        text(&scope_group.schema_url),
                        text(&scope.name),
                        text(&scope.version),
                        self.set(&scope.attributes),
                        self.set(&record.attributes),
                        text(&record.event_name),
                    ];
                    rows.entry((TableKind::Logs, day)).or_default().push(row);
                }
            }
        }
        rows
    }

    pub fn metrics(&self, request: &ExportMetricsServiceRequest) -> Rows {
        let mut rows = Rows::new();
        for group in &request.resource_metrics {
            let resource = group.resource.clone().unwrap_or_default().attributes;
            for scope_group in &group.scope_metrics {
                let scope = scope_group.scope.clone().unwrap_or_default();
                for metric in &scope_group.metrics {
                    let before = vec![
                        self.series_set(&resource),
                        text(&group.schema_url),
                        text(&scope.name),
                        text(&scope.version),
                        self.series_set(&scope.attributes),
                        Value::UInt(u64::from(scope.dropped_attributes_count)),
                        text(&scope_group.schema_url),
                        self.service(&resource),
                        text(&metric.name),
                        text(&metric.description),
                        text(&metric.unit),
                    ];
                    for (kind, at, point) in self.points(metric.data.as_ref()) {
                        let row = [before.clone(), point].concat();
                        rows.entry((kind, day(at))).or_default().push(row);
                    }
                }
            }
        }
        rows
    }

    /// Returns each point's table, time and values after the metric's unit.
    fn points(&self, data: Option<&Data>) -> Vec<(TableKind, u64, Vec<Value>)> {
        match data {
            None => Vec::new(),
            Some(Data::Gauge(gauge)) => gauge
                .data_points
                .iter()
                .map(|point| (TableKind::MetricsGauge, point.time_unix_nano, self.number(point)))
                .collect(),
            Some(Data::Sum(sum)) => sum
                .data_points
                .iter()
                .map(|point| {
                    let mut row = self.number(point);
                    row.push(Value::Int(sum.aggregation_temporality.into()));
                    row.push(Value::Bool(sum.is_monotonic));
                    (TableKind::MetricsSum, point.time_unix_nano, row)
                })
                .collect(),
            Some(Data::Histogram(histogram)) => histogram
                .data_points
                .iter()
                .map(|point| {
                    let row = self.histogram(point, histogram.aggregation_temporality);
                    (TableKind::MetricsHistogram, point.time_unix_nano, row)
                })
                .collect(),
            Some(Data::ExponentialHistogram(histogram)) => histogram
                .data_points
                .iter()
                .map(|point| {
                    let row = self.exponential(point, histogram.aggregation_temporality);
                    (TableKind::MetricsExponentialHistogram, point.time_unix_nano, row)
                })
                .collect(),
            Some(Data::Summary(summary)) => summary
                .data_points
                .iter()
                .map(|point| (TableKind::MetricsSummary, point.time_unix_nano, self.summary(point)))
                .collect(),
        }
    }

    fn number(&self, point: &NumberDataPoint) -> Vec<Value> {
        let value = match point.value {
            None => 0.0,
            Some(number_data_point::Value::AsDouble(value)) => value,
            Some(number_data_point::Value::AsInt(value)) => value as f64,
        };
        let mut row = vec![
            self.series_set(&point.attributes),
            time(point.start_time_unix_nano),
            time(point.time_unix_nano),
            float(value),
            Value::UInt(point.flags.into()),
        ];
        row.extend(self.exemplars(&point.exemplars));
        row
    }

    fn histogram(&self, point: &HistogramDataPoint, temporality: i32) -> Vec<Value> {
        let counts = point.bucket_counts.iter().map(|&count| Value::UInt(count));
        let bounds = point.explicit_bounds.iter().map(|&bound| float(bound));
        let mut row = vec![
            self.series_set(&point.attributes),
            time(point.start_time_unix_nano),
            time(point.time_unix_nano),
            Value::UInt(point.count),
            float(point.sum.unwrap_or(0.0)),
            Value::Array(counts.collect()),
            Value::Array(bounds.collect()),
        ];
        row.extend(self.exemplars(&point.exemplars));
        row.extend([
            Value::UInt(point.flags.into()),
            float(point.min.unwrap_or(0.0)),
            float(point.max.unwrap_or(0.0)),
            Value::Int(temporality.into()),
        ]);
        row
    }

    fn exponential(&self, point: &ExponentialHistogramDataPoint, temporality: i32) -> Vec<Value> {
        let positive = point.positive.clone().unwrap_or_default();
        let negative = point.negative.clone().unwrap_or_default();
        let counts = |counts: Vec<u64>| Value::Array(counts.into_iter().map(Value::UInt).collect());
        let mut row = vec![
            self.series_set(&point.attributes),
            time(point.start_time_unix_nano),
            time(point.time_unix_nano),
            Value::UInt(point.count),
            float(point.sum.unwrap_or(0.0)),
            Value::Int(point.scale.into()),
            Value::UInt(point.zero_count),
            Value::Int(positive.offset.into()),
            counts(positive.bucket_counts),
            Value::Int(negative.offset.into()),
            counts(negative.bucket_counts),
        ];
        row.extend(self.exemplars(&point.exemplars));
        row.extend([
            Value::UInt(point.flags.into()),
            float(point.min.unwrap_or(0.0)),
            float(point.max.unwrap_or(0.0)),
            Value::Int(temporality.into()),
        ]);
        row
    }

    fn summary(&self, point: &SummaryDataPoint) -> Vec<Value> {
        let quantiles = || point.quantile_values.iter();
        vec![
            self.series_set(&point.attributes),
            time(point.start_time_unix_nano),
            time(point.time_unix_nano),
            Value::UInt(point.count),
            float(point.sum),
            Value::Array(quantiles().map(|at| float(at.quantile)).collect()),
            Value::Array(quantiles().map(|at| float(at.value)).collect()),
            Value::UInt(point.flags.into()),
        ]
    }

    fn exemplars(&self, exemplars: &[Exemplar]) -> Vec<Value> {
        let value = |exemplar: &Exemplar| match exemplar.value {
            None => 0.0,
            Some(exemplar::Value::AsDouble(value)) => value,
            Some(exemplar::Value::AsInt(value)) => value as f64,
        };
        let all = || exemplars.iter();
        vec![
            self.sets(all().map(|exemplar| &exemplar.filtered_attributes)),
            Value::Array(all().map(|exemplar| time(exemplar.time_unix_nano)).collect()),
            Value::Array(all().map(|exemplar| float(value(exemplar))).collect()),
            Value::Array(all().map(|exemplar| id(&exemplar.span_id)).collect()),
            Value::Array(all().map(|exemplar| id(&exemplar.trace_id)).collect()),
        ]
    }
}

fn typed_scalar(value: &Any) -> (String, Value) {
    let (ty, value) = match value {
        Any::StringValue(value) => ("String", text(value)),
        Any::IntValue(value) => ("Int64", Value::Int(*value)),
        Any::DoubleValue(value) => ("Float64", float(*value)),
        Any::BoolValue(value) => ("Bool", Value::Bool(*value)),
        Any::BytesValue(value) => ("String", text(base64(value))),
        other => panic!("not a scalar: {other:?}"),
    };
    (ty.to_owned(), value)
}

fn typed_array(values: &[AnyValue]) -> (String, Value) {
    let nested =
        |value: &AnyValue| matches!(value.value, Some(Any::ArrayValue(_) | Any::KvlistValue(_)));
    let typed: Vec<Option<(String, Value)>> = values
        .iter()
        .map(|value| match &value.value {
            None => None,
            Some(_) if nested(value) => Some(("String".to_owned(), text(json(Some(value))))),
            Some(scalar) => Some(typed_scalar(scalar)),
        })
        .collect();
    let mut types: Vec<&str> = typed.iter().flatten().map(|(ty, _)| ty.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    if types.len() > 1 || values.iter().any(nested) {
        let dynamic = |value: Option<(String, Value)>| {
            value.map_or(Value::Null, |(ty, value)| Value::Dynamic(ty, Box::new(value)))
        };
        return (
            "Array(Dynamic)".to_owned(),
            Value::Array(typed.into_iter().map(dynamic).collect()),
        );
    }
    let ty = types.first().copied().unwrap_or("String").to_owned();
    let plain = |value: Option<(String, Value)>| value.map_or(Value::Null, |(_, value)| value);
    (format!("Array(Nullable({ty}))"), Value::Array(typed.into_iter().map(plain).collect()))
}

/// Returns a value as in a text column.
fn plain(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::BytesValue(bytes)) => base64(bytes),
        Some(Any::DoubleValue(number)) => double(*number),
        Some(_) => json(value),
    }
}

fn json(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => "null".to_owned(),
        Some(Any::StringValue(text)) => quoted(text),
        Some(Any::BoolValue(truth)) => truth.to_string(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::DoubleValue(number)) if number.is_finite() => double(*number),
        Some(Any::DoubleValue(number)) => format!("\"{}\"", double(*number)),
        Some(Any::BytesValue(bytes)) => format!("\"{}\"", base64(bytes)),
        Some(Any::ArrayValue(array)) => {
            let elements: Vec<String> =
                array.values.iter().map(|element| json(Some(element))).collect();
            format!("[{}]", elements.join(","))
        }
        Some(Any::KvlistValue(list)) => {
            let members: Vec<String> = list
                .values
                .iter()
                .map(|member| format!("{}:{}", quoted(&member.key), json(member.value.as_ref())))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Some(other) => panic!("unknown value {other:?}"),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if u32::from(c) < 0x20 => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = even(format!("{number:e}"), number);
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    match exponent.parse::<i32>().unwrap() {
        exponent if number != 0.0 && exponent >= 21 => format!("{mantissa}e+{exponent}"),
        exponent if number != 0.0 && exponent < -6 => format!("{mantissa}e{exponent}"),
        _ => even(format!("{number}"), number),
    }
}

/// Returns the standard library's shortest form, but with the even one of two that are equally
/// near: the library chooses the one further from zero.
fn even(text: String, number: f64) -> String {
    let digits = |text: &str| -> String {
        let mantissa = text.split('e').next().unwrap();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').to_owned()
    };
    // No double has more significant digits than 767.
    let exact = digits(&format!("{number:.780e}"));
    let (short, mut lower) = (digits(&text), digits(&text).into_bytes());
    let Some(last) = lower.last_mut().filter(|last| (**last - b'0') % 2 == 1) else { return text };
    *last -= 1;
    if exact != format!("{}5", String::from_utf8(lower.clone()).unwrap()) {
        return text;
    }
    let at = text.split('e').next().unwrap().rfind(|c: char| ('1'..='9').contains(&c)).unwrap();
    let digit = char::from(*lower.last().unwrap());
    assert!(text[at..].starts_with(char::from(*short.as_bytes().last().unwrap())));
    format!("{}{digit}{}", &text[..at], &text[at + 1..])
}

fn base64(bytes: &[u8]) -> String {
    let digit = |bits: u32| {
        let alphabet = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']);
        alphabet.clone().nth(bits as usize).unwrap()
    };
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut out: String = bits
        .as_bytes()
        .chunks(6)
        .map(|six| {
            let padded = format!("{:0<6}", std::str::from_utf8(six).unwrap());
            digit(u32::from_str_radix(&padded, 2).unwrap())
        })
        .collect();
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}
