//! OTLP's messages as tables: which field has which name and type.
//!
//! The check, the splitter and error paths are driven by them. Source: opentelemetry-proto 1.x
//! (`trace.proto`, `logs.proto`, `metrics.proto`, `common.proto`, `resource.proto`).

use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;

/// A message type. The field with number n is at index n - 1.
pub(crate) struct Message {
    pub(crate) fields: &'static [Field],
}

/// A field of a message.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// The type of a field, as far as checking needs it.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// No such field: skipped.
    Unknown,
    /// Any integer, enum or bool on one varint.
    Varint,
    /// `fixed64`, `sfixed64` or `double`.
    Fixed64,
    /// The time of a record, `fixed64`: it decides the record's day.
    Time,
    /// The time of a record that has no other, `fixed64`.
    SecondTime,
    /// `fixed32`.
    Fixed32,
    /// `string`.
    Text,
    /// `bytes`.
    Bytes,
    /// `bytes` that hold nothing or an id of so many bytes.
    Id(usize),
    /// Repeated eight-byte numbers, packed or not.
    PackedFixed64,
    /// Repeated varints, packed or not.
    PackedVarint,
    /// A message that holds no records.
    Message(&'static Message),
    /// One of many messages of a record, with attributes of its own.
    Part(&'static Message),
    /// A `KeyValue` of an attribute set or of a nested list: counted against the limit.
    Attribute,
    /// An `AnyValue` inside an array: one of many.
    Element,
    /// A nested array or list: one level deeper.
    Nested(&'static Message),
    /// A container on the way from the request to its records.
    Group(&'static Message),
    /// A record.
    Record(&'static Message),
}

impl Message {
    /// The field with that number, if the message defines it.
    #[inline]
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.get((number as usize).wrapping_sub(1))
    }
}

impl Kind {
    /// The message a field of this kind holds.
    pub(crate) fn message(self) -> Option<&'static Message> {
        match self {
            Self::Message(message)
            | Self::Part(message)
            | Self::Nested(message)
            | Self::Group(message)
            | Self::Record(message) => Some(message),
            Self::Attribute => Some(&KEY_VALUE),
            Self::Element => Some(&ANY_VALUE),
            Self::Unknown
            | Self::Varint
            | Self::Fixed64
            | Self::Time
            | Self::SecondTime
            | Self::Fixed32
            | Self::Text
            | Self::Bytes
            | Self::Id(_)
            | Self::PackedFixed64
            | Self::PackedVarint => None,
        }
    }

    /// Whether `wire_type` may carry a field of this kind.
    #[inline]
    pub(crate) fn carried_by(self, wire_type: u32) -> bool {
        match self {
            Self::Unknown => true,
            Self::Varint => wire_type == VARINT,
            Self::Fixed64 | Self::Time | Self::SecondTime => wire_type == FIXED64,
            Self::Fixed32 => wire_type == FIXED32,
            Self::PackedFixed64 => wire_type == LENGTH || wire_type == FIXED64,
            Self::PackedVarint => wire_type == LENGTH || wire_type == VARINT,
            Self::Text
            | Self::Bytes
            | Self::Id(_)
            | Self::Message(_)
            | Self::Part(_)
            | Self::Attribute
            | Self::Element
            | Self::Nested(_)
            | Self::Group(_)
            | Self::Record(_) => wire_type == LENGTH,
        }
    }
}

/// The request of a signal.
pub(crate) fn request(signal: Signal) -> &'static Message {
    match signal {
        Signal::Traces => &TRACES,
        Signal::Logs => &LOGS,
        Signal::Metrics => &METRICS,
    }
}

/// Names of the fields around byte `offset` of `request`, outermost first, joined by dots.
///
/// Works on broken requests too: it descends as long as fields can be read.
#[must_use]
pub fn path_of(signal: Signal, request_bytes: &[u8], offset: usize) -> String {
    let mut path = String::new();
    let mut message = request(signal);
    let mut bytes = request_bytes;
    let mut start = 0;
    'descend: loop {
        let mut cursor = Cursor::new(bytes);
        while let Ok(Some(tag)) = cursor.tag() {
            let before_value = start + bytes.len() - cursor.rest().len();
            let field = message.field(tag >> 3);
            let value =
                if tag & 7 == LENGTH { cursor.bytes() } else { cursor.skip(tag).map(|()| &[][..]) };
            let end = start + bytes.len() - cursor.rest().len();
            if value.is_ok() && offset >= end {
                continue;
            }
            let Some(field) = field else { return path };
            if offset >= before_value {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(field.name);
            }
            match (value, field.kind.message()) {
                (Ok(value), Some(inner)) if offset >= end - value.len() => {
                    start = end - value.len();
                    bytes = value;
                    message = inner;
                    continue 'descend;
                }
                _ => return path,
            }
        }
        return path;
    }
}

