//! Topics that accept shorter messages than the edge makes: refused messages are sent in parts.

use millrace_pipeline::cancellation::{CancelOutcome, Canceller};
use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as TOO_LONG;

use super::*;

/// Scenario: four requests share a message, which the topic refuses, and both its halves, but not
/// single requests; then one request with four records, which it refuses. Guarantee: each client is
/// answered with success, each record is stored once, no budget is held any more; further requests
/// are joined to shorter messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_too_long_for_its_topic_is_sent_in_parts() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 300);
    let name = |index: usize| format!("span-{index}-{}", "x".repeat(3_000));
    let four: Vec<String> = (0..4).map(name).collect();
    let mut stored = Vec::new();
    for joined in [true, false] {
        mock.request_errors(RDKafkaApiKey::Produce, &[TOO_LONG; 3][..if joined { 3 } else { 1 }]);
        let deliveries: Vec<PendingDelivery> = match joined {
            true => four.iter().map(|it| rig.publish(&spans([it.clone()]), 1).unwrap()).collect(),
            false => vec![rig.publish(&spans(four.clone()), 4).unwrap()],
        };
        for delivery in deliveries {
            assert_eq!(delivery.await, Ok(DeliveryReceipt::default()), "joined: {joined}");
        }
        stored.extend(four.clone());
    }
    assert_eq!(rig.budget.used_bytes(), 0);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 8);
    let refused = "millrace_records_refused_total{reason=\"unavailable\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 0);
    let messages = rig.metric("millrace_produce_duration_seconds_count") as usize;
    assert!((6..=8).contains(&messages), "the four by themselves, the one in parts: {messages}");
    let mut found: Vec<String> =
        read(&mock, "otlp_traces", messages, |m| names(m.payload().unwrap())).concat();
    found.sort();
    stored.sort();
    assert_eq!(found, stored);
    // Of 3 kB each, and joined to under 4 kB by now.
    let deliveries: Vec<PendingDelivery> =
        four.iter().map(|it| rig.publish(&spans([it.clone()]), 1).unwrap()).collect();
    for delivery in deliveries {
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    let shared = rig.metric("millrace_produce_duration_seconds_count") as usize - messages;
    assert_eq!(shared, 4, "none shares a message");
}

/// Scenario: a single record that its topic never accepts. Guarantee: its client gets a retryable
/// answer, as before, and the other requests in the message are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_record_too_long_by_itself_is_given_back_alone() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 300);
    // The message, then its first half, which is only the long record.
    mock.request_errors(RDKafkaApiKey::Produce, &[TOO_LONG; 2]);
    let long = rig.publish(&spans(["x".repeat(7_000)]), 1).unwrap();
    let short = rig.publish(&spans(["short".to_owned()]), 1).unwrap();
    assert!(matches!(long.await, Err(PublishError::Unavailable(_) | PublishError::Unconfirmed(_))));
    assert_eq!(short.await, Ok(DeliveryReceipt::default()));
    assert_eq!(rig.metric("millrace_produce_failures_total{class=\"too_large\"}"), 1);
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: of two requests in a message one has a client that is answered while the message is
/// with its topic, which refuses it as too long. Guarantee: the other is sent separately, and the
/// first, which is not stored, isn't sent again: its client does that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_is_gone_stops_no_other_from_being_sent_in_parts() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 60_000);
    mock.request_errors(RDKafkaApiKey::Produce, &[TOO_LONG]);
    mock.broker_round_trip_time(1, Duration::from_secs(1)).unwrap();
    let gone = Canceller::new(Instant::now() + PATIENCE);
    let unread = rig.publish_for(gone.cancellation(), &spans(["gone".to_owned()]), 1).unwrap();
    let stays = rig.publish(&spans(["stays".to_owned()]), 1).unwrap();
    assert!(!rig.publisher.flush(Duration::ZERO), "the message is with the topic");
    assert_eq!(gone.cancel(), CancelOutcome::MayBeStored);
    drop(unread);
    assert_eq!(stays.await, Ok(DeliveryReceipt::default()));
    let found = read(&mock, "otlp_traces", 1, |m| names(m.payload().unwrap()));
    assert_eq!(found, [["stays"]]);
    let not_sent = "millrace_records_refused_total{reason=\"timeout\",signal=\"traces\"}";
    assert_eq!(rig.metric(not_sent), 1);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
}
