//! Parses the fields of a record's text.
//!
//! A [`ParseRules`] has a source's rules, compiled once; a [`crate::parser`] belongs to one reader.
//! From a record's text, which is UTF-8 by then, it extracts attributes, encoded for OTLP, and the
//! fields with a role: body, time, severity. If it can't parse the text, the text is the body.
//!
//! It can't set an attribute that the receiver writes ([`ReservedNames`]).

mod json;
mod layout;
mod logfmt;
mod pattern;
mod reserved;
mod severity;
mod sink;

use std::sync::Arc;

use millrace_wire::otlp::TimeRange;

pub use layout::{LayoutError, TimeLayout};
pub(crate) use pattern::Locations;
use pattern::Pattern;
pub(crate) use reserved::ReservedNames;
pub use reserved::TRUNCATED;
use sink::FieldSink;
pub(crate) use sink::{BodyLocation, ParseBuffers, ParsedRecord};

use crate::container::time;
use crate::form::pattern_error::PatternError;

/// The maximum values of a record: fields, their members and elements. SDKs stop at 128 attributes;
/// more than 512 are data, not a log line. With 24 bytes of overhead each, 12 KiB on top of a
/// record.
pub const FIELDS_MAX: usize = 512;

/// The maximum depth of nested objects and arrays, without the line's own object: about half of
/// what requests may have ([`millrace_wire::limits::NESTING_DEPTH`]), far more than logs have.
pub const DEPTH_MAX: usize = 16;

/// The maximum bytes of a field's name: four times the longest of OpenTelemetry's conventions.
/// Names are paths of columns, each of which costs some hundred bytes in every block.
pub const NAME_BYTES_MAX: usize = 256;

/// The maximum bytes that members of objects may add to the record's own bytes in tables, where
/// each level counts again ([`millrace_wire::otlp::outline`]): 1 MiB. With it a record of
/// [`crate::RECORD_BYTES_MAX`], replaced throughout, is 13 MiB with body and attributes, and three
/// of them after a full request 55 MiB, of one request's 64 MiB.
pub const NESTED_BYTES_MAX: u64 = 1024 * 1024;

/// The format of a record's text, and the roles of its fields.
#[derive(Clone, Debug)]
pub struct ParseRules {
    format: TextFormat,
    roles: Roles,
}

#[derive(Clone, Debug)]
enum TextFormat {
    Json,
    Logfmt,
    Regex(Arc<Pattern>),
}

/// The fields that fill a record's body, time and severity. If a line has several for one role, the
/// first valid one is used; the others are attributes.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Names of the field that becomes the body, if it is text. Without one the body is the
    /// complete text.
    pub body: Vec<String>,
    /// Names of the field with the time.
    pub timestamp: Vec<String>,
    /// The format of the time.
    pub time_format: TimestampFormat,
    /// Names of the field with the severity: a word, or a number as pino writes it.
    pub severity: Vec<String>,
}

/// The format of a field's time. Only times from 1970 to 2261 are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimestampFormat {
    /// `2026-11-25T04:00:00.123Z`; also with a space instead of the `T`, a comma instead of the
    /// point, and an offset without colon or absent (UTC).
    #[default]
    Rfc3339,
    /// A number of seconds since 1970, with up to nine decimals.
    UnixSeconds,
    /// A number of milliseconds since 1970, with up to six decimals.
    UnixMillis,
    /// A number of microseconds since 1970, with up to three decimals.
    UnixMicros,
    /// A number of nanoseconds since 1970.
    UnixNanos,
    /// A layout.
    Layout(TimeLayout),
}

/// Why a record's text, or one of its fields, can't be parsed. The text isn't lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFault {
    /// The text has another format, or doesn't match the pattern.
    #[error("malformed")]
    Malformed,
    /// More than [`FIELDS_MAX`] values.
    #[error("too_many_fields")]
    TooManyFields,
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("too_deep")]
    TooDeep,
    /// A name longer than [`NAME_BYTES_MAX`].
    #[error("long_name")]
    LongName,
    /// A name is repeated in one object: one of the two would be lost.
    #[error("repeated_name")]
    RepeatedName,
    /// The members take more than [`NESTED_BYTES_MAX`].
    #[error("too_large")]
    TooLarge,
    /// The time's field has another format, or its time is over 400 days before or two days after
    /// the time of reading: it becomes an attribute.
    #[error("timestamp")]
    Timestamp,
    /// The severity's field is an unknown word: severity text without a number, or an attribute if
    /// it is no word.
    #[error("severity")]
    Severity,
}

impl ParseFault {
    /// All faults, in order.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooManyFields,
        Self::TooDeep,
        Self::LongName,
        Self::RepeatedName,
        Self::TooLarge,
        Self::Timestamp,
        Self::Severity,
    ];
}

impl ParseRules {
    /// Each record is a JSON object; its members are fields.
    #[must_use]
    pub const fn json(roles: Roles) -> Self {
        Self { format: TextFormat::Json, roles }
    }

    /// Each record is `name=value` pairs.
    #[must_use]
    pub const fn logfmt(roles: Roles) -> Self {
        Self { format: TextFormat::Logfmt, roles }
    }

    /// A regular expression's named groups are fields.
    ///
    /// # Errors
    /// If it is malformed, larger than a mebibyte when compiled, or no group is named.
    pub fn regex(pattern: &str, roles: Roles) -> Result<Self, PatternError> {
        let pattern = Arc::new(Pattern::new(pattern)?);
        Ok(Self { format: TextFormat::Regex(pattern), roles })
    }

    /// Returns what each reader of a pattern needs.
    pub(crate) fn new_locations(&self) -> Option<Locations> {
        match &self.format {
            TextFormat::Regex(pattern) => Some(pattern.new_locations()),
            TextFormat::Json | TextFormat::Logfmt => None,
        }
    }

    /// Parses `text`, which is UTF-8. A field's time outside of `times` isn't used. Attributes are
    /// written to `buffers`, everything else to the returned [`ParsedRecord`].
    ///
    /// # Errors
    /// Why the text can't be parsed: the content of `buffers` is then meaningless.
    pub(crate) fn parse_text<'a>(
        &self,
        text: &'a [u8],
        locations: &mut Option<Locations>,
        reserved: &ReservedNames,
        buffers: &mut ParseBuffers,
        times: TimeRange,
    ) -> Result<ParsedRecord<'a>, ParseFault> {
        let mut sink = FieldSink::new(&self.roles, reserved, buffers, times);
        match (&self.format, locations) {
            (TextFormat::Json, _) => json::parse_json(text, &mut sink)?,
            (TextFormat::Logfmt, _) => logfmt::parse_logfmt(text, &mut sink)?,
            (TextFormat::Regex(pattern), Some(locations)) => {
                pattern.parse_text(text, locations, &mut sink)?;
            }
            (TextFormat::Regex(..), None) => return Err(ParseFault::Malformed),
        }
        Ok(sink.into_parsed())
    }
}

impl TimestampFormat {
    /// Returns nanoseconds since 1970, or None if the text has another form or is outside 1970 to
    /// 2261.
    pub(crate) fn read(&self, text: &[u8]) -> Option<u64> {
        let digits = match self {
            Self::Rfc3339 => return time::parse_lenient(text).filter(|nanos| *nanos > 0),
            Self::Layout(layout) => return layout.read(text).filter(|nanos| *nanos > 0),
            Self::UnixSeconds => 9,
            Self::UnixMillis => 6,
            Self::UnixMicros => 3,
            Self::UnixNanos => 0,
        };
        time::parse_number(text, digits).filter(|nanos| *nanos > 0)
    }
}
