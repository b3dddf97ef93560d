//! Tests of private items of `show.rs`.

use millrace_config::TopicName;
use millrace_pipeline::dead_letter::DeadLetterHeaders;
use millrace_wire::Signal;
use proptest::prelude::*;

use super::render_dead_letter;
use crate::reader::{DeadLetterRecord, DeadLetterTopic};
use crate::select::PartitionOffset;

fn show(
    signal: Option<Signal>,
    payload: &[u8],
    own_headers: Vec<(String, Option<Vec<u8>>)>,
) -> String {
    let name = TopicName::new("otlp_traces_dead_letter").unwrap();
    let topic = DeadLetterTopic { name, signal: None, source: None };
    let letter = DeadLetterHeaders { record_headers: own_headers, ..DeadLetterHeaders::default() };
    let found = DeadLetterRecord {
        position: PartitionOffset { partition: 0, offset: 12 },
        at_millis: None,
        signal,
        headers: letter,
        key: Some(b"k".to_vec()),
        payload: payload.to_vec(),
    };
    render_dead_letter(&topic, &found)
}

/// Scenario: a readable dead letter, a broken one, one of an unknown kind. Guarantee: JSON; the
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
    /// Scenario: bytes, names and values of any kind. Guarantee: text without control characters
    /// except line ends, never a panic.
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
