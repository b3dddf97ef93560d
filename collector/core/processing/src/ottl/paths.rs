//! The fields that paths name, by context.

use crate::ottl::context::{SHAPES, StatementContext};
use crate::program::Kind;

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPath {
    /// The names in the path, joined by dots.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The field's number by shape; 0 if the shape has no such field.
    pub(crate) numbers: [u32; SHAPES],
}

const fn field(name: &'static str, kind: Kind, number: u32) -> FieldPath {
    FieldPath { name, kind, numbers: [number, 0, 0, 0] }
}

const fn point(name: &'static str, kind: Kind, numbers: [u32; SHAPES]) -> FieldPath {
    FieldPath { name, kind, numbers }
}

/// Returns the fields of a context's objects.
pub(crate) const fn fields(context: StatementContext) -> &'static [FieldPath] {
    match context {
        StatementContext::Resource => RESOURCE,
        StatementContext::Scope => SCOPE,
        StatementContext::Log => LOG,
        StatementContext::Span => SPAN,
        StatementContext::SpanEvent => SPAN_EVENT,
        StatementContext::Metric | StatementContext::Data => METRIC,
        StatementContext::DataPoint => DATA_POINT,
        StatementContext::Cache | StatementContext::Link | StatementContext::Exemplar => &[],
    }
}

const RESOURCE: &[FieldPath] = &[
    field("attributes", Kind::Map, 1),
    field("dropped_attributes_count", Kind::Uint32, 2),
    field("schema_url", Kind::SchemaUrl, 0),
];

const SCOPE: &[FieldPath] = &[
    field("name", Kind::Text, 1),
    field("version", Kind::Text, 2),
    field("attributes", Kind::Map, 3),
    field("dropped_attributes_count", Kind::Uint32, 4),
    field("schema_url", Kind::SchemaUrl, 0),
];

const LOG: &[FieldPath] = &[
    field("time_unix_nano", Kind::TimeNanos, 1),
    field("time", Kind::Time, 1),
    field("severity_number", Kind::Int32, 2),
    field("severity_text", Kind::Text, 3),
    field("body", Kind::Body, 5),
    field("body.string", Kind::BodyText, 5),
    field("attributes", Kind::Map, 6),
    field("dropped_attributes_count", Kind::Uint32, 7),
    field("flags", Kind::Fixed32, 8),
    field("trace_id", Kind::TraceId, 9),
    field("trace_id.string", Kind::TraceIdText, 9),
    field("span_id", Kind::SpanId, 10),
    field("span_id.string", Kind::SpanIdText, 10),
    field("observed_time_unix_nano", Kind::TimeNanos, 11),
    field("observed_time", Kind::Time, 11),
    field("event_name", Kind::Text, 12),
];

const SPAN: &[FieldPath] = &[
    field("trace_id", Kind::TraceId, 1),
    field("trace_id.string", Kind::TraceIdText, 1),
    field("span_id", Kind::SpanId, 2),
    field("span_id.string", Kind::SpanIdText, 2),
    field("trace_state", Kind::Text, 3),
    field("parent_span_id", Kind::SpanId, 4),
    field("parent_span_id.string", Kind::SpanIdText, 4),
    field("name", Kind::Text, 5),
    field("kind", Kind::Int32, 6),
    field("kind.string", Kind::SpanKindText, 6),
    field("kind.deprecated_string", Kind::SpanKindName, 6),
    field("start_time_unix_nano", Kind::TimeNanos, 7),
    field("start_time", Kind::Time, 7),
    field("end_time_unix_nano", Kind::TimeNanos, 8),
    field("end_time", Kind::Time, 8),
    field("attributes", Kind::Map, 9),
    field("dropped_attributes_count", Kind::Uint32, 10),
    field("events", Kind::Messages, 11),
    field("dropped_events_count", Kind::Uint32, 12),
    field("links", Kind::Messages, 13),
    field("dropped_links_count", Kind::Uint32, 14),
    field("status.code", Kind::StatusCode, 15),
    field("status.message", Kind::StatusMessage, 15),
    field("flags", Kind::Flags, 16),
];

const SPAN_EVENT: &[FieldPath] = &[
    field("time_unix_nano", Kind::TimeNanos, 1),
    field("time", Kind::Time, 1),
    field("name", Kind::Text, 2),
    field("attributes", Kind::Map, 3),
    field("dropped_attributes_count", Kind::Uint32, 4),
    field("event_index", Kind::EventIndex, 0),
];

const METRIC: &[FieldPath] = &[
    field("name", Kind::Text, 1),
    field("description", Kind::Text, 2),
    field("unit", Kind::Text, 3),
    field("type", Kind::MetricType, 0),
    field("aggregation_temporality", Kind::Temporality, 2),
    field("is_monotonic", Kind::Monotonic, 3),
    field("metadata", Kind::Map, 12),
];

const DATA_POINT: &[FieldPath] = &[
    point("attributes", Kind::Map, [7, 9, 1, 7]),
    point("start_time_unix_nano", Kind::TimeNanos, [2, 2, 2, 2]),
    point("start_time", Kind::Time, [2, 2, 2, 2]),
    point("time_unix_nano", Kind::TimeNanos, [3, 3, 3, 3]),
    point("time", Kind::Time, [3, 3, 3, 3]),
    point("value_double", Kind::ValueDouble, [4, 0, 0, 0]),
    point("value_int", Kind::ValueInt, [6, 0, 0, 0]),
    point("exemplars", Kind::Messages, [5, 8, 11, 0]),
    point("flags", Kind::Uint32, [8, 10, 10, 8]),
    point("count", Kind::Fixed64, [0, 4, 4, 4]),
    point("sum", Kind::Double, [0, 5, 5, 5]),
    point("bucket_counts", Kind::BucketCounts, [0, 6, 0, 0]),
    point("explicit_bounds", Kind::Bounds, [0, 7, 0, 0]),
    point("scale", Kind::Sint32, [0, 0, 6, 0]),
    point("zero_count", Kind::Fixed64, [0, 0, 7, 0]),
    point("positive.offset", Kind::BucketsOffset, [0, 0, 8, 0]),
    point("positive.bucket_counts", Kind::BucketsCounts, [0, 0, 8, 0]),
    point("negative.offset", Kind::BucketsOffset, [0, 0, 9, 0]),
    point("negative.bucket_counts", Kind::BucketsCounts, [0, 0, 9, 0]),
    point("quantile_values", Kind::Messages, [0, 0, 0, 6]),
];
