//! The fields of a record's text.
//!
//! A [`Parse`] has a source's rules, compiled once; a [`Parser`] belongs to one reader. From a
//! record's text, by then UTF-8, it gets attributes, encoded for OTLP, and the fields with a place
//! of their own: body, time, severity. If it can't read the text, the text is the body.
//!
//! It can't set an attribute that the receiver writes ([`Reserved`]).

mod json;
mod layout;
mod logfmt;
mod pattern;
mod reserved;
mod severity;
mod sink;

use std::sync::Arc;

pub use layout::{Layout, LayoutError};
use pattern::{Locations, Pattern};
pub(crate) use reserved::Reserved;
use sink::Sink;
pub(crate) use sink::{Body, Buffers, Found};

use crate::form::{Form, PatternError};
use crate::time;

/// The most values of a record: fields, their members and elements. SDKs stop at 128 attributes;
/// more than 512 are data, not a log line. At 24 bytes beside their own, 12 KiB on top of a record.
pub const FIELDS_MAX: usize = 512;

/// Nested objects and arrays, without the line's own object: about half of what requests may have
/// ([`millrace_wire::limits::NESTING_DEPTH`]), far more than logs have.
pub const DEPTH_MAX: usize = 16;

/// The longest name of a field: four times the longest of OpenTelemetry's conventions. Names are
/// paths of columns, each of which costs some hundred bytes in every block.
pub const NAME_BYTES_MAX: usize = 256;

/// What members of objects may add in tables to the record's own bytes, since each level counts
/// again there ([`millrace_wire::otlp::outline`]): 1 MiB. With it a record of
/// [`crate::RECORD_BYTES_MAX`], replaced throughout, is 13 MiB with body and attributes, and three
/// of them behind a full request 55 MiB, of one request's 64 MiB.
pub const NESTED_BYTES_MAX: u64 = 1024 * 1024;

/// The format of a record's text, and what its fields mean.
#[derive(Clone, Debug)]
pub struct Parse {
    format: Format,
    roles: Roles,
}

#[derive(Clone, Debug)]
enum Format {
    Json,
    Logfmt,
    Regex(Arc<Pattern>),
}

/// Fields with a place of their own in a record. Of several in a line for one place, the first that
/// fits takes it; the others are attributes.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Names of the field that becomes the body, if it is text. Without one the body is the whole
    /// text.
    pub body: Vec<String>,
    /// Names of the field with the time.
    pub timestamp: Vec<String>,
    /// How the time is written.
    pub time_format: TimeFormat,
    /// Names of the field with the severity: a word, or a number as pino writes it.
    pub severity: Vec<String>,
}

/// How a field's time is written. Only times from 1970 to 2261 are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// `2026-11-25T04:00:00.123Z`; also with a space for the `T`, a comma for the point, and an
    /// offset without colon or absent (UTC).
    #[default]
    Rfc3339,
    /// A number of seconds since 1970, with up to nine decimals.
    UnixSeconds,
    /// A number of milliseconds, with up to six.
    UnixMillis,
    /// A number of microseconds, with up to three.
    UnixMicros,
    /// A number of nanoseconds.
    UnixNanos,
    /// By a layout.
    Layout(Layout),
}

/// Why a record's text, or a field of it, can't be read. Nothing of it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFault {
    /// The text has another format, or no match of the pattern.
    #[error("malformed")]
    Malformed,
    /// More than [`FIELDS_MAX`] values.
    #[error("too_many_fields")]
    TooManyFields,
    /// Deeper than [`DEPTH_MAX`].
    #[error("too_deep")]
    TooDeep,
    /// A name longer than [`NAME_BYTES_MAX`].
    #[error("long_name")]
    LongName,
    /// A name twice in one object: one of the two would be lost.
    #[error("repeated_name")]
    RepeatedName,
    /// Members of more than [`NESTED_BYTES_MAX`].
    #[error("too_large")]
    TooLarge,
    /// The time's field has another format: it is an attribute.
    #[error("timestamp")]
    Timestamp,
    /// The severity's field is an unknown word: severity text without a number, or an attribute if
    /// it is no word.
    #[error("severity")]
    Severity,
}

impl ParseFault {
    /// All of them, in order.
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

impl Parse {
    /// Each record is an object of JSON; its members are fields.
    #[must_use]
    pub const fn json(roles: Roles) -> Self {
        Self { format: Format::Json, roles }
    }

    /// Each record is `name=value` pairs.
    #[must_use]
    pub const fn logfmt(roles: Roles) -> Self {
        Self { format: Format::Logfmt, roles }
    }

    /// A regular expression's named groups are fields.
    ///
    /// # Errors
    /// It is malformed, larger than a mebibyte when compiled, or no group has a name.
    pub fn regex(pattern: &str, roles: Roles) -> Result<Self, PatternError> {
        let pattern = Arc::new(Pattern::new(pattern)?);
        Ok(Self { format: Format::Regex(pattern), roles })
    }
}

/// A source's rules, as one reader uses them.
#[derive(Debug)]
pub(crate) struct Parser {
    form: Arc<Form>,
    /// Where a pattern's groups were found.
    locations: Option<Locations>,
}

impl Parser {
    /// None if nothing is to be parsed.
    pub(crate) fn new(form: &Arc<Form>) -> Option<Self> {
        let locations = match &form.parse.as_ref()?.format {
            Format::Regex(pattern) => Some(pattern.locations()),
            Format::Json | Format::Logfmt => None,
        };
        Some(Self { form: Arc::clone(form), locations })
    }

    /// Reads `text`, which is UTF-8. Attributes are in `buffers` then, all else in `Found`.
    ///
    /// # Errors
    /// Why it can't be read: `buffers` have nothing of use.
    pub(crate) fn parse<'a>(
        &mut self,
        text: &'a [u8],
        reserved: &Reserved,
        buffers: &mut Buffers,
    ) -> Result<Found<'a>, ParseFault> {
        let Some(Parse { format, roles }) = &self.form.parse else {
            return Err(ParseFault::Malformed);
        };
        let mut sink = Sink::new(roles, reserved, buffers);
        match (format, &mut self.locations) {
            (Format::Json, _) => json::parse(text, &mut sink)?,
            (Format::Logfmt, _) => logfmt::parse(text, &mut sink)?,
            (Format::Regex(pattern), Some(locations)) => {
                pattern.parse(text, locations, &mut sink)?;
            }
            (Format::Regex(..), None) => return Err(ParseFault::Malformed),
        }
        Ok(sink.found())
    }
}

impl TimeFormat {
    /// Nanoseconds since 1970. None if it has another form, or lies outside 1970 to 2261.
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
