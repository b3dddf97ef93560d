//! Topics that take shorter messages than the edge makes: what is refused is sent in parts.

use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as TOO_LONG;

use super::*;

/// Scenario: four requests that share a message, which the topic refuses and both its halves, but
/// not single requests; then one request with four records, which it refuses. Guarantee: each
/// client hears success, each record is there once, nothing is held any more; further requests are
/// joined to messages that are shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_too_long_for_its_topic_is_sent_in_parts() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 300);
    let name = |index: usize| format!("span-{index}-{}", "x".repeat(3_000));
    let four: Vec<String> = (0..4).map(name).collect();
    let mut stored = Vec::new();
    for joined in [true, false] {
        mock.request_errors(RDKafkaApiKey::Produce, &[TOO_LONG; 3][..if joined { 3 } else { 1 }]);
        let deliveries: Vec<Delivery> = match joined {
            true => four.iter().map(|it| rig.publish(&spans([it.clone()]), 1).unwrap()).collect(),
            false => vec![rig.publish(&spans(four.clone()), 4).unwrap()],
        };
        for delivery in deliveries {
            assert_eq!(delivery.await, Ok(Delivered::default()), "joined: {joined}");
        }
        stored.extend(four.clone());
    }
    assert_eq!(rig.budget.used_bytes(), 0);
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 0);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 8);
    let refused = "millrace_records_refused_total{reason=\"unavailable\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 0);
    let messages = rig.metric("millrace_produce_seconds_count") as usize;
    assert!((6..=8).contains(&messages), "the four by themselves, the one in parts: {messages}");
    let mut found: Vec<String> =
        read(&mock, "otlp_traces", messages, |m| names(m.payload().unwrap())).concat();
    found.sort();
    stored.sort();
    assert_eq!(found, stored);
    // Of 3 kB each, and joined to under 4 kB by now.
    let deliveries: Vec<Delivery> =
        four.iter().map(|it| rig.publish(&spans([it.clone()]), 1).unwrap()).collect();
    for delivery in deliveries {
        assert_eq!(delivery.await, Ok(Delivered::default()));
    }
    let shared = rig.metric("millrace_produce_seconds_count") as usize - messages;
    assert_eq!(shared, 4, "none shares a message");
}

/// Scenario: a single record that its topic never takes. Guarantee: its client is told to come
/// back, as before, and the others' requests beside it in the message are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_record_too_long_by_itself_is_given_back_alone() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 300);
    // The message, then its first half, which is the long record alone.
    mock.request_errors(RDKafkaApiKey::Produce, &[TOO_LONG; 2]);
    let long = rig.publish(&spans(["x".repeat(7_000)]), 1).unwrap();
    let short = rig.publish(&spans(["short".to_owned()]), 1).unwrap();
    assert!(matches!(long.await, Err(Refused::Unavailable(_) | Refused::Unconfirmed(_))));
    assert_eq!(short.await, Ok(Delivered::default()));
    assert_eq!(rig.metric("millrace_produce_failures_total{class=\"too_large\"}"), 1);
    assert_eq!(rig.budget.used_bytes(), 0);
}
