//! The plan of a load: number of records, seed, and shape of requests. Pure arithmetic; the same
//! plan always means the same bytes.

use millrace_wire::Signal;
use serde::{Deserialize, Serialize};

use crate::mix::{Draw, mix_bits, unmix_bits};

/// Maximum records of one plan: the checker's two bitmaps hold them in 250 MB (2 x 10^9 / 8 bytes).
pub const RECORDS_MAX: u64 = 1_000_000_000;

/// Maximum records of one request: lean spans of ~120 B each make some 2.4 MB, well below the usual
/// limit of 4 MiB. The larger shapes reach that limit at 4,000 to 10,000.
pub const RECORDS_PER_REQUEST_MAX: u32 = 20_000;

/// Distance between the times of neighbouring records, in nanoseconds. Time and index map to each
/// other: the checker reads tables in slices of time, and identifies log records and points by it.
pub(crate) const STEP_NANOS: u64 = 1_000;

/// Service names of a run: as many as in a small installation, so that dictionary encoding is
/// realistic.
pub(crate) const SERVICES: u64 = 10;

/// The kind and size of records. Sizes are protobuf with the resource's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoadShape {
    /// Spans of about 120 bytes: one attribute, one event; for comparing rates with published
    /// figures.
    #[default]
    Lean,
    /// Spans of about 660 bytes: six resource and fifteen span attributes of every type, up to
    /// three events and two links with attributes.
    Rich,
    /// Lean spans for an edge with the rules of `rules.json`: sent with another attribute's name,
    /// an address that is redacted, and among spans that are dropped; stored as the rules state.
    Ruled,
    /// Log records of about 300 bytes: four or five attributes, bodies of every type, most of them
    /// text.
    Logs,
    /// Points of all five kinds of metrics, about 200 bytes: seven in twenty gauges, as many sums,
    /// three histograms, two exponential ones, one summary; exemplars on one in eight.
    Metrics,
}

impl LoadShape {
    /// Returns the signal of such records.
    #[must_use]
    pub const fn signal(self) -> Signal {
        match self {
            Self::Lean | Self::Rich | Self::Ruled => Signal::Traces,
            Self::Logs => Signal::Logs,
            Self::Metrics => Signal::Metrics,
        }
    }

    /// Returns whether its resources and scopes are small.
    pub(crate) const fn is_lean(self) -> bool {
        matches!(self, Self::Lean | Self::Ruled)
    }
}

/// A complete load, determined by a few numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadPlan {
    /// The seed of all content.
    pub seed: u64,
    /// Records in total, 1 to [`RECORDS_MAX`].
    pub count: u64,
    /// Records of one resource in a request; also the spans of one trace.
    pub records_per_resource: u32,
    /// Resources in a request.
    pub resources_per_request: u32,
    /// Time of the first record, in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// The shape of each record.
    pub shape: LoadShape,
}

/// Why a plan cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too few or too many records.
    #[error("count is {0}; it must be 1 to {RECORDS_MAX}")]
    Count(u64),
    /// Requests would be empty or too large.
    #[error("a request would hold {0} records; it must hold 1 to {RECORDS_PER_REQUEST_MAX}")]
    Request(u64),
    /// Times are beyond what a row can store.
    #[error("start time {0} is out of range; use nanoseconds since 1970, before the year 2200")]
    Start(u64),
}

/// 2200-01-01, in nanoseconds since 1970: `DateTime64(9)` ends in 2262, and records follow the
/// start.
const START_NANOS_MAX: u64 = 7_258_118_400 * 1_000_000_000;

impl LoadPlan {
    /// Creates a plan of a shape, with ten resources of a hundred records per request.
    #[must_use]
    pub fn new(shape: LoadShape, seed: u64, count: u64, start_unix_nanos: u64) -> Self {
        Self {
            seed,
            count,
            records_per_resource: 100,
            resources_per_request: 10,
            start_unix_nanos,
            shape,
        }
    }

    /// Creates a plan of lean spans, with ten resources of a hundred spans per request.
    #[must_use]
    pub fn lean_spans(seed: u64, count: u64, start_unix_nanos: u64) -> Self {
        Self::new(LoadShape::Lean, seed, count, start_unix_nanos)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first figure out of its range.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.count == 0 || self.count > RECORDS_MAX {
            return Err(PlanError::Count(self.count));
        }
        let each = self.records_per_request();
        if each == 0 || each > u64::from(RECORDS_PER_REQUEST_MAX) {
            return Err(PlanError::Request(each));
        }
        if self.start_unix_nanos > START_NANOS_MAX {
            return Err(PlanError::Start(self.start_unix_nanos));
        }
        Ok(())
    }

    /// Returns the records of a full request.
    #[must_use]
    pub fn records_per_request(&self) -> u64 {
        u64::from(self.records_per_resource) * u64::from(self.resources_per_request)
    }

    /// Returns the number of requests; the last may be short.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.count.div_ceil(self.records_per_request())
    }

    /// Returns the records of a request, by index; empty beyond the last.
    #[must_use]
    pub fn records_of(&self, request: u64) -> std::ops::Range<u64> {
        let each = self.records_per_request();
        let first = request.saturating_mul(each).min(self.count);
        first..first.saturating_add(each).min(self.count)
    }

    /// Returns the prefix of every service name of this run and of no other run: it includes the
    /// start time, so that sending a seed again later is a separate run.
    #[must_use]
    pub fn service_prefix(&self) -> String {
        let run = mix_bits(self.seed ^ mix_bits(self.start_unix_nanos)) >> 32;
        format!("loadgen-{run:08x}-")
    }

    /// Returns the key of one of the independent streams of numbers drawn from the seed. Below 2^63
    /// and above 0, so that a key plus an index is neither 0 nor wraps: no id is all zeros.
    fn stream_key(&self, stream: u64) -> u64 {
        (mix_bits(self.seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))) >> 1) | 1
    }

    pub(crate) fn stream_keys(&self) -> Keys {
        let [span, trace_high, trace_low, noise] =
            [1, 2, 3, 4].map(|stream| self.stream_key(stream));
        Keys { span, trace_high, trace_low, noise }
    }
}

/// Keys of a plan's streams of numbers, drawn once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    span: u64,
    trace_high: u64,
    trace_low: u64,
    noise: u64,
}

impl Keys {
    /// Returns the id of a span.
    #[inline]
    pub(crate) fn span_id(&self, index: u64) -> u64 {
        mix_bits(self.span + index)
    }

    /// Returns the index of any span id, even outside the plan.
    #[inline]
    pub(crate) fn index_of(&self, span_id: u64) -> u64 {
        unmix_bits(span_id).wrapping_sub(self.span)
    }

    /// Returns the id of a trace.
    #[inline]
    pub(crate) fn trace_id(&self, trace: u64) -> u128 {
        let high = u128::from(mix_bits(self.trace_high + trace));
        (high << 64) | u128::from(mix_bits(self.trace_low + trace))
    }

    /// Returns 64 bits from which a record's variable fields are drawn.
    #[inline]
    pub(crate) fn record_draw(&self, index: u64) -> Draw {
        Draw(mix_bits(self.noise + index))
    }
}

#[cfg(test)]
mod tests;