const fn message(fields: &'static [Field]) -> Message {
    Message { fields }
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}

const HOLE: Field = field("", Kind::Unknown);

static TRACES: Message = message(&[field("resource_spans", Kind::Group(&RESOURCE_SPANS))]);

static LOGS: Message = message(&[field("resource_logs", Kind::Group(&RESOURCE_LOGS))]);

static METRICS: Message = message(&[field("resource_metrics", Kind::Group(&RESOURCE_METRICS))]);

static RESOURCE_SPANS: Message = message(&[
    field("resource", Kind::Message(&RESOURCE)),
    field("scope_spans", Kind::Group(&SCOPE_SPANS)),
    field("schema_url", Kind::Text),
]);

static RESOURCE_LOGS: Message = message(&[
    field("resource", Kind::Message(&RESOURCE)),
    field("scope_logs", Kind::Group(&SCOPE_LOGS)),
    field("schema_url", Kind::Text),
]);

static RESOURCE_METRICS: Message = message(&[
    field("resource", Kind::Message(&RESOURCE)),
    field("scope_metrics", Kind::Group(&SCOPE_METRICS)),
    field("schema_url", Kind::Text),
]);

static SCOPE_SPANS: Message = message(&[
    field("scope", Kind::Message(&SCOPE)),
    field("spans", Kind::Record(&SPAN)),
    field("schema_url", Kind::Text),
]);

static SCOPE_LOGS: Message = message(&[
    field("scope", Kind::Message(&SCOPE)),
    field("log_records", Kind::Record(&LOG_RECORD)),
    field("schema_url", Kind::Text),
]);

static SCOPE_METRICS: Message = message(&[
    field("scope", Kind::Message(&SCOPE)),
    field("metrics", Kind::Group(&METRIC)),
    field("schema_url", Kind::Text),
]);

