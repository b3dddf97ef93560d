//! What can be wrong with a request's bytes, and where.

use std::fmt;

use crate::signal::Signal;

/// A fault in the bytes of a message: small and copied freely, because it travels through hot code.
/// Its place is an address inside the buffer; [`WireError`] turns it into an offset and a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) kind: WireErrorKind,
    /// Address of the byte where reading stopped. Never read through, only subtracted from.
    pub(crate) address: usize,
}

impl Fault {
    /// The fault `kind` at the start of `rest`.
    #[cold]
    pub(crate) fn at(kind: WireErrorKind, rest: &[u8]) -> Self {
        Self { kind, address: rest.as_ptr().addr() }
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> WireErrorKind {
        self.kind
    }
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WireErrorKind {
    /// The bytes end inside a field.
    #[error("the message ends inside a field")]
    Truncated,
    /// A variable-length integer of more than ten bytes or 64 bits.
    #[error("a variable-length integer is over-long")]
    OverlongVarint,
    /// Field number 0, a number over 2^29 - 1, or a wire type that doesn't exist.
    #[error("a field tag is not valid")]
    InvalidTag,
    /// A group (wire types 3 and 4): never part of OTLP, refused rather than searched for its end.
    #[error("a group is not allowed")]
    Group,
    /// A known field with another wire type than OTLP gives it.
    #[error("a field has the wrong wire type")]
    WireType,
    /// A string field that isn't UTF-8.
    #[error("a string is not valid utf-8")]
    Utf8,
    /// A trace id that has neither 0 nor 16 bytes, or a span id that has neither 0 nor 8.
    #[error("an id has the wrong length")]
    IdLength,
    /// A packed array whose length is no multiple of its items' width.
    #[error("a packed array's length is no multiple of its item's")]
    PackedLength,
    /// A metric with points of two kinds, or twice of one: which of them count, readers would not
    /// agree on.
    #[error("a metric has data twice")]
    DataTwice,
    /// Values nested deeper than the limit.
    #[error("values are nested too deeply")]
    TooDeep,
    /// More attributes on one record, scope or resource than the limit.
    #[error("too many attributes in one set")]
    TooManyAttributes,
    /// Records on more days than the limit.
    #[error(
        "records lie on more than {} days; send records of fewer days in one request",
        crate::limits::DAYS
    )]
    TooManyDays,
    /// The records would be written as more bytes than the limit.
    #[error(
        "what records share (resource, scope, metric) is too long for their number, as it is \
         written with each; send fewer records in one request, or shorter shared values"
    )]
    TooMuchWritten,
    /// The whole message is longer than the limit.
    #[error("the message is too long")]
    TooLong,
}

impl WireErrorKind {
    /// A short name for metric labels and dead-letter headers.
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

/// A request that is not well-formed OTLP: what is wrong and where. Sending it again can't help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    signal: Signal,
    kind: WireErrorKind,
    offset: usize,
    path: String,
}

impl WireError {
    /// Places `fault` inside `request`: its byte offset, and its field.
    #[cold]
    #[must_use]
    pub fn locate(signal: Signal, request: &[u8], fault: Fault) -> Self {
        let offset = fault.address.saturating_sub(request.as_ptr().addr()).min(request.len());
        let path = crate::otlp::path_of(signal, request, offset);
        Self { signal, kind: fault.kind, offset, path }
    }

    /// The signal the bytes were read as.
    #[must_use]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> WireErrorKind {
        self.kind
    }

    /// Byte offset in the request, from 0.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Names of the fields around the place, outermost first, such as
    /// `resource_spans.scope_spans.spans.name`. Empty at the top of the request.
    #[must_use]
    pub fn path(&self) -> &str {
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
