//! Tests of the private code of `dead_letter.rs`.

use std::sync::Arc;

use millrace_wire::Signal;

use super::{
    DeadLetterHeaders, MessageHeader, REASON, SOURCE_OFFSET, SOURCE_PARTITION, encode_headers,
};
use crate::sink::{DeadLetter, Rejection};

fn dead_letter(headers: Vec<MessageHeader>) -> DeadLetter {
    DeadLetter {
        signal: Signal::Logs,
        topic: Arc::from("otlp_logs"),
        partition: 3,
        offset: 4711,
        timestamp_millis: None,
        key: None,
        headers,
        payload: Vec::new(),
        rejection: Rejection { reason: "utf8", detail: "at byte 7".to_owned() },
    }
}

fn all(letter: &DeadLetter) -> Vec<MessageHeader> {
    let own = letter.headers.iter().cloned();
    let ours = encode_headers(letter, "0.1.0");
    own.chain(ours.map(|(name, value)| (name.to_owned(), Some(value.into_bytes())))).collect()
}

/// Scenario: a record with headers, one of them named like ours, becomes a dead letter. Guarantee:
/// all that was written is read, and the record's own headers are unchanged.
#[test]
fn what_is_written_is_read_back() {
    let own: Vec<MessageHeader> = vec![
        ("trace".to_owned(), Some(vec![0xff, 0])),
        (REASON.to_owned(), Some(b"mine".to_vec())),
        ("empty".to_owned(), None),
    ];
    let letter = dead_letter(own.clone());
    let read = DeadLetterHeaders::read(all(&letter));
    assert_eq!(
        read,
        DeadLetterHeaders {
            reason: Some("utf8".to_owned()),
            detail: Some("at byte 7".to_owned()),
            signal: Some(Signal::Logs),
            source_topic: Some("otlp_logs".to_owned()),
            source_partition: Some(3),
            source_offset: Some(4711),
            version: Some("0.1.0".to_owned()),
            record_headers: own,
        }
    );
}

/// Scenario: foreign or damaged headers. Guarantee: invalid values are absent.
#[test]
fn headers_that_are_not_as_they_should_be_are_absent() {
    assert_eq!(DeadLetterHeaders::read(Vec::new()), DeadLetterHeaders::default());
    let read = DeadLetterHeaders::read(vec![
        (REASON.to_owned(), Some(vec![0xff])),
        (SOURCE_PARTITION.to_owned(), Some(b"-1".to_vec())),
        (SOURCE_OFFSET.to_owned(), Some(b"99999999999999999999".to_vec())),
    ]);
    assert_eq!(read, DeadLetterHeaders::default());
}
