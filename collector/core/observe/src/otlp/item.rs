//! An ended span or a log record that waits to be sent.

use super::ItemKind;
use super::ids::TraceId;

/// The most attributes of one span or log record.
pub(super) const ATTRIBUTES_MAX: usize = 32;

/// The longest text stored of a value, in bytes; longer ones are cut.
pub(super) const TEXT_BYTES_MAX: usize = 2048;

#[derive(Debug)]
pub(super) enum Item {
    Span(Box<EndedSpan>),
    Log(Box<LogLine>),
}

impl Item {
    pub(super) const fn kind(&self) -> ItemKind {
        match self {
            Self::Span(_) => ItemKind::Span,
            Self::Log(_) => ItemKind::Log,
        }
    }
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct EndedSpan {
    pub(super) context: SpanContext,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    /// By OTLP's number.
    pub(super) kind: SpanKind,
    pub(super) start_unix_nanos: u64,
    pub(super) end_unix_nanos: u64,
    pub(super) failed: bool,
    pub(super) attributes: Vec<Attribute>,
}

/// A log line.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) unix_nanos: u64,
    pub(super) severity: tracing::Level,
    pub(super) text: String,
    pub(super) attributes: Vec<Attribute>,
    /// The enclosing span.
    pub(super) context: Option<SpanContext>,
}

/// The ids by which other items refer to a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace: TraceId,
    pub(super) span: u64,
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) value: ItemValue,
}

#[derive(Debug)]
pub(super) enum ItemValue {
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// A span's kind, by OTLP's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal = 1,
    Client = 3,
    Producer = 4,
}

/// Cuts a text to the maximum length.
pub(super) fn truncate_text(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}
