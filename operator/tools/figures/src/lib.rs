//! Reads a collector's counters from the text of its metrics: Prometheus' format as far as a
//! collector writes it. The caller chooses the relevant series.
//!
//! No clock, no I/O. Limits: [`SERIES_MAX`] series; a text with more is refused.

use std::borrow::Cow;

/// Maximum series read; a collector with 200 partitions of three topics writes 2,000.
pub const SERIES_MAX: usize = 50_000;

/// A series that every collector has, of any release.
const EVERY_COLLECTORS: &str = "millrace_budget_bytes";

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A line is not a sample.
    #[error("line {line} is not a metric sample")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// It has none of a collector's metrics.
    #[error("it has no metrics of a collector")]
    Foreign,
    /// It has more series than are read.
    #[error("there are more than {SERIES_MAX} series")]
    TooMany,
}

/// Calls `note` with each series of a text.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's. It may have called `note`
/// before.
pub fn read_series(text: &str, mut note: impl FnMut(&SeriesLine<'_>)) -> Result<(), TextError> {
    let mut is_ours = false;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let series = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (count, (line, text)) in series.enumerate() {
        if count >= SERIES_MAX {
            return Err(TextError::TooMany);
        }
        let series = SeriesLine::read_series(text).ok_or(TextError::Line { line })?;
        is_ours |= series.name == EVERY_COLLECTORS;
        note(&series);
    }
    is_ours.then_some(()).ok_or(TextError::Foreign)
}

/// One line.
#[derive(Debug)]
pub struct SeriesLine<'a> {
    /// The metric's name.
    pub name: &'a str,
    labels: &'a str,
    /// Its value.
    pub value: f64,
}

impl<'a> SeriesLine<'a> {
    fn read_series(line: &'a str) -> Option<Self> {
        let (name, labels, rest) = match line.split_once('{') {
            Some((name, rest)) => {
                let end = end_of_labels(rest)?;
                (name, &rest[..end], &rest[end + 1..])
            }
            None => {
                let (name, rest) = line.split_once(' ')?;
                (name, "", rest)
            }
        };
        // A time may follow the value.
        let value = rest.split_whitespace().next()?.parse().ok()?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        is_name.then_some(Self { name, labels, value })
    }

    /// Returns the value as a whole number; a negative value or NaN is 0.
    #[must_use]
    pub fn as_count(&self) -> u64 {
        // The cast saturates, and a NaN becomes 0.
        self.value as u64
    }

    /// Returns a label's value.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.labels;
        while let Some((label, behind)) = rest.split_once("=\"") {
            let end = end_of_value(behind)?;
            if label.trim_start_matches(',').trim() == name {
                return Some(unescape_value(&behind[..end]));
            }
            rest = &behind[end + 1..];
        }
        None
    }

    /// Returns the topic and partition of a series that has these labels.
    #[must_use]
    pub fn topic_partition(&self) -> Option<(String, i32)> {
        Some((self.label("topic")?.into_owned(), self.label("partition")?.parse().ok()?))
    }
}

/// Returns where a quoted value ends: at the first quote that isn't escaped.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Returns where the labels end: at the first bracket outside of quotes.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().position(|byte| {
        if byte == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = byte == b'\\' && !escaped;
        byte == b'}' && !quoted
    })
}

fn unescape_value(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' { letters.next().map(of_escape) } else { Some(letter) };
        text.extend(letter);
    }
    Cow::Owned(text)
}

/// Returns the character that an escape means.
fn of_escape(letter: char) -> char {
    if letter == 'n' { '\n' } else { letter }
}
