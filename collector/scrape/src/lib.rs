//! Prometheus' formats (text 0.0.4, OpenMetrics 1.0, protobuf) as OTLP metrics.
//!
//! A [`Scrape`] takes a body in pieces of any size and writes `ExportMetricsServiceRequest`s,
//! without a message tree, and of text without an allocation per sample. What a target's last
//! scrape had is kept in a [`Memory`]. It has no clock and does no I/O.
//!
//! # Rules
//! - The conversion follows OpenTelemetry's "Prometheus and OpenMetrics compatibility". Metric
//!   names are kept as they are.
//! - A body is taken whole or not at all, as long as it fits into one request ([`REQUEST_BYTES`]).
//!   Of a longer body that breaks, what was written before stays, and its series are marked as gone
//!   a millisecond later.
//! - What is left out is counted ([`Counts::dropped`]): duplicates, histograms and summaries that
//!   aren't whole, gauge histograms, times that OTLP can't have.
//!
//! # Memory
//! A line has at most [`LINE_BYTES_MAX`], a metric of protobuf [`METRIC_BYTES_MAX`]; open
//! histograms and summaries of a family at most [`GROUPS_BYTES_MAX`]; a request is full at
//! [`REQUEST_BYTES`]. For each series a [`Memory`] keeps 24 bytes, of a gauge 8, and its text, less
//! what it shares with those before: see [`Memory::bytes`].

mod convert;
/// Times as Prometheus writes them.
pub mod duration;
mod encode;
mod expected;
mod family;
mod group;
mod limits;
mod line;
mod memory;
mod names;
mod native;
mod number;
mod pass;
mod protobuf;
/// Relabeling, as Prometheus does it.
pub mod relabel;
mod resolve;
mod schedule;
mod scrape;
mod series;
mod target;
mod whole;
mod write;

pub use limits::{
    DENSE_BUCKETS_MAX, DESCRIPTION_BYTES_MAX, Fault, FaultKind, GROUPS_BYTES_MAX, GROUPS_MAX,
    LABELS_MAX, LINE_BYTES_MAX, Limits, METRIC_BYTES_MAX, Part, REQUEST_BYTES,
    TARGET_INFO_BYTES_MAX,
};
pub use line::Format;
pub use memory::Memory;
pub use resolve::{Defaults, Resolved, Scheme, TargetError, TargetFault, resolve};
pub use schedule::Schedule;
pub use scrape::{Buffers, Counts, Report, Scrape};
pub use target::Target;
pub use write::Request;
