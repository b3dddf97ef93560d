//! What appending a request can answer.

use millrace_wire::protobuf::Fault;
use millrace_wire::{Signal, WireError};

/// Most table partitions (days) that one request may touch per table: 100, which is also where the
/// server refuses an insert by default (`max_partitions_per_insert_block`). Real requests touch one
/// or two; without a bound a few megabytes of odd timestamps would become a hundred thousand
/// inserts.
pub const MAX_DAYS: usize = 100;

/// What a request added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Rows added, which is the number of records: each span, log record or metric point is a row.
    pub rows: u64,
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
}

impl AppendError {
    /// A short name from a fixed set, for metric labels and dead-letter headers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(error) => error.kind().as_str(),
            Self::TooManyDays { .. } => "too_many_days",
        }
    }
}

/// An [`AppendError`] on its way up through hot code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Fault(Fault),
    TooManyDays,
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
        }
    }
}

/// Nanoseconds since 1970 as `DateTime64(9)` holds them: signed, ending in April 2262.
pub(crate) fn ticks(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}
