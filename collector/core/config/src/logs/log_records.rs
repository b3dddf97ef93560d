//! The sections that all receivers of log files share: how lines become records.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::values::units::ByteSize;

/// What the longest record of a file may be set to: a batch of them is a message of a mebibyte.
pub(crate) const RECORD_BYTES: RangeInclusive<ByteSize> = ByteSize::kib(1)..=ByteSize::kib(512);

/// Most names of one field. Each is compared with every field of every line; four are known to be
/// in use for severities.
const NAMES_MAX: usize = 8;

/// The longest pattern: what the operator's kinds take.
const PATTERN_CHARACTERS_MAX: usize = 1024;

section! {
    /// Rule that joins lines into one record. Exactly one of `start`, `indented` and `stackTraces`
    /// is required.
    pub struct Multiline {
        /// Regular expression: a line that contains a match starts a record.
        pub start: Option<String> = None,
        /// Whether a line that begins with a space or a tab belongs to the record before it.
        pub indented: bool = false,
        /// Runtime whose stack traces, and indented lines, belong to the line before them.
        pub stack_traces: Option<StackTraces> = None,
        /// Time without a further line after which a record is complete, in milliseconds.
        pub timeout_millis: u32 = 1000,
    }
}

/// Runtime whose stack traces are one record; the annotation `millrace.dev/logs-multiline` has the
/// same in lower case.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StackTraces {
    /// Java, Kotlin and Scala.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// Node.js.
    NodeJs,
    /// Rust.
    Rust,
}

section! {
    /// How fields are parsed from a record's text. A text without the expected format is stored
    /// unchanged, and counted.
    pub struct Parse {
        /// Format of the text.
        pub format: ParseFormat = ParseFormat::None,
        /// With `Regex`: a regular expression whose named groups are fields.
        pub pattern: Option<String> = None,
        /// Names of fields for the body: the first one present with a text value is used. At most
        /// 8, as in the other lists of names.
        pub body: Vec<String> = owned_names(&["message", "msg"]),
        /// Names of fields for the severity.
        pub severity: Vec<String> = owned_names(&["level", "severity", "lvl"]),
        /// Field with the record's time; none when absent.
        pub timestamp: Option<Timestamp> = None,
    }
}

section! {
    /// Field with a record's time.
    pub struct Timestamp {
        /// Names of the field. Required: at least one.
        pub fields: Vec<String> = Vec::new(),
        /// Format of the time.
        pub format: TimeFormat = TimeFormat::Rfc3339,
        /// With `Layout`: the layout, as in `%d/%b/%Y:%H:%M:%S %z`.
        pub layout: Option<String> = None,
    }
}

pub(crate) fn owned_names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Format of a record's text.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParseFormat {
    /// No parsing: the text is the body.
    None,
    /// A JSON object.
    #[serde(rename = "JSON")]
    Json,
    /// `name=value` pairs.
    Logfmt,
    /// Fields matched by `pattern`.
    Regex,
}

/// Format of a time.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeFormat {
    /// As in `2026-11-25T04:00:00.123Z`; a space instead of `T`, a comma instead of the point and a
    /// missing offset (UTC) are accepted.
    #[serde(rename = "RFC3339")]
    Rfc3339,
    /// Seconds since 1970, with or without a fraction.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
    /// Microseconds since 1970.
    UnixMicros,
    /// Nanoseconds since 1970.
    UnixNanos,
    /// A layout in the syntax of `strftime`.
    Layout,
}

/// Where to start reading a file without a stored position.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartAt {
    /// At its first byte.
    Beginning,
    /// At its current end. A file that appears later is read from its first byte.
    End,
}

