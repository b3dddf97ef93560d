//! OTLP export requests (`Export{Trace,Logs,Metrics}ServiceRequest`) as bytes.
//!
//! Requests of one signal **concatenate**: a request holds nothing but one repeated field, so the
//! bytes of two requests one after the other are one request with the records of both. The edge
//! batches by appending bytes, and never re-encodes.
//!
//! Views follow protobuf's rules: unknown fields are passed over, a scalar that occurs twice counts
//! as last written, a sub-message that occurs twice is merged. Two exceptions, which no encoder
//! produces: an attribute's value that occurs twice is not merged, the last one wins; a metric with
//! data twice, of one kind or of two, is refused.

mod by_trace;
mod check;
mod common;
mod descriptor;
pub mod json;
mod logs;
mod metrics;
mod numbers;
mod points;
mod split;
mod traces;
mod walk;
mod written;

pub use by_trace::{Bucket, split_by_trace};
pub use check::{check, outline, written_bytes};
pub use common::{
    AnyValue, Array, KeyValue, KeyValueList, KeyValues, Repeated, Resource, ResourceGroup, Scope,
    ScopeGroup, is_absent_id, resource_groups,
};
pub use descriptor::path_of;
pub use logs::LogRecord;
pub use metrics::{Metric, MetricData, Points};
pub use numbers::Numbers;
pub use points::{
    Buckets, Exemplar, ExponentialHistogramPoint, HistogramPoint, NumberPoint, Quantile,
    SummaryPoint,
};
pub use split::{Part, split};
pub use traces::{Event, Link, Span, Status};
pub use written::{Checked, Days, Joined, ROW_BYTES, repeated_bytes};
