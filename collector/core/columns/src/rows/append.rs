//! The results of appending a request.

use millrace_wire::limits::WRITTEN_BYTES;
use millrace_wire::otlp::{TIME_OUT_OF_RANGE, TimeRange};
use millrace_wire::protobuf::WireFault;
use millrace_wire::{Signal, WireError, WireErrorKind};

/// The maximum number of table partitions (days) that one request may touch per table. The edge
/// counts them for all tables together, so it refuses everything that is refused here.
pub const MAX_DAYS: usize = millrace_wire::limits::DAYS;

/// The rows that a request added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendSummary {
    /// The number of rows, which is the number of records: each span, log record or metric point is
    /// a row.
    pub rows: u64,
}

/// The accepted part of a request, by resource groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAppendSummary {
    /// The added rows.
    pub appended: AppendSummary,
    /// The refused resource groups, as a request of their own, and the first one's error.
    pub refused: Option<(AppendError, Vec<u8>)>,
}

/// Why a request was refused. Sending the same bytes again can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The bytes are not OTLP.
    #[error(transparent)]
    Malformed(#[from] WireError),
    /// Its records have too many days.
    #[error(
        "otlp {signal} request has records on more than {MAX_DAYS} days; send records of fewer \
         days in one request"
    )]
    TooManyDays {
        /// The request's signal.
        signal: Signal,
    },
    /// Its records have too many bytes of written size.
    #[error(
        "otlp {signal} request: what its records share (resource, scope, metric) is too long for \
         their number, as it is written with each; send fewer records in one request, or shorter \
         shared values"
    )]
    TooMuchWritten {
        /// The request's signal.
        signal: Signal,
    },
    /// The time of one of its records is not accepted.
    #[error(
        "otlp {signal} request has a record whose time is too far before or after the time of its \
         message; correct the sender's clock, or accept such times in receivers.kafka.recordTimes"
    )]
    TimeOutOfRange {
        /// The request's signal.
        signal: Signal,
    },
}

impl AppendError {
    /// Returns a short name from a fixed set, for metric labels and dead-letter headers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(error) => error.kind().as_str(),
            Self::TooManyDays { .. } => WireErrorKind::TooManyDays.as_str(),
            Self::TooMuchWritten { .. } => WireErrorKind::TooMuchWritten.as_str(),
            Self::TimeOutOfRange { .. } => TIME_OUT_OF_RANGE,
        }
    }
}

/// An [`AppendError`] that passes through hot code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AppendRefusal {
    Fault(WireFault),
    TooManyDays,
    TooMuchWritten,
    TimeOutOfRange,
}

impl From<WireFault> for AppendRefusal {
    fn from(fault: WireFault) -> Self {
        Self::Fault(fault)
    }
}

impl AppendRefusal {
    pub(crate) fn into_append_error(self, signal: Signal, request: &[u8]) -> AppendError {
        match self {
            Self::Fault(fault) => WireError::from_fault(signal, request, fault).into(),
            Self::TooManyDays => AppendError::TooManyDays { signal },
            Self::TooMuchWritten => AppendError::TooMuchWritten { signal },
            Self::TimeOutOfRange => AppendError::TimeOutOfRange { signal },
        }
    }
}

/// The limits on the rows of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowBounds {
    times: TimeRange,
    /// The rows' written size so far (`millrace_wire`).
    written_bytes: u64,
}

impl RowBounds {
    pub(crate) fn new(times: TimeRange) -> Self {
        Self { times, written_bytes: 0 }
    }

    /// Checks a row's time, before the row can open a partition.
    #[inline]
    pub(crate) fn check_time(&self, ticks: i64) -> Result<(), AppendRefusal> {
        // Ticks are never negative.
        if self.times.contains(ticks as u64) { Ok(()) } else { Err(AppendRefusal::TimeOutOfRange) }
    }

    #[inline]
    pub(crate) fn count_row(&mut self, written_bytes: u64) -> Result<(), AppendRefusal> {
        self.written_bytes += written_bytes;
        if self.written_bytes > WRITTEN_BYTES { Err(AppendRefusal::TooMuchWritten) } else { Ok(()) }
    }
}

/// Converts nanoseconds since 1970 to `DateTime64(9)`: signed, ending in April 2262.
pub(crate) fn ticks(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}
