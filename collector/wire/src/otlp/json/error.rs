//! What can be wrong with a request in JSON, and where.

use std::fmt;

use crate::signal::Signal;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The body is not UTF-8.
    #[error("the body is not valid utf-8")]
    Utf8,
    /// The text ends inside a value.
    #[error("the text ends where {0} should be")]
    Truncated(&'static str),
    /// Something else is where this should be.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Something follows the request.
    #[error("there is more after the request")]
    Trailing,
    /// A control character or an escape that JSON does not know.
    #[error("a string holds a character or an escape that json does not allow")]
    Character,
    /// A number that isn't one, or doesn't fit its field.
    #[error("not {0}")]
    Number(&'static str),
    /// An enum's name that OTLP does not define.
    #[error("no value of {0} has this name")]
    EnumName(&'static str),
    /// An id that isn't hex of the right length.
    #[error("an id must be empty or {0} hex digits")]
    Id(usize),
    /// Bytes that aren't base64.
    #[error("bytes must be base64")]
    Base64,
    /// Values nested deeper than the limit.
    #[error("values are nested too deeply")]
    TooDeep,
    /// The request is longer than the limit once it is protobuf.
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
    pub(super) fn new(signal: Signal, stop: Stop) -> Self {
        let Stop { kind, offset, mut path } = stop;
        path.reverse();
        Self { signal, kind, offset, path: path.join(".") }
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &JsonErrorKind {
        &self.kind
    }

    /// Byte offset in the text, from 0.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Names of the fields around the place, outermost first, as in protobuf.
    #[must_use]
    pub fn path(&self) -> &str {
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

/// The end of reading, on its way up; the names of the fields around it are added on the way.
#[derive(Debug)]
pub(super) struct Stop {
    kind: JsonErrorKind,
    offset: usize,
    path: Vec<&'static str>,
}

impl Stop {
    #[cold]
    pub(super) fn at(offset: usize, kind: JsonErrorKind) -> Box<Self> {
        Box::new(Self { kind, offset, path: Vec::new() })
    }

    /// The same, seen from around field `name`.
    #[cold]
    pub(super) fn inside(mut self: Box<Self>, name: &'static str) -> Box<Self> {
        self.path.push(name);
        self
    }
}
