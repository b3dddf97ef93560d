//! `show`: one dead letter in detail.

use std::fmt::Write as _;
use std::io::Write;

use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, json};

use crate::error::DeadLetterError;
use crate::hex;
use crate::list::source_of;
use crate::reader::{DeadLetterAccess, DeadLetterRecord, DeadLetterTopic};
use crate::select::PartitionOffset;
use crate::text::{render_time, sanitize_bytes, sanitize_text};

/// Maximum size of a record that is written as JSON, in bytes. Its text is some ten times as long,
/// and nobody reads more on a terminal; longer ones can be saved.
const MAX_DECODED_BYTES: usize = 4 << 20;

/// Maximum headers of a record that are shown.
const MAX_HEADERS: usize = 100;

/// Finds a dead letter of the first topic of `access`, writes its content, and returns it.
///
/// # Errors
/// When it doesn't exist, can't be read, or `out` can't be written.
pub fn show_dead_letter(
    access: &DeadLetterAccess,
    position: PartitionOffset,
    out: &mut dyn Write,
) -> Result<Option<DeadLetterRecord>, DeadLetterError> {
    let Some(topic) = access.topics.first() else { return Ok(None) };
    match access.open_reader()?.read_one(topic, position)? {
        Some(found) => {
            out.write_all(render_dead_letter(topic, &found).as_bytes())?;
            Ok(Some(found))
        }
        None => Err(DeadLetterError::Absent { topic: topic.name.clone(), place: position }),
    }
}

/// Renders a dead letter as text: its facts, its headers, and its records as OTLP in JSON; or,
/// where they can't be read, the reason and the bytes around the fault.
#[must_use]
pub fn render_dead_letter(topic: &DeadLetterTopic, found: &DeadLetterRecord) -> String {
    let DeadLetterRecord { position, at_millis, signal, headers, key, payload } = found;
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{:<9}{value}", format!("{name}:"));
    };
    let text =
        |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), sanitize_text);
    line("letter", &format!("{} {position}", topic.name));
    line("time", &render_time(*at_millis));
    line("signal", signal.map_or("-", Signal::as_str));
    line("reason", &text(&headers.reason));
    line("detail", &text(&headers.detail));
    line("source", &source_of(found));
    line("version", &text(&headers.version));
    line("key", &key.as_deref().map_or_else(|| "-".to_owned(), sanitize_bytes));
    line("bytes", &payload.len().to_string());
    for (name, value) in headers.record_headers.iter().take(MAX_HEADERS) {
        let value = value.as_deref().map_or_else(|| "-".to_owned(), sanitize_bytes);
        line("header", &format!("{} = {value}", sanitize_text(name)));
    }
    if headers.record_headers.len() > MAX_HEADERS {
        line("header", &format!("and {} more", headers.record_headers.len() - MAX_HEADERS));
    }
    out.push('\n');
    out.push_str(&render_content(*signal, payload));
    out
}

fn render_content(signal: Option<Signal>, payload: &[u8]) -> String {
    let Some(signal) = signal else {
        let bytes = hex::dump_around(payload, 0);
        return format!(
            "the signal of its records is unknown: add --signal; it begins with\n{bytes}"
        );
    };
    let limits = WireLimits::of_readers();
    if payload.len() > MAX_DECODED_BYTES {
        return match otlp::check_request(signal, payload, &limits) {
            Ok(checked) => format!(
                "well-formed OTLP {signal} (records: {}), too long to print: save it with --save \
                 FILE\n",
                checked.records
            ),
            Err(error) => render_error(&error, payload),
        };
    }
    match json::print_request(signal, payload, &limits) {
        Ok(text) => text + "\n",
        Err(error) => render_error(&error, payload),
    }
}

fn render_error(error: &millrace_wire::WireError, payload: &[u8]) -> String {
    format!("{error}\n{}", hex::dump_around(payload, error.offset()))
}

#[cfg(test)]
mod tests;
