//! `show`: one letter taken apart.

use std::fmt::Write as _;
use std::io::Write;

use millrace_wire::Signal;
use millrace_wire::limits::Limits;
use millrace_wire::otlp::{self, json};

use crate::error::DeadLetterError;
use crate::hex;
use crate::list::source_of;
use crate::reader::{DeadLetterTopic, Desk, Found};
use crate::select::Place;
use crate::text::{clean, clean_bytes, time};

/// The longest record that is written as JSON, in bytes. Its text is some ten times as long, and
/// nobody reads more on a terminal; longer ones can be saved.
const MAX_DECODED_BYTES: usize = 4 << 20;

/// Headers of a record that are shown.
const MAX_HEADERS: usize = 100;

/// Finds a letter of the desk's first topic and writes what it holds. Gives the letter.
///
/// # Errors
/// When it isn't there, can't be read, or `out` not written.
pub fn show(
    desk: &Desk,
    place: Place,
    out: &mut dyn Write,
) -> Result<Option<Found>, DeadLetterError> {
    let Some(topic) = desk.topics.first() else { return Ok(None) };
    match desk.reader()?.read_one(topic, place)? {
        Some(found) => {
            out.write_all(shown(topic, &found).as_bytes())?;
            Ok(Some(found))
        }
        None => Err(DeadLetterError::Absent { topic: topic.name.clone(), place }),
    }
}

/// A letter as text: its facts, its headers, and its records as OTLP in JSON; or, where they can't
/// be read, why not and the bytes around that place.
#[must_use]
pub fn shown(topic: &DeadLetterTopic, found: &Found) -> String {
    let Found { place, at_millis, signal, letter, key, payload } = found;
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{:<9}{value}", format!("{name}:"));
    };
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), clean);
    line("letter", &format!("{} {place}", topic.name));
    line("time", &time(*at_millis));
    line("signal", signal.map_or("-", Signal::as_str));
    line("reason", &text(&letter.reason));
    line("detail", &text(&letter.detail));
    line("source", &source_of(found));
    line("version", &text(&letter.version));
    line("key", &key.as_deref().map_or_else(|| "-".to_owned(), clean_bytes));
    line("bytes", &payload.len().to_string());
    for (name, value) in letter.own_headers.iter().take(MAX_HEADERS) {
        let value = value.as_deref().map_or_else(|| "-".to_owned(), clean_bytes);
        line("header", &format!("{} = {value}", clean(name)));
    }
    if letter.own_headers.len() > MAX_HEADERS {
        line("header", &format!("and {} more", letter.own_headers.len() - MAX_HEADERS));
    }
    out.push('\n');
    out.push_str(&content(*signal, payload));
    out
}

fn content(signal: Option<Signal>, payload: &[u8]) -> String {
    let Some(signal) = signal else {
        let bytes = hex::around(payload, 0);
        return format!("nothing says what its records are: add --signal; it begins with\n{bytes}");
    };
    let limits = Limits::of_readers();
    if payload.len() > MAX_DECODED_BYTES {
        return match otlp::check(signal, payload, &limits) {
            Ok(checked) => format!(
                "well-formed otlp {signal} with {} records, too long to be shown: save it with \
                 --save FILE\n",
                checked.records
            ),
            Err(error) => unreadable(&error, payload),
        };
    }
    match json::print(signal, payload, &limits) {
        Ok(text) => text + "\n",
        Err(error) => unreadable(&error, payload),
    }
}

fn unreadable(error: &millrace_wire::WireError, payload: &[u8]) -> String {
    format!("{error}\n{}", hex::around(payload, error.offset()))
}

#[cfg(test)]
mod tests {
    use millrace_config::TopicName;
    use millrace_pipeline::dead_letter::Letter;
    use millrace_wire::Signal;
    use proptest::prelude::*;

    use super::shown;
    use crate::reader::{DeadLetterTopic, Found};
    use crate::select::Place;

    fn show(
        signal: Option<Signal>,
        payload: &[u8],
        own_headers: Vec<(String, Option<Vec<u8>>)>,
    ) -> String {
        let name = TopicName::new("otlp_traces_dead_letter").unwrap();
        let topic = DeadLetterTopic { name, signal: None, source: None };
        let letter = Letter { own_headers, ..Letter::default() };
        let found = Found {
            place: Place { partition: 0, offset: 12 },
            at_millis: None,
            signal,
            letter,
            key: Some(b"k".to_vec()),
            payload: payload.to_vec(),
        };
        shown(&topic, &found)
    }

    /// Scenario: a readable letter, a broken one, one of an unknown kind. Guarantee: JSON; the
    /// fault with the bytes around it; the first bytes.
    #[test]
    fn a_letter_is_shown_as_far_as_it_can_be_read() {
        let span = [0x0a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x2a, 0x01, b'x'];
        let text = show(Some(Signal::Traces), &span, vec![("h".to_owned(), None)]);
        assert!(text.starts_with("letter:  otlp_traces_dead_letter 0:12\n"), "{text}");
        assert!(text.contains("header:  h = -\n") && text.contains("\"name\": \"x\""), "{text}");
        let text = show(Some(Signal::Traces), &[0x0a, 0xff, 0xff, 3], Vec::new());
        assert!(text.contains("malformed otlp traces") && text.contains("[ff]"), "{text}");
        let text = show(None, &span, Vec::new());
        assert!(text.contains("add --signal") && text.contains("[0a]"), "{text}");
    }

    proptest! {
        /// Scenario: bytes, names and values of any kind. Guarantee: text without control
        /// characters but for line ends, never a panic.
        #[test]
        fn any_letter_is_shown_harmlessly(
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            header in ".{0,20}",
            value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
            signal in proptest::option::of(proptest::sample::select(Signal::ALL.to_vec())),
        ) {
            let text = show(signal, &payload, vec![(header, value)]);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
    }
}
