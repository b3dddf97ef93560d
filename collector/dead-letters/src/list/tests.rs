//! Tests of private items of `list.rs`.

use millrace_config::TopicName;
use millrace_pipeline::dead_letter::DeadLetterHeaders;
use millrace_wire::Signal;

use super::{ListOptions, Listing, OutputFormat};
use crate::reader::{DeadLetterRecord, DeadLetterTopic, Item};
use crate::select::{PartitionOffset, Selection};

fn letter(offset: i64, reason: &str) -> Item {
    Item::DeadLetter(Box::new(DeadLetterRecord {
        position: PartitionOffset { partition: 0, offset },
        at_millis: Some(1_767_225_600_000),
        signal: Some(Signal::Traces),
        headers: DeadLetterHeaders {
            reason: Some(reason.to_owned()),
            detail: Some("at byte 1\u{1b}[31m".to_owned()),
            source_topic: Some("otlp_traces".to_owned()),
            source_partition: Some(2),
            source_offset: Some(40 + offset),
            version: Some("0.1.0".to_owned()),
            ..DeadLetterHeaders::default()
        },
        key: None,
        payload: vec![0; 4],
    }))
}

fn listing(limit: usize) -> (Listing, DeadLetterTopic) {
    let options =
        ListOptions { selection: Selection::default(), limit, format: OutputFormat::Text };
    let mut listing = Listing::default();
    for (offset, reason) in [(5, "truncated"), (6, "utf8"), (7, "utf8")] {
        listing.add_item(letter(offset, reason), &options);
    }
    listing.add_item(Item::Mark(0, "6".parse().unwrap()), &options);
    let name = TopicName::new("otlp_traces_dead_letter").unwrap();
    (listing, DeadLetterTopic { name, signal: None, source: None })
}

/// Scenario: three dead letters, one sent again, two lines allowed. Guarantee: the newest two with
/// their facts, sums over all three, no control characters.
#[test]
fn the_newest_are_shown_and_all_are_counted() {
    let (listing, topic) = listing(2);
    let mut out = Vec::new();
    listing.write_text(&topic, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        words[..9],
        [
            "0:6",
            "2026-01-01T00:00:00.000Z",
            "traces",
            "utf8",
            "otlp_traces",
            "2:46",
            "4",
            "0.1.0",
            "yes"
        ]
    );
    assert!(lines[3].contains(" no ") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(
        lines[4..],
        [
            "  dead_letters=3, the newest 2 shown",
            "  reason=truncated dead_letters=1",
            "  reason=utf8 dead_letters=2"
        ]
    );
}

/// Scenario: the same as JSON. Guarantee: one object per line, the sums last.
#[test]
fn json_is_an_object_a_line() {
    let (listing, topic) = listing(10);
    let mut out = Vec::new();
    listing.write_json(&topic, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    assert_eq!((&objects[1]["offset"], &objects[1]["sent"]), (&6.into(), &true.into()));
    assert_eq!((&objects[3]["deadLetters"], &objects[3]["shown"]), (&3.into(), &3.into()));
    assert_eq!(objects[3]["byReason"]["utf8"], 2);
}
