//! How a file's bytes become records.

use regex::bytes::{Regex, RegexBuilder};

use crate::encoding::Encoding;
use crate::parse::{FIELDS_MAX, Parse};
use crate::traces::Traces;

/// The longest record that can be set: 2 MiB, twice what brokers take in a message. Three of them
/// (both streams and the last line), each replaced by U+FFFD and written twice (as body and
/// attributes), are 36 MiB on top of a full request: within the 64 MiB of one request.
pub const RECORD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The shortest limit: one character, so that no cut leaves nothing.
const RECORD_BYTES_MIN: usize = 4;

/// How much longer a container's line may be than its text. CRI's heads take about 50 bytes, the
/// other members of Docker's lines about 80. A buffer of the longest record, this and two bytes
/// always suffices.
pub const LINE_OVERHEAD_BYTES: usize = 256;

/// A compiled pattern's memory: 1 MiB, a tenth of the library's limit. Patterns of log lines take
/// some KiB.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// The same of a pattern that isn't the settings': 128 KiB, and as much for each of its tables
/// while it is used. `^\d{4}-\d{2}-\d{2}` takes some 20 KiB.
pub const FOREIGN_PATTERN_BYTES_MAX: usize = 128 * 1024;

/// How a file's bytes become records.
#[derive(Clone, Debug)]
pub struct Form {
    /// The container runtime's frame around each line.
    pub container: Container,
    /// The encoding of a file without a container's format.
    pub encoding: Encoding,
    /// Which lines are one record. Absent: each is.
    pub multiline: Option<Multiline>,
    /// Which fields a record's text has. Absent: it is the body alone.
    pub parse: Option<Parse>,
    /// The longest record's text, at most [`RECORD_BYTES_MAX`].
    pub max_record_bytes: usize,
}

/// The container runtime's frame around each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// None.
    None,
    /// containerd and CRI-O: `TIME STREAM P|F TEXT`.
    Cri,
    /// Docker's json-file: `{"log":TEXT,"stream":STREAM,"time":TIME}`.
    DockerJson,
    /// Either, by line, so that reading may begin anywhere: `DockerJson` begins with `{`, `Cri`
    /// never does.
    Detect,
}

/// Which lines are one record.
#[derive(Clone, Debug)]
pub enum Multiline {
    /// A line that contains a match begins a record. Of a line in parts (`P ... F`), the first part
    /// decides.
    Start(Regex),
    /// A line that begins with a space or tab, or is empty, belongs to the record before it.
    Indented,
    /// Likewise, and so do the other lines of a runtime's stack traces.
    Traces(Traces),
}

/// A pattern that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It is no regular expression, or takes too much memory.
    #[error("not a usable regular expression: {0}")]
    Regex(#[from] regex::Error),
    /// No group has a name, so it finds no field.
    #[error("no group has a name: write one at least, as in `(?P<level>[A-Z]+)`")]
    NoName,
}

impl Multiline {
    /// By a regular expression that lines match which begin a record.
    ///
    /// # Errors
    /// It is malformed, or larger than a mebibyte when compiled.
    pub fn start(pattern: &str) -> Result<Self, PatternError> {
        let mut builder = RegexBuilder::new(pattern);
        Ok(Self::Start(builder.size_limit(PATTERN_BYTES_MAX).build()?))
    }

    /// As [`Self::start`] for a pattern that somebody else than the collector's owner wrote, of
    /// whom there may be many.
    ///
    /// # Errors
    /// It is malformed, or takes more memory than [`FOREIGN_PATTERN_BYTES_MAX`] when compiled.
    pub fn foreign_start(pattern: &str) -> Result<Self, PatternError> {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(FOREIGN_PATTERN_BYTES_MAX).dfa_size_limit(FOREIGN_PATTERN_BYTES_MAX);
        Ok(Self::Start(builder.build()?))
    }

    /// Whether a line begins a record. `record` gives the lines of the one that is open.
    #[inline]
    pub(crate) fn begins<'a>(&self, line: &[u8], record: impl FnOnce() -> &'a [u8]) -> bool {
        match self {
            Self::Start(pattern) => pattern.is_match(line),
            Self::Indented => !matches!(line.first(), None | Some(b' ' | b'\t')),
            Self::Traces(traces) => !traces.continues(line, record()),
        }
    }
}

/// What a parsed value takes beside its text: tags and lengths of an attribute, an integer of ten
/// bytes for one digit.
const VALUE_OVERHEAD_BYTES: usize = 24;

impl Form {
    /// The longest record as written, from text in UTF-8 and without what all records of its file
    /// have. A parsed text may be both body and attributes.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        match self.parse {
            None => self.record_bytes(),
            Some(_) => 2 * self.record_bytes() + FIELDS_MAX * VALUE_OVERHEAD_BYTES,
        }
    }

    /// How lines are decoded. Containers' are UTF-8.
    pub(crate) fn encoding(&self) -> Encoding {
        if self.container == Container::None { self.encoding } else { Encoding::Utf8 }
    }

    /// The longest record's text.
    pub(crate) fn record_bytes(&self) -> usize {
        self.max_record_bytes.clamp(RECORD_BYTES_MIN, RECORD_BYTES_MAX)
    }

    /// The longest line, without its end.
    pub(crate) fn line_bytes(&self) -> usize {
        match self.container {
            Container::None => self.record_bytes(),
            Container::Cri | Container::DockerJson | Container::Detect => {
                self.record_bytes() + LINE_OVERHEAD_BYTES
            }
        }
    }
}
