//! A span that has ended, or a log record: what waits to be sent.

use super::What;
use super::ids::TraceId;

/// Attributes of one span or log record at most.
pub(super) const ATTRIBUTES_MAX: usize = 32;

/// The longest text kept of a value, in bytes; longer ones are cut.
pub(super) const TEXT_BYTES_MAX: usize = 2048;

#[derive(Debug)]
pub(super) enum Item {
    Span(Box<Done>),
    Log(Box<Line>),
}

impl Item {
    pub(super) const fn what(&self) -> What {
        match self {
            Self::Span(_) => What::Span,
            Self::Log(_) => What::Log,
        }
    }
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) place: Place,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    /// As OTLP numbers them.
    pub(super) kind: Kind,
    pub(super) start_unix_nanos: u64,
    pub(super) end_unix_nanos: u64,
    pub(super) failed: bool,
    pub(super) attributes: Vec<Attribute>,
}

/// A line of the log.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) unix_nanos: u64,
    pub(super) severity: tracing::Level,
    pub(super) text: String,
    pub(super) attributes: Vec<Attribute>,
    /// The span in which it was written.
    pub(super) place: Option<Place>,
}

/// A span, as others refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: TraceId,
    pub(super) span: u64,
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// What a span is on its side of a request, as OTLP numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Client = 3,
    Producer = 4,
}

/// A text of bounded length.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}
