//! OTLP export requests (`Export{Trace,Logs,Metrics}ServiceRequest`) as bytes.
//!
//! Requests of one signal **concatenate**: a request has exactly one repeated field, so the bytes
//! of two requests in sequence are one request with the records of both. The edge batches by
//! appending bytes, and never re-encodes.
//!
//! Views follow protobuf's rules: unknown fields are skipped, the last of repeated scalars counts,
//! repeated sub-messages are merged. Two exceptions, which no encoder produces: an attribute's
//! repeated values are not merged, the last one wins; a metric with repeated data, of one kind or
//! of two, is refused.

mod by_trace;
mod check;
mod common;
mod descriptor;
pub mod json;
mod split;
mod steps;
mod time_range;
mod views;
mod walk;
mod written;

pub use by_trace::{Bucket, split_by_trace};
pub use check::{check_request, outline_derived_request, outline_request, written_bytes};
pub use common::{
    AnyValue, Array, KeyValue, KeyValueList, KeyValues, Repeated, Resource, ResourceGroup, Scope,
    ScopeGroup, is_absent_id, resource_groups,
};
pub use descriptor::path_of;
pub use split::{SplitPart, split_request};
pub use time_range::{TIME_OUT_OF_RANGE, TimeRange, retain_in_range};
pub use views::logs::LogRecord;
pub use views::metrics::{Metric, MetricData, Points};
pub use views::numbers::Numbers;
pub use views::points::{
    Buckets, Exemplar, ExponentialHistogramPoint, HistogramPoint, NumberPoint, Quantile,
    SummaryPoint,
};
pub use views::traces::{Event, Link, Span, Status};
pub use written::{CombinedOutline, Days, ROW_BYTES, RequestOutline, repeated_bytes};
