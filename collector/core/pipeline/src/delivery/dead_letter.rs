//! A dead letter's own headers, behind the record's: the gateway writes them, the dead-letter
//! commands read them.
//!
//! Pure. Reading never fails: any client with access to the topic can write anything, so an invalid
//! value is absent, and the caller that requires it reports that.

use millrace_wire::Signal;

use crate::sink::DeadLetter;

/// The reason, one of a small set of words, as in the metric.
pub const REASON: &str = "millrace-reason";
/// Details, for people.
pub const DETAIL: &str = "millrace-detail";
/// The signal: traces, logs or metrics.
pub const SIGNAL: &str = "millrace-signal";
/// The topic from which the record was read.
pub const SOURCE_TOPIC: &str = "millrace-source-topic";
/// The partition from which it was read.
pub const SOURCE_PARTITION: &str = "millrace-source-partition";
/// The offset at which it was read.
pub const SOURCE_OFFSET: &str = "millrace-source-offset";
/// The collector's version.
pub const VERSION: &str = "millrace-version";

/// All headers, in the order in which they are written.
pub const NAMES: [&str; 7] =
    [REASON, DETAIL, SIGNAL, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, VERSION];

/// A header: its name, and its value if it has one.
pub type MessageHeader = (String, Option<Vec<u8>>);

/// Returns the headers to write behind a record's own. `version` is the collector's.
#[must_use]
pub fn encode_headers(dead_letter: &DeadLetter, version: &str) -> [(&'static str, String); 7] {
    [
        (REASON, dead_letter.rejection.reason.to_owned()),
        (DETAIL, dead_letter.rejection.detail.clone()),
        (SIGNAL, dead_letter.signal.to_string()),
        (SOURCE_TOPIC, dead_letter.topic.to_string()),
        (SOURCE_PARTITION, dead_letter.partition.to_string()),
        (SOURCE_OFFSET, dead_letter.offset.to_string()),
        (VERSION, version.to_owned()),
    ]
}

/// A dead letter's headers, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterHeaders {
    /// The reason why it wasn't stored, one word.
    pub reason: Option<String>,
    /// The reason, as a sentence.
    pub detail: Option<String>,
    /// The signal of its records.
    pub signal: Option<Signal>,
    /// The topic from which it was read.
    pub source_topic: Option<String>,
    /// The partition from which it was read, 0 or more.
    pub source_partition: Option<i32>,
    /// The offset at which it was read, 0 or more.
    pub source_offset: Option<i64>,
    /// The version of the collector that wrote it.
    pub version: Option<String>,
    /// The record's own headers, in order.
    pub record_headers: Vec<MessageHeader>,
}

impl DeadLetterHeaders {
    /// Parses a letter's headers. The last header of each of our names is ours: a record keeps its
    /// own header of the same name.
    #[must_use]
    pub fn read(headers: Vec<MessageHeader>) -> Self {
        let mut parsed = Self::default();
        let ours = NAMES.map(|name| headers.iter().rposition(|(found, _)| found == name));
        for (index, (name, value)) in headers.into_iter().enumerate() {
            if !ours.contains(&Some(index)) {
                parsed.record_headers.push((name, value));
                continue;
            }
            let Some(text) = value.and_then(|value| String::from_utf8(value).ok()) else {
                continue;
            };
            match name.as_str() {
                REASON => parsed.reason = Some(text),
                DETAIL => parsed.detail = Some(text),
                SIGNAL => parsed.signal = text.parse().ok(),
                SOURCE_TOPIC => parsed.source_topic = Some(text),
                SOURCE_PARTITION => {
                    parsed.source_partition = text.parse().ok().filter(|number| *number >= 0);
                }
                SOURCE_OFFSET => {
                    parsed.source_offset = text.parse().ok().filter(|number| *number >= 0);
                }
                _ => parsed.version = Some(text),
            }
        }
        parsed
    }
}

#[cfg(test)]
mod tests;