static RESOURCE: Message = message(&[
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
    field("entity_refs", Kind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: Message = message(&[
    field("schema_url", Kind::Text),
    field("type", Kind::Text),
    field("id_keys", Kind::Text),
    field("description_keys", Kind::Text),
]);

static SCOPE: Message = message(&[
    field("name", Kind::Text),
    field("version", Kind::Text),
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
]);

pub(crate) static KEY_VALUE: Message = message(&[
    field("key", Kind::Text),
    field("value", Kind::Message(&ANY_VALUE)),
    // Of the profiles signal; without meaning in the others, but readers know its type.
    field("key_strindex", Kind::Varint),
]);

static ANY_VALUE: Message = message(&[
    field("string_value", Kind::Text),
    field("bool_value", Kind::Varint),
    field("int_value", Kind::Varint),
    field("double_value", Kind::Fixed64),
    field("array_value", Kind::Nested(&ARRAY_VALUE)),
    field("kvlist_value", Kind::Nested(&KEY_VALUE_LIST)),
    field("bytes_value", Kind::Bytes),
    // As above.
    field("string_value_strindex", Kind::Varint),
]);

static ARRAY_VALUE: Message = message(&[field("values", Kind::Element)]);

pub(crate) static KEY_VALUE_LIST: Message = message(&[field("values", Kind::Attribute)]);

static SPAN: Message = message(&[
    field("trace_id", Kind::Id(16)),
    field("span_id", Kind::Id(8)),
    field("trace_state", Kind::Text),
    field("parent_span_id", Kind::Id(8)),
    field("name", Kind::Text),
    field("kind", Kind::Varint),
    field("start_time_unix_nano", Kind::Time),
    field("end_time_unix_nano", Kind::Fixed64),
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
    field("events", Kind::Part(&EVENT)),
    field("dropped_events_count", Kind::Varint),
    field("links", Kind::Part(&LINK)),
    field("dropped_links_count", Kind::Varint),
    field("status", Kind::Message(&STATUS)),
    field("flags", Kind::Fixed32),
]);

static EVENT: Message = message(&[
    field("time_unix_nano", Kind::Fixed64),
    field("name", Kind::Text),
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
]);

static LINK: Message = message(&[
    field("trace_id", Kind::Id(16)),
    field("span_id", Kind::Id(8)),
    field("trace_state", Kind::Text),
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
    field("flags", Kind::Fixed32),
]);

static STATUS: Message =
    message(&[HOLE, field("message", Kind::Text), field("code", Kind::Varint)]);

static LOG_RECORD: Message = message(&[
    field("time_unix_nano", Kind::Time),
    field("severity_number", Kind::Varint),
    field("severity_text", Kind::Text),
    HOLE,
    field("body", Kind::Message(&ANY_VALUE)),
    field("attributes", Kind::Attribute),
    field("dropped_attributes_count", Kind::Varint),
    field("flags", Kind::Fixed32),
    field("trace_id", Kind::Id(16)),
    field("span_id", Kind::Id(8)),
    field("observed_time_unix_nano", Kind::SecondTime),
    field("event_name", Kind::Text),
]);

pub(crate) static METRIC: Message = message(&[
    field("name", Kind::Text),
    field("description", Kind::Text),
    field("unit", Kind::Text),
    HOLE,
    field("gauge", Kind::Group(&GAUGE)),
    HOLE,
    field("sum", Kind::Group(&SUM)),
    HOLE,
    field("histogram", Kind::Group(&HISTOGRAM)),
    field("exponential_histogram", Kind::Group(&EXPONENTIAL_HISTOGRAM)),
    field("summary", Kind::Group(&SUMMARY)),
    field("metadata", Kind::Attribute),
]);

static GAUGE: Message = message(&[field("data_points", Kind::Record(&NUMBER_DATA_POINT))]);

static SUM: Message = message(&[
    field("data_points", Kind::Record(&NUMBER_DATA_POINT)),
    field("aggregation_temporality", Kind::Varint),
    field("is_monotonic", Kind::Varint),
]);

static HISTOGRAM: Message = message(&[
    field("data_points", Kind::Record(&HISTOGRAM_DATA_POINT)),
    field("aggregation_temporality", Kind::Varint),
]);

static EXPONENTIAL_HISTOGRAM: Message = message(&[
    field("data_points", Kind::Record(&EXPONENTIAL_HISTOGRAM_DATA_POINT)),
    field("aggregation_temporality", Kind::Varint),
]);

static SUMMARY: Message = message(&[field("data_points", Kind::Record(&SUMMARY_DATA_POINT))]);

static NUMBER_DATA_POINT: Message = message(&[
    HOLE,
    field("start_time_unix_nano", Kind::Fixed64),
    field("time_unix_nano", Kind::Time),
    field("as_double", Kind::Fixed64),
    field("exemplars", Kind::Part(&EXEMPLAR)),
    field("as_int", Kind::Fixed64),
    field("attributes", Kind::Attribute),
    field("flags", Kind::Varint),
]);

static HISTOGRAM_DATA_POINT: Message = message(&[
    HOLE,
    field("start_time_unix_nano", Kind::Fixed64),
    field("time_unix_nano", Kind::Time),
    field("count", Kind::Fixed64),
    field("sum", Kind::Fixed64),
    field("bucket_counts", Kind::PackedFixed64),
    field("explicit_bounds", Kind::PackedFixed64),
    field("exemplars", Kind::Part(&EXEMPLAR)),
    field("attributes", Kind::Attribute),
    field("flags", Kind::Varint),
    field("min", Kind::Fixed64),
    field("max", Kind::Fixed64),
]);

static EXPONENTIAL_HISTOGRAM_DATA_POINT: Message = message(&[
    field("attributes", Kind::Attribute),
    field("start_time_unix_nano", Kind::Fixed64),
    field("time_unix_nano", Kind::Time),
    field("count", Kind::Fixed64),
    field("sum", Kind::Fixed64),
    field("scale", Kind::Varint),
    field("zero_count", Kind::Fixed64),
    field("positive", Kind::Message(&BUCKETS)),
    field("negative", Kind::Message(&BUCKETS)),
    field("flags", Kind::Varint),
    field("exemplars", Kind::Part(&EXEMPLAR)),
    field("min", Kind::Fixed64),
    field("max", Kind::Fixed64),
    field("zero_threshold", Kind::Fixed64),
]);

static BUCKETS: Message =
    message(&[field("offset", Kind::Varint), field("bucket_counts", Kind::PackedVarint)]);

static SUMMARY_DATA_POINT: Message = message(&[
    HOLE,
    field("start_time_unix_nano", Kind::Fixed64),
    field("time_unix_nano", Kind::Time),
    field("count", Kind::Fixed64),
    field("sum", Kind::Fixed64),
    field("quantile_values", Kind::Message(&VALUE_AT_QUANTILE)),
    field("attributes", Kind::Attribute),
    field("flags", Kind::Varint),
]);

static VALUE_AT_QUANTILE: Message =
    message(&[field("quantile", Kind::Fixed64), field("value", Kind::Fixed64)]);

static EXEMPLAR: Message = message(&[
    HOLE,
    field("time_unix_nano", Kind::Fixed64),
    field("as_double", Kind::Fixed64),
    field("span_id", Kind::Id(8)),
    field("trace_id", Kind::Id(16)),
    field("as_int", Kind::Fixed64),
    field("filtered_attributes", Kind::Attribute),
]);
