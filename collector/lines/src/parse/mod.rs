//! What a record's text says, as fields of the record.
//!
//! A [`Parse`] holds the rules of a source, compiled once; a [`Parser`] is one reader's. It is
//! given a record's text, which is UTF-8 by then, and finds attributes, encoded for OTLP, and the
//! fields that have a place of their own: body, time, severity. What can't be read changes nothing:
//! the text is the body, as if nobody had looked into it.
//!
//! It can't set an attribute that the receiver writes: see [`Reserved`].

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

/// Values of a record: fields, their members and elements. SDKs stop at 128 attributes; more than
/// 512 are data rather than a log line. Each may take 24 bytes beside its own: 12 KiB on top of a
/// record.
pub const FIELDS_MAX: usize = 512;

/// Objects and arrays inside one another, the line's own object not counted: about half of what
/// requests may have ([`millrace_wire::limits::NESTING_DEPTH`]), far more than logs have.
pub const DEPTH_MAX: usize = 16;

/// The longest name of a field: four times the longest one of OpenTelemetry's conventions. Names
/// are paths of columns, of which each costs some hundred bytes in every block.
pub const NAME_BYTES_MAX: usize = 256;

/// What members of objects may come to in tables beside the record's own bytes, since each level is
/// counted again there ([`millrace_wire::otlp::outline`]): 1 MiB. With it a record of
/// [`crate::RECORD_BYTES_MAX`], replaced throughout, is 13 MiB with its body and attributes, and
/// three of them behind a full request 55 MiB, of the 64 MiB that one request may be.
pub const NESTED_BYTES_MAX: u64 = 1024 * 1024;

/// What a record's text is taken for, and what its fields mean.
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

/// Fields that have a place of their own in a record. Of several fields in a line that are named
/// for one place, the first that fits is taken; the others are attributes.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Names of the field that becomes the body, if it is text. Without one the body is the
    /// record's text as it stands.
    pub body: Vec<String>,
    /// Names of the field with the time.
    pub timestamp: Vec<String>,
    /// How the time is written.
    pub time_format: TimeFormat,
    /// Names of the field with the severity: a word, or a number as pino writes it.
    pub severity: Vec<String>,
}

/// How a field's time is written. Times are from 1970 to 2261; others are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// `2026-11-25T04:00:00.123Z`; also with a space for the `T`, a comma for the point, an offset
    /// without colon, or none (UTC).
    #[default]
    Rfc3339,
    /// A number of seconds since 1970, with up to nine digits behind the point.
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

/// Why a record's text, or a field of it, isn't read as asked. Nothing of it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFault {
    /// The text doesn't have the format, or the pattern isn't found in it.
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
    /// A name that occurs again in its object: one of the two would be lost.
    #[error("repeated_name")]
    RepeatedName,
    /// Members of more than [`NESTED_BYTES_MAX`].
    #[error("too_large")]
    TooLarge,
    /// The field for the time has another format: it is an attribute.
    #[error("timestamp")]
    Timestamp,
    /// The field for the severity has an unknown word: it is the severity's text, without a number,
    /// or an attribute if it is no word.
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

    /// The groups of a regular expression that have names are fields.
    ///
    /// # Errors
    /// It is malformed, larger than a mebibyte when compiled, or no group has a name.
    pub fn regex(pattern: &str, roles: Roles) -> Result<Self, PatternError> {
        let pattern = Arc::new(Pattern::new(pattern)?);
        Ok(Self { format: Format::Regex(pattern), roles })
    }
}

/// The rules of a source, as one reader uses them.
#[derive(Debug)]
pub(crate) struct Parser {
    form: Arc<Form>,
    /// Where the groups of a pattern were found.
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

    /// Reads `text`, which is UTF-8. Attributes are in `buffers` then, and whatever `Found` says.
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
    /// Nanoseconds since 1970. None if it isn't written so, or isn't after 1970 and before 2262.
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
