//! `list`: a line for each dead letter, and sums by reason.
//!
//! Memory: the newest dead letters that are shown, without their bytes, and one sum for each
//! reason.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;

use serde_json::json;

use crate::error::DeadLetterError;
use crate::reader::{DeadLetterTopic, Desk, Found, Item};
use crate::select::{Place, Selection};
use crate::sent::Sent;
use crate::text::{clean, time};

/// Reasons that are counted apart. Ours are some thirty; a stranger's could be any number.
const MAX_REASONS: usize = 200;
/// Where the others are counted.
const OTHER: &str = "(other)";

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// What to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// Which letters.
    pub selection: Selection,
    /// How many lines at most in each topic: those of the newest letters. Sums count all.
    pub limit: usize,
    /// How to write it.
    pub format: Format,
}

/// Writes the list.
///
/// # Errors
/// When a topic can't be read to its end, or `out` not written.
pub fn list(
    desk: &Desk,
    options: &ListOptions,
    out: &mut dyn Write,
) -> Result<(), DeadLetterError> {
    let reader = desk.reader()?;
    for topic in &desk.topics {
        let mut listing = Listing::default();
        let since = options.selection.since_millis;
        reader.read_all(topic, since, &mut |item| {
            listing.take(item, options);
            Ok(())
        })?;
        match options.format {
            Format::Text => listing.write_text(topic, out)?,
            Format::Json => listing.write_json(topic, out)?,
        }
    }
    Ok(())
}

#[derive(Default)]
struct Listing {
    lines: VecDeque<Line>,
    letters: u64,
    by_reason: BTreeMap<String, u64>,
    sent: HashMap<i32, Sent>,
}

/// A letter without its bytes, its text made harmless.
struct Line {
    place: Place,
    at_millis: Option<i64>,
    signal: &'static str,
    reason: String,
    detail: String,
    source: String,
    bytes: usize,
    version: String,
}

impl Listing {
    fn take(&mut self, item: Item, options: &ListOptions) {
        let found = match item {
            Item::Mark(partition, sent) => {
                return self.sent.entry(partition).or_default().join(&sent);
            }
            Item::Letter(found) => *found,
        };
        let Found { place, at_millis, signal, letter, .. } = &found;
        if !options.selection.takes(*place, *at_millis, *signal, letter) {
            return;
        }
        let line = Line::of(&found);
        self.letters += 1;
        let full =
            self.by_reason.len() >= MAX_REASONS && !self.by_reason.contains_key(&line.reason);
        let reason = if full { OTHER } else { &line.reason };
        *self.by_reason.entry(reason.to_owned()).or_default() += 1;
        self.lines.push_back(line);
        if self.lines.len() > options.limit {
            self.lines.pop_front();
        }
    }

    fn is_sent(&self, place: Place) -> bool {
        self.sent.get(&place.partition).is_some_and(|sent| sent.contains(place.offset))
    }

    fn sorted(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.place);
        lines
    }

    fn write_text(&self, topic: &DeadLetterTopic, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}", topic.name)?;
        let columns = |[place, at, signal, reason, source, bytes, version, sent, detail]: [&str;
                           9]| {
            let line = format!(
                "  {place:<8} {at:<24} {signal:<7} {reason:<21} {source:<20} {bytes:>8} \
                 {version:<7} {sent:<4} {detail}"
            );
            line.trim_end().to_owned()
        };
        if !self.lines.is_empty() {
            let head = [
                "PLACE", "TIME", "SIGNAL", "REASON", "SOURCE", "BYTES", "VERSION", "SENT", "DETAIL",
            ];
            writeln!(out, "{}", columns(head))?;
        }
        for line in self.sorted() {
            let Line { place, at_millis, signal, reason, detail, source, bytes, version } = line;
            let sent = if self.is_sent(*place) { "yes" } else { "no" };
            let (place, at, bytes) = (place.to_string(), time(*at_millis), bytes.to_string());
            let row = [place.as_str(), &at, signal, reason, source, &bytes, version, sent, detail];
            writeln!(out, "{}", columns(row))?;
        }
        let shown = self.lines.len() as u64;
        let older = if shown < self.letters {
            format!(", the newest {shown} shown")
        } else {
            String::new()
        };
        writeln!(out, "  letters={}{older}", self.letters)?;
        for (reason, count) in &self.by_reason {
            writeln!(out, "  reason={reason} letters={count}")?;
        }
        Ok(())
    }

    fn write_json(&self, topic: &DeadLetterTopic, out: &mut dyn Write) -> std::io::Result<()> {
        for line in self.sorted() {
            let Line { place, at_millis, signal, reason, detail, source, bytes, version } = line;
            let object = json!({
                "topic": topic.name.as_str(), "partition": place.partition,
                "offset": place.offset, "time": time(*at_millis), "signal": signal,
                "reason": reason, "detail": detail, "source": source, "bytes": bytes,
                "version": version, "sent": self.is_sent(*place),
            });
            writeln!(out, "{object}")?;
        }
        let sums = json!({
            "topic": topic.name.as_str(), "letters": self.letters, "shown": self.lines.len(),
            "byReason": self.by_reason,
        });
        writeln!(out, "{sums}")
    }
}

impl Line {
    fn of(found: &Found) -> Self {
        let Found { place, at_millis, signal, letter, payload, .. } = found;
        let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), clean);
        Self {
            place: *place,
            at_millis: *at_millis,
            signal: signal.map_or("-", |signal| signal.as_str()),
            reason: text(&letter.reason),
            detail: text(&letter.detail),
            source: source_of(found),
            bytes: payload.len(),
            version: text(&letter.version),
        }
    }
}

/// Where a letter comes from: topic, partition and offset as far as they are known.
pub(crate) fn source_of(found: &Found) -> String {
    let letter = &found.letter;
    let topic = letter.source_topic.as_deref().map_or_else(|| "-".to_owned(), clean);
    let known = letter.source_partition.zip(letter.source_offset);
    let place = known.map(|(partition, offset)| format!(" {}", Place { partition, offset }));
    topic + &place.unwrap_or_default()
}

#[cfg(test)]
#[path = "../tests/unit/list.rs"]
mod tests;
