//! Converts Prometheus' formats (text 0.0.4, OpenMetrics 1.0, protobuf) to OTLP metrics.
//!
//! A [`Scrape`] reads a body in pieces of any size and writes `ExportMetricsServiceRequest`s,
//! without a message tree, and for text without an allocation per sample. A [`SeriesMemory`] stores
//! the series of a target's last scrape. The crate has no clock and does no I/O.
//!
//! # Rules
//! - The conversion follows OpenTelemetry's "Prometheus and OpenMetrics compatibility". Metric
//!   names are unchanged.
//! - A body that fits into one request ([`REQUEST_BYTES`]) is accepted completely or not at all. If
//!   a longer one is malformed, the points written before remain, and their series are marked as
//!   stale a millisecond later.
//! - Skipped samples are counted ([`SampleCounts::dropped`]): duplicates, incomplete histograms and
//!   summaries, gauge histograms, times that OTLP can't represent or that are over 10 minutes ahead
//!   or 30 days old.
//!
//! # Memory
//! A line has at most [`LINE_BYTES_MAX`], a metric of protobuf [`METRIC_BYTES_MAX`]; open
//! histograms and summaries of a family at most [`GROUPS_BYTES_MAX`]; a request is full at
//! [`REQUEST_BYTES`]. For each series a [`SeriesMemory`] stores 24 bytes, for a gauge 8, and its
//! text without what it shares with those before: see [`SeriesMemory::held_bytes`].

mod complete_metrics;
mod convert;
/// Durations as Prometheus writes them.
pub mod duration;
mod encode;
mod expected;
mod family;
mod group;
mod hash;
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
mod series_kind;
mod target;
mod write;

pub use limits::{
    BodyFault, BodyLimits, BodyPart, DENSE_BUCKETS_MAX, DESCRIPTION_BYTES_MAX, FaultKind,
    GROUPS_BYTES_MAX, GROUPS_MAX, LABELS_MAX, LINE_BYTES_MAX, METRIC_BYTES_MAX, REQUEST_BYTES,
    TARGET_INFO_BYTES_MAX,
};
pub use line::BodyFormat;
pub use memory::SeriesMemory;
pub use resolve::{Defaults, ResolvedTarget, Scheme, TargetError, TargetFault, resolve_target};
pub use schedule::Schedule;
pub use scrape::{SampleCounts, Scrape, ScrapeBuffers, ScrapeReport};
pub use target::TargetAttributes;
pub use write::MetricsRequest;
