//! OTLP's messages as tables: the name and type of each field.
//!
//! The check, the splitter and error paths use them. Source: opentelemetry-proto 1.x
//! (`trace.proto`, `logs.proto`, `metrics.proto`, `common.proto`, `resource.proto`).

use crate::otlp::steps::{FieldStep, SHORT_TAGS, steps_of};
use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;

/// A message type. The field with number n is at index n - 1.
pub(crate) struct MessageDescriptor {
    pub(crate) fields: &'static [FieldDescriptor],
    /// The fields by their tags, with their wire types, if that takes one byte.
    pub(crate) steps: [FieldStep; SHORT_TAGS],
}

/// A field of a message.
pub(crate) struct FieldDescriptor {
    pub(crate) name: &'static str,
    pub(crate) kind: FieldKind,
}

/// The type of a field, as far as checks require it.
#[derive(Clone, Copy)]
pub(crate) enum FieldKind {
    /// An undefined field, which is skipped.
    Unknown,
    /// Any integer, enum or bool in one varint.
    Varint,
    /// `fixed64`, `sfixed64` or `double`.
    Fixed64,
    /// The time of a record, `fixed64`: it decides the record's day.
    Time,
    /// The time of a record without a `Time`, `fixed64`.
    SecondTime,
    /// `fixed32`.
    Fixed32,
    /// `string`.
    Text,
    /// `bytes`.
    Bytes,
    /// `bytes` that are empty or an id of this length.
    Id(usize),
    /// Repeated eight-byte numbers, packed or not.
    PackedFixed64,
    /// Repeated varints, packed or not.
    PackedVarint,
    /// A message that holds no records.
    Message(&'static MessageDescriptor),
    /// One of many messages of a record, with separate attributes.
    Part(&'static MessageDescriptor),
    /// A `KeyValue` of an attribute set or of a nested list: counted against the limit.
    Attribute,
    /// An `AnyValue` inside an array: one of many.
    Element,
    /// A nested array or list: one level deeper.
    Nested(&'static MessageDescriptor),
    /// A container between the request and its records.
    Group(&'static MessageDescriptor),
    /// A record.
    Record(&'static MessageDescriptor),
}

impl MessageDescriptor {
    /// Returns the field with this number, if the message defines it.
    #[inline]
    pub(crate) fn field(&self, number: u32) -> Option<&'static FieldDescriptor> {
        self.fields.get((number as usize).wrapping_sub(1))
    }
}

impl FieldKind {
    /// Returns the message that a field of this kind holds.
    pub(crate) fn inner_message(self) -> Option<&'static MessageDescriptor> {
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

/// Returns the request of a signal.
pub(crate) fn request_message(signal: Signal) -> &'static MessageDescriptor {
    match signal {
        Signal::Traces => &TRACES,
        Signal::Logs => &LOGS,
        Signal::Metrics => &METRICS,
    }
}

/// Returns the names of the fields around byte `offset` of `request`, outermost first, joined by
/// dots.
///
/// Also works on broken requests: it descends as long as fields can be read.
#[must_use]
pub fn path_of(signal: Signal, request_bytes: &[u8], offset: usize) -> String {
    let mut path = String::new();
    let mut message = request_message(signal);
    let mut bytes = request_bytes;
    let mut start = 0;
    'descend: loop {
        let mut cursor = Cursor::new(bytes);
        while let Ok(Some(tag)) = cursor.tag() {
            let before_value = start + bytes.len() - cursor.remaining().len();
            let field = message.field(tag >> 3);
            let value =
                if tag & 7 == LENGTH { cursor.bytes() } else { cursor.skip(tag).map(|()| &[][..]) };
            let end = start + bytes.len() - cursor.remaining().len();
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
            match (value, field.kind.inner_message()) {
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

const fn message(fields: &'static [FieldDescriptor]) -> MessageDescriptor {
    MessageDescriptor { fields, steps: steps_of(fields) }
}

const fn field(name: &'static str, kind: FieldKind) -> FieldDescriptor {
    FieldDescriptor { name, kind }
}

const HOLE: FieldDescriptor = field("", FieldKind::Unknown);

static TRACES: MessageDescriptor =
    message(&[field("resource_spans", FieldKind::Group(&RESOURCE_SPANS))]);

static LOGS: MessageDescriptor =
    message(&[field("resource_logs", FieldKind::Group(&RESOURCE_LOGS))]);

static METRICS: MessageDescriptor =
    message(&[field("resource_metrics", FieldKind::Group(&RESOURCE_METRICS))]);

static RESOURCE_SPANS: MessageDescriptor = message(&[
    field("resource", FieldKind::Message(&RESOURCE)),
    field("scope_spans", FieldKind::Group(&SCOPE_SPANS)),
    field("schema_url", FieldKind::Text),
]);

static RESOURCE_LOGS: MessageDescriptor = message(&[
    field("resource", FieldKind::Message(&RESOURCE)),
    field("scope_logs", FieldKind::Group(&SCOPE_LOGS)),
    field("schema_url", FieldKind::Text),
]);

static RESOURCE_METRICS: MessageDescriptor = message(&[
    field("resource", FieldKind::Message(&RESOURCE)),
    field("scope_metrics", FieldKind::Group(&SCOPE_METRICS)),
    field("schema_url", FieldKind::Text),
]);

static SCOPE_SPANS: MessageDescriptor = message(&[
    field("scope", FieldKind::Message(&SCOPE)),
    field("spans", FieldKind::Record(&SPAN)),
    field("schema_url", FieldKind::Text),
]);

static SCOPE_LOGS: MessageDescriptor = message(&[
    field("scope", FieldKind::Message(&SCOPE)),
    field("log_records", FieldKind::Record(&LOG_RECORD)),
    field("schema_url", FieldKind::Text),
]);

static SCOPE_METRICS: MessageDescriptor = message(&[
    field("scope", FieldKind::Message(&SCOPE)),
    field("metrics", FieldKind::Group(&METRIC)),
    field("schema_url", FieldKind::Text),
]);

static RESOURCE: MessageDescriptor = message(&[
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
    field("entity_refs", FieldKind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: MessageDescriptor = message(&[
    field("schema_url", FieldKind::Text),
    field("type", FieldKind::Text),
    field("id_keys", FieldKind::Text),
    field("description_keys", FieldKind::Text),
]);

static SCOPE: MessageDescriptor = message(&[
    field("name", FieldKind::Text),
    field("version", FieldKind::Text),
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
]);

pub(crate) static KEY_VALUE: MessageDescriptor = message(&[
    field("key", FieldKind::Text),
    field("value", FieldKind::Message(&ANY_VALUE)),
    // Belongs to the profiles signal; it has no meaning in the others, but readers know its type.
    field("key_strindex", FieldKind::Varint),
]);

pub(crate) static ANY_VALUE: MessageDescriptor = message(&[
    field("string_value", FieldKind::Text),
    field("bool_value", FieldKind::Varint),
    field("int_value", FieldKind::Varint),
    field("double_value", FieldKind::Fixed64),
    field("array_value", FieldKind::Nested(&ARRAY_VALUE)),
    field("kvlist_value", FieldKind::Nested(&KEY_VALUE_LIST)),
    field("bytes_value", FieldKind::Bytes),
    // As `key_strindex`.
    field("string_value_strindex", FieldKind::Varint),
]);

static ARRAY_VALUE: MessageDescriptor = message(&[field("values", FieldKind::Element)]);

pub(crate) static KEY_VALUE_LIST: MessageDescriptor =
    message(&[field("values", FieldKind::Attribute)]);

static SPAN: MessageDescriptor = message(&[
    field("trace_id", FieldKind::Id(16)),
    field("span_id", FieldKind::Id(8)),
    field("trace_state", FieldKind::Text),
    field("parent_span_id", FieldKind::Id(8)),
    field("name", FieldKind::Text),
    field("kind", FieldKind::Varint),
    field("start_time_unix_nano", FieldKind::Time),
    field("end_time_unix_nano", FieldKind::Fixed64),
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
    field("events", FieldKind::Part(&EVENT)),
    field("dropped_events_count", FieldKind::Varint),
    field("links", FieldKind::Part(&LINK)),
    field("dropped_links_count", FieldKind::Varint),
    field("status", FieldKind::Message(&STATUS)),
    field("flags", FieldKind::Fixed32),
]);

static EVENT: MessageDescriptor = message(&[
    field("time_unix_nano", FieldKind::Fixed64),
    field("name", FieldKind::Text),
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
]);

static LINK: MessageDescriptor = message(&[
    field("trace_id", FieldKind::Id(16)),
    field("span_id", FieldKind::Id(8)),
    field("trace_state", FieldKind::Text),
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
    field("flags", FieldKind::Fixed32),
]);

static STATUS: MessageDescriptor =
    message(&[HOLE, field("message", FieldKind::Text), field("code", FieldKind::Varint)]);

static LOG_RECORD: MessageDescriptor = message(&[
    field("time_unix_nano", FieldKind::Time),
    field("severity_number", FieldKind::Varint),
    field("severity_text", FieldKind::Text),
    HOLE,
    field("body", FieldKind::Message(&ANY_VALUE)),
    field("attributes", FieldKind::Attribute),
    field("dropped_attributes_count", FieldKind::Varint),
    field("flags", FieldKind::Fixed32),
    field("trace_id", FieldKind::Id(16)),
    field("span_id", FieldKind::Id(8)),
    field("observed_time_unix_nano", FieldKind::SecondTime),
    field("event_name", FieldKind::Text),
]);

pub(crate) static METRIC: MessageDescriptor = message(&[
    field("name", FieldKind::Text),
    field("description", FieldKind::Text),
    field("unit", FieldKind::Text),
    HOLE,
    field("gauge", FieldKind::Group(&GAUGE)),
    HOLE,
    field("sum", FieldKind::Group(&SUM)),
    HOLE,
    field("histogram", FieldKind::Group(&HISTOGRAM)),
    field("exponential_histogram", FieldKind::Group(&EXPONENTIAL_HISTOGRAM)),
    field("summary", FieldKind::Group(&SUMMARY)),
    field("metadata", FieldKind::Attribute),
]);

static GAUGE: MessageDescriptor =
    message(&[field("data_points", FieldKind::Record(&NUMBER_DATA_POINT))]);

static SUM: MessageDescriptor = message(&[
    field("data_points", FieldKind::Record(&NUMBER_DATA_POINT)),
    field("aggregation_temporality", FieldKind::Varint),
    field("is_monotonic", FieldKind::Varint),
]);

static HISTOGRAM: MessageDescriptor = message(&[
    field("data_points", FieldKind::Record(&HISTOGRAM_DATA_POINT)),
    field("aggregation_temporality", FieldKind::Varint),
]);

static EXPONENTIAL_HISTOGRAM: MessageDescriptor = message(&[
    field("data_points", FieldKind::Record(&EXPONENTIAL_HISTOGRAM_DATA_POINT)),
    field("aggregation_temporality", FieldKind::Varint),
]);

static SUMMARY: MessageDescriptor =
    message(&[field("data_points", FieldKind::Record(&SUMMARY_DATA_POINT))]);

static NUMBER_DATA_POINT: MessageDescriptor = message(&[
    HOLE,
    field("start_time_unix_nano", FieldKind::Fixed64),
    field("time_unix_nano", FieldKind::Time),
    field("as_double", FieldKind::Fixed64),
    field("exemplars", FieldKind::Part(&EXEMPLAR)),
    field("as_int", FieldKind::Fixed64),
    field("attributes", FieldKind::Attribute),
    field("flags", FieldKind::Varint),
]);

static HISTOGRAM_DATA_POINT: MessageDescriptor = message(&[
    HOLE,
    field("start_time_unix_nano", FieldKind::Fixed64),
    field("time_unix_nano", FieldKind::Time),
    field("count", FieldKind::Fixed64),
    field("sum", FieldKind::Fixed64),
    field("bucket_counts", FieldKind::PackedFixed64),
    field("explicit_bounds", FieldKind::PackedFixed64),
    field("exemplars", FieldKind::Part(&EXEMPLAR)),
    field("attributes", FieldKind::Attribute),
    field("flags", FieldKind::Varint),
    field("min", FieldKind::Fixed64),
    field("max", FieldKind::Fixed64),
]);

static EXPONENTIAL_HISTOGRAM_DATA_POINT: MessageDescriptor = message(&[
    field("attributes", FieldKind::Attribute),
    field("start_time_unix_nano", FieldKind::Fixed64),
    field("time_unix_nano", FieldKind::Time),
    field("count", FieldKind::Fixed64),
    field("sum", FieldKind::Fixed64),
    field("scale", FieldKind::Varint),
    field("zero_count", FieldKind::Fixed64),
    field("positive", FieldKind::Message(&BUCKETS)),
    field("negative", FieldKind::Message(&BUCKETS)),
    field("flags", FieldKind::Varint),
    field("exemplars", FieldKind::Part(&EXEMPLAR)),
    field("min", FieldKind::Fixed64),
    field("max", FieldKind::Fixed64),
    field("zero_threshold", FieldKind::Fixed64),
]);

static BUCKETS: MessageDescriptor =
    message(&[field("offset", FieldKind::Varint), field("bucket_counts", FieldKind::PackedVarint)]);

static SUMMARY_DATA_POINT: MessageDescriptor = message(&[
    HOLE,
    field("start_time_unix_nano", FieldKind::Fixed64),
    field("time_unix_nano", FieldKind::Time),
    field("count", FieldKind::Fixed64),
    field("sum", FieldKind::Fixed64),
    field("quantile_values", FieldKind::Message(&VALUE_AT_QUANTILE)),
    field("attributes", FieldKind::Attribute),
    field("flags", FieldKind::Varint),
]);

static VALUE_AT_QUANTILE: MessageDescriptor =
    message(&[field("quantile", FieldKind::Fixed64), field("value", FieldKind::Fixed64)]);

static EXEMPLAR: MessageDescriptor = message(&[
    HOLE,
    field("time_unix_nano", FieldKind::Fixed64),
    field("as_double", FieldKind::Fixed64),
    field("span_id", FieldKind::Id(8)),
    field("trace_id", FieldKind::Id(16)),
    field("as_int", FieldKind::Fixed64),
    field("filtered_attributes", FieldKind::Attribute),
]);
