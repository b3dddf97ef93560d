//! The faults of a request in JSON and their positions.

use std::fmt;

use crate::signal::Signal;

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The body is not UTF-8.
    #[error("the body is not valid utf-8")]
    Utf8,
    /// The text ends inside a value.
    #[error("the text ends where {0} is expected")]
    Truncated(&'static str),
    /// A different token than expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Data after the request.
    #[error("unexpected text after the request")]
    Trailing,
    /// A control character or an escape that JSON does not know.
    #[error("a string holds a character or an escape that json does not allow")]
    Character,
    /// An invalid number, or one that doesn't fit its field.
    #[error("not {0}")]
    Number(&'static str),
    /// An enum's name that OTLP does not define.
    #[error("{0} has no value with this name")]
    EnumName(&'static str),
    /// An id that isn't hex of the right length.
    #[error("an id must be empty or {0} hex digits")]
    Id(usize),
    /// Invalid base64.
    #[error("bytes must be base64")]
    Base64,
    /// Values nested deeper than the limit.
    #[error("values are nested too deeply")]
    TooDeep,
    /// The request is longer than the limit as protobuf.
    #[error("the request has more than {limit_bytes} bytes as protobuf")]
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

/// A request that is not OTLP in JSON. Sending it again can't help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    signal: Signal,
    kind: JsonErrorKind,
    offset: usize,
    path: String,
}

impl JsonError {
    #[cold]
    pub(super) fn new(signal: Signal, stop: JsonFault) -> Self {
        let JsonFault { kind, offset, mut path } = stop;
        path.reverse();
        Self { signal, kind, offset, path: path.join(".") }
    }

    /// Returns the kind of the fault.
    #[must_use]
    pub fn kind(&self) -> &JsonErrorKind {
        &self.kind
    }

    /// Returns the byte offset in the text, from 0.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the names of the enclosing fields, outermost first, as in protobuf.
    #[must_use]
    pub fn field_path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, kind, offset, path } = self;
        write!(formatter, "malformed otlp {signal} in json: {kind} at byte {offset}")?;
        if path.is_empty() { Ok(()) } else { write!(formatter, " in {path}") }
    }
}

impl std::error::Error for JsonError {}

/// The error that ends reading. Each enclosing field adds its name as the error is returned.
#[derive(Debug)]
pub(super) struct JsonFault {
    kind: JsonErrorKind,
    offset: usize,
    path: Vec<&'static str>,
}

impl JsonFault {
    #[cold]
    pub(super) fn new(offset: usize, kind: JsonErrorKind) -> Box<Self> {
        Box::new(Self { kind, offset, path: Vec::new() })
    }

    /// Returns the error with the enclosing field `name`.
    #[cold]
    pub(super) fn in_field(mut self: Box<Self>, name: &'static str) -> Box<Self> {
        self.path.push(name);
        self
    }
}
