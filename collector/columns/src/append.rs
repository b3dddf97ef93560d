//! What appending a request can answer.

use millrace_wire::limits::WRITTEN_BYTES;
use millrace_wire::protobuf::Fault;
use millrace_wire::{Signal, WireError, WireErrorKind};

/// Most table partitions (days) that one request may touch per table. The edge counts them for all
/// tables together, so it refuses all that is refused here.
pub const MAX_DAYS: usize = millrace_wire::limits::DAYS;

/// What a request added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Rows added, which is the number of records: each span, log record or metric point is a row.
    pub rows: u64,
}

/// What was taken of a request, resource by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedGroups {
    /// What was added.
    pub appended: Appended,
    /// The resource groups that were left out, as a request of their own, and why the first was.
    pub refused: Option<(AppendError, Vec<u8>)>,
}

/// Why a request was left out. Sending the same bytes again can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The bytes are not OTLP.
    #[error(transparent)]
    Malformed(#[from] WireError),
    /// Its records lie on too many days.
    #[error(
        "otlp {signal} request has records on more than {MAX_DAYS} days; send records of fewer \
         days in one request"
    )]
    TooManyDays {
        /// The request's signal.
        signal: Signal,
    },
    /// Its records would be written as too many bytes.
    #[error(
        "otlp {signal} request: what its records share (resource, scope, metric) is too long for \
         their number, as it is written with each; send fewer records in one request, or shorter \
         shared values"
    )]
    TooMuchWritten {
        /// The request's signal.
        signal: Signal,
    },
}

impl AppendError {
    /// A short name from a fixed set, for metric labels and dead-letter headers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(error) => error.kind().as_str(),
            Self::TooManyDays { .. } => WireErrorKind::TooManyDays.as_str(),
            Self::TooMuchWritten { .. } => WireErrorKind::TooMuchWritten.as_str(),
        }
    }
}

/// An [`AppendError`] on its way up through hot code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Fault(Fault),
    TooManyDays,
    TooMuchWritten,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Refusal {
    pub(crate) fn locate(self, signal: Signal, request: &[u8]) -> AppendError {
        match self {
            Self::Fault(fault) => WireError::locate(signal, request, fault).into(),
            Self::TooManyDays => AppendError::TooManyDays { signal },
            Self::TooMuchWritten => AppendError::TooMuchWritten { signal },
        }
    }
}

/// What the rows of one request are written as so far, by the measure of `millrace_wire`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    bytes: u64,
}

impl Written {
    /// Counts a row.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes += bytes;
        if self.bytes > WRITTEN_BYTES { Err(Refusal::TooMuchWritten) } else { Ok(()) }
    }
}

/// Nanoseconds since 1970 as `DateTime64(9)` holds them: signed, ending in April 2262.
pub(crate) fn ticks(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}
