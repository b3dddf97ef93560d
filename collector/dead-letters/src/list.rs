//! `list`: a line for each dead letter, and sums by reason.
//!
//! Memory: the newest dead letters that are shown, without their bytes, and one sum for each
//! reason.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;

use serde_json::json;

use crate::error::DeadLetterError;
use crate::reader::{DeadLetterAccess, DeadLetterRecord, DeadLetterTopic, Item};
use crate::select::{PartitionOffset, Selection};
use crate::sent_offsets::SentOffsets;
use crate::text::{render_time, sanitize_text};

/// Maximum reasons counted separately. Ours are some thirty; a foreign writer's could be any
/// number.
const MAX_REASONS: usize = 200;
/// The sum of all other reasons.
const OTHER: &str = "(other)";

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Columns for people.
    Text,
    /// A JSON object per line.
    Json,
}

/// Options of a list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The selected dead letters.
    pub selection: Selection,
    /// Maximum lines for each topic, of the newest dead letters. Sums count all.
    pub limit: usize,
    /// The output format.
    pub format: OutputFormat,
}

/// Writes the list.
///
/// # Errors
/// When a topic can't be read to its end, or `out` can't be written.
pub fn list_dead_letters(
    access: &DeadLetterAccess,
    options: &ListOptions,
    out: &mut dyn Write,
) -> Result<(), DeadLetterError> {
    let reader = access.open_reader()?;
    for topic in &access.topics {
        let mut listing = Listing::default();
        let since = options.selection.since_millis;
        reader.read_all(topic, since, &mut |item| {
            listing.add_item(item, options);
            Ok(())
        })?;
        match options.format {
            OutputFormat::Text => listing.write_text(topic, out)?,
            OutputFormat::Json => listing.write_json(topic, out)?,
        }
    }
    Ok(())
}

#[derive(Default)]
struct Listing {
    lines: VecDeque<DeadLetterLine>,
    dead_letter_count: u64,
    by_reason: BTreeMap<String, u64>,
    sent: HashMap<i32, SentOffsets>,
}

/// A dead letter without its bytes, with sanitized text.
struct DeadLetterLine {
    position: PartitionOffset,
    at_millis: Option<i64>,
    signal: &'static str,
    reason: String,
    detail: String,
    source: String,
    bytes: usize,
    version: String,
}

impl Listing {
    fn add_item(&mut self, item: Item, options: &ListOptions) {
        let found = match item {
            Item::Mark(partition, sent) => {
                return self.sent.entry(partition).or_default().merge(&sent);
            }
            Item::DeadLetter(found) => *found,
        };
        let DeadLetterRecord { position, at_millis, signal, headers, .. } = &found;
        if !options.selection.selects(*position, *at_millis, *signal, headers) {
            return;
        }
        let line = DeadLetterLine::from_record(&found);
        self.dead_letter_count += 1;
        let full =
            self.by_reason.len() >= MAX_REASONS && !self.by_reason.contains_key(&line.reason);
        let reason = if full { OTHER } else { &line.reason };
        *self.by_reason.entry(reason.to_owned()).or_default() += 1;
        self.lines.push_back(line);
        if self.lines.len() > options.limit {
            self.lines.pop_front();
        }
    }

    fn is_sent(&self, position: PartitionOffset) -> bool {
        self.sent.get(&position.partition).is_some_and(|sent| sent.contains(position.offset))
    }

    fn sorted_lines(&self) -> Vec<&DeadLetterLine> {
        let mut lines: Vec<&DeadLetterLine> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.position);
        lines
    }

    fn write_text(&self, topic: &DeadLetterTopic, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}", topic.name)?;
        let columns =
            |[location, at, signal, reason, source, bytes, version, sent, detail]: [&str; 9]| {
                let line = format!(
                    "  {location:<8} {at:<24} {signal:<7} {reason:<21} {source:<20} {bytes:>8} \
                 {version:<7} {sent:<4} {detail}"
                );
                line.trim_end().to_owned()
            };
        if !self.lines.is_empty() {
            let head = [
                "POSITION", "TIME", "SIGNAL", "REASON", "SOURCE", "BYTES", "VERSION", "SENT",
                "DETAIL",
            ];
            writeln!(out, "{}", columns(head))?;
        }
        for line in self.sorted_lines() {
            let DeadLetterLine {
                position,
                at_millis,
                signal,
                reason,
                detail,
                source,
                bytes,
                version,
            } = line;
            let sent = if self.is_sent(*position) { "yes" } else { "no" };
            let (offset, at, bytes) =
                (position.to_string(), render_time(*at_millis), bytes.to_string());
            let row = [offset.as_str(), &at, signal, reason, source, &bytes, version, sent, detail];
            writeln!(out, "{}", columns(row))?;
        }
        let shown = self.lines.len() as u64;
        let older = if shown < self.dead_letter_count {
            format!(", the newest {shown} shown")
        } else {
            String::new()
        };
        writeln!(out, "  dead_letters={}{older}", self.dead_letter_count)?;
        for (reason, count) in &self.by_reason {
            writeln!(out, "  reason={reason} dead_letters={count}")?;
        }
        Ok(())
    }

    fn write_json(&self, topic: &DeadLetterTopic, out: &mut dyn Write) -> std::io::Result<()> {
        for line in self.sorted_lines() {
            let DeadLetterLine {
                position,
                at_millis,
                signal,
                reason,
                detail,
                source,
                bytes,
                version,
            } = line;
            let object = json!({
                "topic": topic.name.as_str(), "partition": position.partition,
                "offset": position.offset, "time": render_time(*at_millis), "signal": signal,
                "reason": reason, "detail": detail, "source": source, "bytes": bytes,
                "version": version, "sent": self.is_sent(*position),
            });
            writeln!(out, "{object}")?;
        }
        let sums = json!({
            "topic": topic.name.as_str(), "deadLetters": self.dead_letter_count,
            "shown": self.lines.len(), "byReason": self.by_reason,
        });
        writeln!(out, "{sums}")
    }
}

impl DeadLetterLine {
    fn from_record(found: &DeadLetterRecord) -> Self {
        let DeadLetterRecord { position, at_millis, signal, headers, payload, .. } = found;
        let text =
            |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), sanitize_text);
        Self {
            position: *position,
            at_millis: *at_millis,
            signal: signal.map_or("-", |signal| signal.as_str()),
            reason: text(&headers.reason),
            detail: text(&headers.detail),
            source: source_of(found),
            bytes: payload.len(),
            version: text(&headers.version),
        }
    }
}

/// Returns the source of a dead letter: topic, partition and offset as far as they are known.
pub(crate) fn source_of(found: &DeadLetterRecord) -> String {
    let headers = &found.headers;
    let topic = headers.source_topic.as_deref().map_or_else(|| "-".to_owned(), sanitize_text);
    let known = headers.source_partition.zip(headers.source_offset);
    let position =
        known.map(|(partition, offset)| format!(" {}", PartitionOffset { partition, offset }));
    topic + &position.unwrap_or_default()
}

#[cfg(test)]
mod tests;