impl Checker<'_> {
    pub(crate) fn check_multiline(&mut self, field: &str, multiline: Option<&Multiline>) {
        let Some(Multiline { start, indented, stack_traces, timeout_millis }) = multiline else {
            return;
        };
        let rules = [start.is_some(), *indented, stack_traces.is_some()];
        if rules.iter().filter(|is_set| **is_set).count() != 1 {
            self.add_problem(
                field,
                "set exactly one of `start`, `indented: true` and `stackTraces`",
            );
        }
        self.check_range(&format!("{field}.timeoutMillis"), *timeout_millis, 100..=60_000);
    }

    pub(crate) fn check_parse(&mut self, field: &str, parse: &Parse) {
        let Parse { format, pattern, body, severity, timestamp } = parse;
        if *format == ParseFormat::None {
            if *parse != Parse::default() {
                self.add_problem(
                    field,
                    "no format is set, so nothing is parsed: set `format: JSON`, Logfmt or Regex",
                );
            }
            return;
        }
        let pattern_field = format!("{field}.pattern");
        match pattern {
            None if *format == ParseFormat::Regex => {
                self.add_problem(
                    &pattern_field,
                    "Regex requires a pattern, as in '^(?P<level>[A-Z]+) (?P<msg>.*)'",
                );
            }
            Some(_) if *format != ParseFormat::Regex => {
                self.add_problem(&pattern_field, "only `format: Regex` has a pattern: remove it");
            }
            Some(pattern) if pattern.chars().count() > PATTERN_CHARACTERS_MAX => {
                let message =
                    format!("longer than {PATTERN_CHARACTERS_MAX} characters: shorten it");
                self.add_problem(&pattern_field, message);
            }
            _ => {}
        }
        let times = timestamp.as_ref().map(|Timestamp { fields, .. }| fields);
        self.check_timestamp(&format!("{field}.timestamp"), timestamp.as_ref());
        let lists =
            [("body", Some(body)), ("severity", Some(severity)), ("timestamp.fields", times)];
        let mut list_by_name = HashMap::new();
        for (list, names) in lists.iter().filter_map(|(list, names)| Some((list, (*names)?))) {
            let field = format!("{field}.{list}");
            if names.len() > NAMES_MAX {
                self.add_problem(&field, format!("{} names: use at most {NAMES_MAX}", names.len()));
            }
            for name in names {
                if name.is_empty() {
                    self.add_problem(&field, "a name is empty: remove it");
                }
                if let Some(other) = list_by_name.insert(name, list) {
                    self.add_problem(
                        &field,
                        format!("`{name}` is also in {other}: remove one of them"),
                    );
                }
            }
        }
    }

    fn check_timestamp(&mut self, field: &str, timestamp: Option<&Timestamp>) {
        let Some(Timestamp { fields, format, layout }) = timestamp else { return };
        if fields.is_empty() {
            self.add_problem(&format!("{field}.fields"), "no field is named: name at least one");
        }
        if layout.is_some() != (*format == TimeFormat::Layout) {
            self.add_problem(
                &format!("{field}.layout"),
                "`format: Layout` and `layout` must be set together: set both, or neither",
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{Multiline, Parse, ParseFormat, StackTraces, StartAt, TimeFormat, Timestamp};
    use proptest::option;
    use proptest::prelude::{Just, Strategy, any, prop_oneof};

    pub(crate) fn start_at() -> impl Strategy<Value = StartAt> {
        prop_oneof![Just(StartAt::Beginning), Just(StartAt::End)]
    }

    pub(crate) fn multiline() -> impl Strategy<Value = Multiline> {
        let runtimes = [
            StackTraces::Java,
            StackTraces::Python,
            StackTraces::Go,
            StackTraces::NodeJs,
            StackTraces::Rust,
        ];
        let traces = option::of(proptest::sample::select(runtimes.to_vec()));
        (option::of("[ -~]{0,20}"), any::<bool>(), traces, any::<u32>()).prop_map(
            |(start, indented, traces, timeout_millis)| Multiline {
                start,
                indented,
                stack_traces: traces,
                timeout_millis,
            },
        )
    }

    pub(crate) fn parse() -> impl Strategy<Value = Parse> {
        let formats =
            [ParseFormat::None, ParseFormat::Json, ParseFormat::Logfmt, ParseFormat::Regex];
        let names = || proptest::collection::vec("[ -~]{0,20}", 0..3);
        let times = [
            TimeFormat::Rfc3339,
            TimeFormat::UnixSeconds,
            TimeFormat::UnixMillis,
            TimeFormat::UnixMicros,
            TimeFormat::UnixNanos,
            TimeFormat::Layout,
        ];
        let timestamp =
            (names(), proptest::sample::select(times.to_vec()), option::of("[ -~]{0,20}"))
                .prop_map(|(fields, format, layout)| Timestamp { fields, format, layout });
        let format = proptest::sample::select(formats.to_vec());
        (format, option::of("[ -~]{0,20}"), names(), names(), option::of(timestamp)).prop_map(
            |(format, pattern, body, severity, timestamp)| Parse {
                format,
                pattern,
                body,
                severity,
                timestamp,
            },
        )
    }
}
