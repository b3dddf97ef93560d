//! A dead letter's own headers, behind the record's: written by the gateway, read by the
//! dead-letter commands.
//!
//! Pure. Reading never fails: anybody with access to the topic can write anything, so an invalid
//! value is absent, and the caller that needs it reports that.

use millrace_wire::Signal;

use crate::sink::DeadLetter;

/// One of a small set of words, as in the metric.
pub const REASON: &str = "millrace-reason";
/// Details, for people.
pub const DETAIL: &str = "millrace-detail";
/// Traces, logs or metrics.
pub const SIGNAL: &str = "millrace-signal";
/// Where the record was read.
pub const SOURCE_TOPIC: &str = "millrace-source-topic";
/// Its partition there.
pub const SOURCE_PARTITION: &str = "millrace-source-partition";
/// Its offset there.
pub const SOURCE_OFFSET: &str = "millrace-source-offset";
/// The collector's version.
pub const VERSION: &str = "millrace-version";

/// All of them, in the order in which they are written.
pub const NAMES: [&str; 7] =
    [REASON, DETAIL, SIGNAL, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, VERSION];

/// A header: its name, and its value if it has one.
pub type Header = (String, Option<Vec<u8>>);

/// The headers that go behind a record's own. `version` is the collector's.
#[must_use]
pub fn written(letter: &DeadLetter, version: &str) -> [(&'static str, String); 7] {
    [
        (REASON, letter.rejection.reason.to_owned()),
        (DETAIL, letter.rejection.detail.clone()),
        (SIGNAL, letter.signal.to_string()),
        (SOURCE_TOPIC, letter.topic.to_string()),
        (SOURCE_PARTITION, letter.partition.to_string()),
        (SOURCE_OFFSET, letter.offset.to_string()),
        (VERSION, version.to_owned()),
    ]
}

/// A dead letter's headers, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Letter {
    /// Why it wasn't stored, in a word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub detail: Option<String>,
    /// What its records are.
    pub signal: Option<Signal>,
    /// Where it was read.
    pub source_topic: Option<String>,
    /// Its partition there, 0 or more.
    pub source_partition: Option<i32>,
    /// Its offset there, 0 or more.
    pub source_offset: Option<i64>,
    /// The version of the collector that kept it.
    pub version: Option<String>,
    /// The record's own headers, in order.
    pub own_headers: Vec<Header>,
}

impl Letter {
    /// Parses a letter's headers. Ours are the last of each name: a record whose own header
    /// has one of our names keeps it.
    #[must_use]
    pub fn read(headers: Vec<Header>) -> Self {
        let mut letter = Self::default();
        let ours = NAMES.map(|name| headers.iter().rposition(|(found, _)| found == name));
        for (index, (name, value)) in headers.into_iter().enumerate() {
            if !ours.contains(&Some(index)) {
                letter.own_headers.push((name, value));
                continue;
            }
            let Some(text) = value.and_then(|value| String::from_utf8(value).ok()) else {
                continue;
            };
            match name.as_str() {
                REASON => letter.reason = Some(text),
                DETAIL => letter.detail = Some(text),
                SIGNAL => letter.signal = text.parse().ok(),
                SOURCE_TOPIC => letter.source_topic = Some(text),
                SOURCE_PARTITION => {
                    letter.source_partition = text.parse().ok().filter(|number| *number >= 0);
                }
                SOURCE_OFFSET => {
                    letter.source_offset = text.parse().ok().filter(|number| *number >= 0);
                }
                _ => letter.version = Some(text),
            }
        }
        letter
    }
}

#[cfg(test)]
#[path = "../tests/unit/dead_letter.rs"]
mod tests;
