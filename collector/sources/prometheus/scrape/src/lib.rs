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

/// Durations as Prometheus writes them.
pub mod duration;
mod limits;
mod memory;
mod otlp;
mod parse;
/// Relabeling, as Prometheus does it.
pub mod relabel;
mod sample_counts;
mod scrape;
mod series_kind;
mod targets;

pub use limits::{
    BodyFault, BodyLimits, BodyPart, DENSE_BUCKETS_MAX, DESCRIPTION_BYTES_MAX, FaultKind,
    GROUPS_BYTES_MAX, GROUPS_MAX, LABELS_MAX, LINE_BYTES_MAX, METRIC_BYTES_MAX, REQUEST_BYTES,
    TARGET_INFO_BYTES_MAX,
};
pub use memory::SeriesMemory;
pub use otlp::write::MetricsRequest;
pub use parse::line::BodyFormat;
pub use sample_counts::SampleCounts;
pub use scrape::{Scrape, ScrapeBuffers, ScrapeReport};
pub use targets::resolve::{
    Defaults, ResolvedTarget, Scheme, TargetError, TargetFault, resolve_target,
};
pub use targets::schedule::Schedule;
pub use targets::target::TargetAttributes;
