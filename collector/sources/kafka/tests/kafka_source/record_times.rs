//! Which times of records a gateway accepts: by the time of their message, not by its own clock.

use std::time::UNIX_EPOCH;

use rdkafka::producer::{BaseRecord, Producer};

use super::fake_sink::{FakeSink, Mode};
use super::{Kafka, Options, PATIENCE, Running, TOPIC, eventually};

/// Scenario: messages sent now and five years ago, as a mirror or a restored topic has them, with
/// records of their own time, and each with records of the other's. Guarantee: the former are
/// stored, the latter are dead letters with their reason; the settings' bounds are a day wider.
#[test]
fn times_far_from_their_messages_are_dead_letters() {
    const DAY_MILLIS: i64 = 86_400_000;
    let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let then = now - 5 * 365 * DAY_MILLIS;
    let kafka = Kafka::new(1);
    let send = |sent_millis: i64, record_millis: i64| {
        let payload = format!("@{}", record_millis * 1_000_000);
        let record = BaseRecord::<(), _>::to(TOPIC).partition(0).payload(&payload);
        kafka.producer.send(record.timestamp(sent_millis)).unwrap();
        kafka.producer.flush(PATIENCE).unwrap();
        payload
    };
    let mut accepted = Vec::new();
    for sent in [now, then] {
        for days in [0, -400, 2, -401, 3] {
            accepted.push(send(sent, sent + days * DAY_MILLIS));
        }
    }
    let refused: Vec<String> = [(now, then), (then, now), (now, now - 402 * DAY_MILLIS)]
        .map(|(sent, record)| send(sent, record))
        .into();
    let sink = FakeSink::new(Mode::Store);
    let running = Running::start(&kafka, &sink, Options::default());
    eventually("all committed", || kafka.committed(0) == Some(13));
    accepted.sort();
    assert_eq!(sink.messages(), accepted);
    let letters = sink.letters();
    let found: Vec<&[u8]> = letters.iter().map(|letter| letter.payload.as_slice()).collect();
    assert_eq!(found, refused.iter().map(String::as_bytes).collect::<Vec<_>>());
    assert!(letters.iter().all(|letter| letter.rejection.reason == "time_out_of_range"));
    running.stop();
}
