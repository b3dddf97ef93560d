//! Defines the rules by which a file's bytes become records.

pub(crate) mod pattern_error;
pub(crate) mod traces;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;

use crate::encoding::TextEncoding;
use crate::form::pattern_error::{PATTERN_BYTES_MAX, PatternError};
use crate::form::traces::TraceRuntime;
use crate::parse::{FIELDS_MAX, ParseRules};

/// The upper limit of `max_record_bytes`: 2 MiB, twice what brokers accept in a message. Three such
/// records (both streams and the last line), each replaced by U+FFFD and written twice (as body and
/// attributes), are 36 MiB on top of a full request: within the 64 MiB of one request.
pub const RECORD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The lower limit: one character, so that no cut leaves nothing.
const RECORD_BYTES_MIN: usize = 4;

/// How much longer a container's line may be than its text. CRI's heads take about 50 bytes, the
/// other members of Docker's lines about 80. A buffer of the longest record, this and two bytes
/// always suffices.
pub const LINE_OVERHEAD_BYTES: usize = 256;

/// The memory limit of a pattern from outside the settings, compiled to an automaton with a table:
/// 64 KiB. `^\d{4}-\d{2}-\d{2}` takes 0.5 KiB, syslog's date with the names of all months 9.
pub const FOREIGN_PATTERN_BYTES_MAX: usize = 64 * 1024;

/// The memory limit while that automaton is built: its table is made of sets of states, 8 times as
/// large.
const FOREIGN_BUILD_BYTES_MAX: usize = 8 * FOREIGN_PATTERN_BYTES_MAX;

/// The rules by which a file's bytes become records.
#[derive(Clone, Debug)]
pub struct RecordRules {
    /// The container runtime's frame around each line.
    pub container: Container,
    /// The encoding of a file without a container's format.
    pub encoding: TextEncoding,
    /// Which lines form one record. Absent: each line is a record.
    pub multiline: Option<MultilineRule>,
    /// How fields are parsed from a record's text. Absent: the text is only the body.
    pub parse: Option<ParseRules>,
    /// The maximum bytes of a record's text, at most [`RECORD_BYTES_MAX`].
    pub max_record_bytes: usize,
    /// A container's open multiline record is complete when a line of its other stream is later by
    /// this time. If no line of either stream comes, the caller ends the record.
    pub timeout_nanos: u64,
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
    /// Either format, detected by line, so that reading may begin anywhere: a `DockerJson` line
    /// begins with `{`, a `Cri` line never does.
    Detect,
}

/// Which lines form one record.
#[derive(Clone, Debug)]
pub enum MultilineRule {
    /// A line that contains a match begins a record. For a line in parts (`P ... F`), the first
    /// part decides.
    Start(Regex),
    /// Like `Start`, by [`MultilineRule::from_foreign_pattern`].
    ForeignStart(Box<dense::DFA<Vec<u32>>>),
    /// A line that begins with a space or tab, or is empty, continues the previous record.
    Indented,
    /// Like `Indented`; the other lines of a runtime's stack traces also continue it.
    Traces(TraceRuntime),
}

impl MultilineRule {
    /// Compiles a regular expression that matches the first line of a record.
    ///
    /// # Errors
    /// If it is malformed, or larger than a mebibyte when compiled.
    pub fn from_pattern(pattern: &str) -> Result<Self, PatternError> {
        let mut builder = RegexBuilder::new(pattern);
        Ok(Self::Start(builder.size_limit(PATTERN_BYTES_MAX).build()?))
    }

    /// Like [`Self::from_pattern`], for the many patterns that others than the collector's owner
    /// write. The pattern becomes an automaton that reads each byte once, so all patterns cost a
    /// line the same time. Classes such as `\d` and `\w` are ASCII's: Unicode's take fifty times
    /// the memory.
    ///
    /// # Errors
    /// If it is malformed, or takes more memory than [`FOREIGN_PATTERN_BYTES_MAX`] when compiled.
    pub fn from_foreign_pattern(pattern: &str) -> Result<Self, PatternError> {
        let table = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(FOREIGN_PATTERN_BYTES_MAX))
            .determinize_size_limit(Some(FOREIGN_BUILD_BYTES_MAX));
        let automaton = dense::Builder::new()
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(
                thompson::Config::new().utf8(false).nfa_size_limit(Some(FOREIGN_BUILD_BYTES_MAX)),
            )
            .configure(table)
            .build(pattern);
        Ok(Self::ForeignStart(Box::new(automaton.map_err(Box::new)?)))
    }

    /// Whether a line begins a record. `record` returns the lines of the open one.
    #[inline]
    pub(crate) fn begins_record<'a>(&self, line: &[u8], record: impl FnOnce() -> &'a [u8]) -> bool {
        match self {
            Self::Start(pattern) => pattern.is_match(line),
            Self::ForeignStart(automaton) => {
                // The search fails only at bytes that stop an automaton; this one has none.
                let found = automaton.try_search_fwd(&Input::new(line).earliest(true));
                found.is_ok_and(|end| end.is_some())
            }
            Self::Indented => !matches!(line.first(), None | Some(b' ' | b'\t')),
            Self::Traces(traces) => !traces.continues_record(line, record()),
        }
    }
}

/// The overhead of a parsed value: tags and lengths of an attribute, an integer of ten bytes for
/// one digit.
const VALUE_OVERHEAD_BYTES: usize = 24;

impl RecordRules {
    /// The size of the longest written record, from UTF-8 text and without the attributes shared by
    /// its file's records. A parsed text may be both body and attributes.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        match self.parse {
            None => self.record_bytes(),
            Some(_) => 2 * self.record_bytes() + FIELDS_MAX * VALUE_OVERHEAD_BYTES,
        }
    }

    /// The encoding of lines. Containers' lines are UTF-8.
    pub(crate) fn line_encoding(&self) -> TextEncoding {
        if self.container == Container::None { self.encoding } else { TextEncoding::Utf8 }
    }

    /// The maximum bytes of a record's text, within limits.
    pub(crate) fn record_bytes(&self) -> usize {
        self.max_record_bytes.clamp(RECORD_BYTES_MIN, RECORD_BYTES_MAX)
    }

    /// The maximum bytes of a line, without its end.
    pub(crate) fn line_bytes(&self) -> usize {
        match self.container {
            Container::None => self.record_bytes(),
            Container::Cri | Container::DockerJson | Container::Detect => {
                self.record_bytes() + LINE_OVERHEAD_BYTES
            }
        }
    }
}
