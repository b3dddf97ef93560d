//! `show`: one dead letter in detail.

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
#[path = "../tests/unit/show.rs"]
mod tests;
