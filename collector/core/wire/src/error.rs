//! The faults of a request's bytes and their positions.

use std::fmt;

use crate::signal::Signal;

/// A fault in the bytes of a message, small because hot code copies it freely. Its position is an
/// address inside the buffer; [`WireError`] converts it into an offset and a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireFault {
    pub(crate) kind: WireErrorKind,
    /// The address of the byte where reading stopped. Only subtracted from, never dereferenced.
    pub(crate) address: usize,
}

impl WireFault {
    /// Returns the fault `kind` at the start of `rest`.
    #[cold]
    pub(crate) fn new(kind: WireErrorKind, rest: &[u8]) -> Self {
        Self { kind, address: rest.as_ptr().addr() }
    }

    /// Returns the kind of the fault.
    #[must_use]
    pub fn kind(&self) -> WireErrorKind {
        self.kind
    }
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WireErrorKind {
    /// The bytes end inside a field.
    #[error("the message ends inside a field")]
    Truncated,
    /// A variable-length integer of more than ten bytes or 64 bits.
    #[error("a variable-length integer is over-long")]
    OverlongVarint,
    /// Field number 0, a number over 2^29 - 1, or an unknown wire type.
    #[error("a field tag is not valid")]
    InvalidTag,
    /// A group (wire types 3 and 4): never part of OTLP, so it is refused without a search for its
    /// end.
    #[error("a group is not allowed")]
    Group,
    /// A known field with a wire type other than OTLP's.
    #[error("a field has the wrong wire type")]
    WireType,
    /// A string field that isn't UTF-8.
    #[error("a string is not valid utf-8")]
    Utf8,
    /// A trace id that has neither 0 nor 16 bytes, or a span id that has neither 0 nor 8.
    #[error("an id has the wrong length")]
    IdLength,
    /// A packed array whose length is no multiple of its items' width.
    #[error("a packed array's length is not a multiple of its item size")]
    PackedLength,
    /// A metric with points of two kinds, or one kind repeated: readers would disagree on which
    /// count.
    #[error("a metric has more than one kind of data")]
    DataTwice,
    /// Values nested deeper than the limit.
    #[error("values are nested too deeply")]
    TooDeep,
    /// More attributes on one record, scope or resource than the limit.
    #[error("too many attributes in one set")]
    TooManyAttributes,
    /// Records on more days than the limit.
    #[error(
        "records span more than {} days; send records of fewer days in one request",
        crate::limits::DAYS
    )]
    TooManyDays,
    /// The records' written size exceeds the limit.
    #[error(
        "the values that records share (resource, scope, metric) are too long, as they are stored \
         with each record; send fewer records in one request, or shorter shared values"
    )]
    TooMuchWritten,
    /// The complete message is longer than the limit.
    #[error("the message is too long")]
    TooLong,
}

impl WireErrorKind {
    /// Returns a short name for metric labels and dead-letter headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::OverlongVarint => "overlong_varint",
            Self::InvalidTag => "invalid_tag",
            Self::Group => "group",
            Self::WireType => "wire_type",
            Self::Utf8 => "utf8",
            Self::IdLength => "id_length",
            Self::PackedLength => "packed_length",
            Self::DataTwice => "data_twice",
            Self::TooDeep => "too_deep",
            Self::TooManyAttributes => "too_many_attributes",
            Self::TooManyDays => "too_many_days",
            Self::TooMuchWritten => "too_much_written",
            Self::TooLong => "too_long",
        }
    }
}

/// A request that is not well-formed OTLP: the fault and its position. Sending it again can't help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    signal: Signal,
    kind: WireErrorKind,
    offset: usize,
    path: String,
}

impl WireError {
    /// Locates `fault` inside `request`: its byte offset and its field.
    #[cold]
    #[must_use]
    pub fn from_fault(signal: Signal, request: &[u8], fault: WireFault) -> Self {
        let offset = fault.address.saturating_sub(request.as_ptr().addr()).min(request.len());
        let path = crate::otlp::path_of(signal, request, offset);
        Self { signal, kind: fault.kind, offset, path }
    }

    /// Returns the signal as which the bytes were read.
    #[must_use]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Returns the kind of the fault.
    #[must_use]
    pub fn kind(&self) -> WireErrorKind {
        self.kind
    }

    /// Returns the byte offset in the request, from 0.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the names of the enclosing fields, outermost first, such as
    /// `resource_spans.scope_spans.spans.name`. Empty at the top of the request.
    #[must_use]
    pub fn field_path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "malformed otlp {}: {} at byte {}", self.signal, self.kind, self.offset)?;
        if self.path.is_empty() { Ok(()) } else { write!(formatter, " in {}", self.path) }
    }
}

impl std::error::Error for WireError {}
