//! The gateway's dead letters: unchanged in their topic, sent until they are safe, bounded, listed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millrace_config::TopicName;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{
    CompletionQueue, DeadLetter, DeadLetterSink, DeliveryOutcome, Rejection,
};
use millrace_sink_kafka::{KafkaDeadLetters, RecentDeadLetters, StoredDeadLetter};
use millrace_wire::Signal;
use rdkafka::message::{Headers, Message};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{Mock, PATIENCE, connection, mock, only_traces, read};

fn letter(offset: i64) -> DeadLetter {
    DeadLetter {
        signal: Signal::Traces,
        topic: "otlp_traces".into(),
        partition: 3,
        offset,
        timestamp_millis: Some(1_700_000_000_000),
        key: Some(b"key".to_vec()),
        headers: vec![("own".to_owned(), Some(b"kept".to_vec())), ("none".to_owned(), None)],
        payload: b"not protobuf".to_vec(),
        rejection: Rejection { reason: "truncated", detail: "at byte 7".to_owned() },
    }
}

fn letters(mock: &Mock) -> (KafkaDeadLetters, Drain, Arc<RecentDeadLetters>) {
    let drain = Drain::new(Duration::from_secs(5));
    let topics = only_traces("otlp_traces_dead_letter");
    let (connection, recent) = (connection(mock), Arc::<RecentDeadLetters>::default());
    let started = KafkaDeadLetters::start(&connection, topics, "0.1.0", &drain, recent.clone());
    (started.unwrap(), drain, recent)
}

/// Scenario: a bad record. Guarantee: its topic holds key, time, headers and bytes unchanged, and
/// its origin and reason; it is answered only then.
#[test]
fn a_dead_letter_is_kept_as_it_was_with_its_origin() {
    let mock = mock();
    let (letters, ..) = letters(&mock);
    let mut answers = CompletionQueue::new(1);
    let completion = answers.open_part().unwrap();
    assert!(letters.submit(letter(42), completion).is_ok());
    assert_eq!(answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    let found = read(&mock, "otlp_traces_dead_letter", 1, |message| {
        let headers = message.headers().unwrap().iter();
        let headers: Vec<(String, Option<String>)> = headers
            .map(|h| (h.key.to_owned(), h.value.map(|v| String::from_utf8_lossy(v).into_owned())))
            .collect();
        let time = message.timestamp().to_millis();
        (message.key().unwrap().to_vec(), message.payload().unwrap().to_vec(), time, headers)
    });
    let (key, payload, time, headers) = &found[0];
    assert_eq!((key.as_slice(), payload.as_slice()), (&b"key"[..], &b"not protobuf"[..]));
    assert_eq!(*time, Some(1_700_000_000_000));
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).unwrap().1.as_deref();
    assert_eq!(header("own"), Some("kept"));
    assert_eq!(header("none"), None);
    assert_eq!(header("millrace-reason"), Some("truncated"));
    assert_eq!(header("millrace-detail"), Some("at byte 7"));
    assert_eq!(header("millrace-source-topic"), Some("otlp_traces"));
    assert_eq!(header("millrace-source-partition"), Some("3"));
    assert_eq!(header("millrace-source-offset"), Some("42"));
    assert_eq!(header("millrace-version"), Some("0.1.0"));
    assert!(letters.flush(Duration::from_secs(1)));
}

/// Scenario: the broker refuses a dead letter for permanent reasons. Guarantee: it is sent again
/// until it is stored, and answered once.
#[test]
fn a_refused_letter_is_sent_again_until_it_is_safe() {
    let mock = mock();
    let (letters, ..) = letters(&mock);
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    mock.request_errors(RDKafkaApiKey::Produce, &[refused; 2]);
    let mut answers = CompletionQueue::new(1);
    assert!(letters.submit(letter(1), answers.open_part().unwrap()).is_ok());
    assert_eq!(answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    assert_eq!(answers.try_next(), None);
}

/// Scenario: more dead letters of one signal than may be in flight, with Kafka down, and one of
/// another signal. Guarantee: the surplus of the first is returned, the other is accepted, and at
/// the end those in flight are abandoned, each answered.
#[test]
fn letters_are_bounded_and_abandoned_at_the_end() {
    let mock = mock();
    let (letters, drain, _) = letters(&mock);
    mock.broker_down(1).unwrap();
    let mut answers = CompletionQueue::new(335);
    for offset in 0..333 {
        assert!(letters.submit(letter(offset), answers.open_part().unwrap()).is_ok());
    }
    let returned = letters.submit(letter(333), answers.open_part().unwrap()).unwrap_err();
    assert_eq!(returned.work.offset, 333);
    let signals = [Signal::Traces, Signal::Logs, Signal::Metrics];
    let other = signals.into_iter().find(|signal| *signal != letter(0).signal).unwrap();
    let other = DeadLetter { signal: other, ..letter(0) };
    assert!(letters.submit(other, answers.open_part().unwrap()).is_ok());
    drain.begin();
    drop(returned);
    drop(letters);
    let mut abandoned = 0;
    while let Some(answer) = answers.try_next() {
        assert_eq!(answer.outcome, DeliveryOutcome::Abandoned);
        abandoned += 1;
    }
    assert_eq!((abandoned, answers.open_parts()), (335, 0));
}

/// Scenario: two bad records, one after the other. Guarantee: each is listed once it is answered,
/// the newest first, with its position in the dead-letter topic, origin, reason, size and time.
#[test]
fn stored_dead_letters_are_listed_with_their_positions() {
    let mock = mock();
    let (letters, _, recent) = letters(&mock);
    let mut answers = CompletionQueue::new(2);
    for (source_offset, listed) in [(42, 0), (43, 1)] {
        assert_eq!(recent.list_newest().len(), listed);
        assert!(letters.submit(letter(source_offset), answers.open_part().unwrap()).is_ok());
        assert_eq!(answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    }
    let stored = read(&mock, "otlp_traces_dead_letter", 2, |message| {
        let mut headers = message.headers().unwrap().iter();
        let source = headers.find(|header| header.key == "millrace-source-offset").unwrap().value;
        (message.offset(), String::from_utf8_lossy(source.unwrap()).into_owned())
    });
    assert_eq!(stored, [(0, "42".to_owned()), (1, "43".to_owned())]);
    let listed = recent.list_newest();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(listed.iter().all(|it| now - it.stored_at_seconds <= PATIENCE.as_secs()), "{listed:?}");
    let expected = [(1, 43), (0, 42)].map(|(offset, source_offset)| StoredDeadLetter {
        signal: Signal::Traces,
        topic: TopicName::new("otlp_traces_dead_letter").unwrap(),
        partition: 0,
        offset: Some(offset),
        source_topic: "otlp_traces".into(),
        source_partition: 3,
        source_offset,
        reason: "truncated",
        payload_bytes: b"not protobuf".len(),
        stored_at_seconds: 0,
    });
    let listed = listed.into_iter().map(|it| StoredDeadLetter { stored_at_seconds: 0, ..it });
    assert_eq!(listed.collect::<Vec<_>>(), expected);
}
