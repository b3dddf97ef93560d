//! Brokers that refuse for a while, one code after the other, and leaders that move.

use rdkafka::types::RDKafkaRespErr::{
    RD_KAFKA_RESP_ERR_INVALID_MSG, RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
    RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
    RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
};

use super::*;

/// Scenario: each code with which a broker may refuse to store for a while, twice in a row.
/// Guarantee: the client is answered once, with success, and the message is stored once. The mock
/// stores nothing when it refuses; a message that it stored nevertheless is recognised by its
/// number.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_passing_code_is_tried_again_without_a_second_copy() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    let codes = [
        RD_KAFKA_RESP_ERR_INVALID_MSG,
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ];
    let mut sent = Vec::new();
    for code in codes {
        let name = format!("{code:?}");
        mock.request_errors(RDKafkaApiKey::Produce, &[code; 2]);
        let delivery = rig.publish(&spans([name.clone()]), 1).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()), "{name}");
        sent.push(vec![name]);
    }
    let stored = read(&mock, "otlp_traces", sent.len(), |m| names(m.payload().unwrap()));
    assert_eq!(stored, sent);
}

/// Scenario: codes that may also be temporary, and which librdkafka returns the first time.
/// Guarantee: the client gets a retryable answer, with an unknown outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_not_tried_again_is_given_back_to_send_again() {
    let mock = mock();
    let rig = Rig::ready(&mock, |_| {});
    for code in [RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP] {
        mock.request_errors(RDKafkaApiKey::Produce, &[code]);
        let delivery = rig.publish(&spans(["one".to_owned()]), 1).unwrap();
        assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))), "{code:?}");
        let delivery = rig.publish(&spans([format!("{code:?}")]), 1).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()), "{code:?}");
    }
}

/// Scenario: the partition's leader moves repeatedly among three brokers, and a former leader goes
/// down permanently. Guarantee: every request is answered with success and is stored once, in
/// order.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_that_moves_is_followed() {
    let mock: Mock = MockCluster::new(3).unwrap();
    mock.create_topic("otlp_traces", 1, 3).unwrap();
    let rig = Rig::ready(&mock, |_| {});
    let mut sent = Vec::new();
    for (turn, leader) in [2, 3, 1, 2].into_iter().enumerate() {
        mock.partition_leader("otlp_traces", 0, Some(leader)).unwrap();
        if turn == 3 {
            mock.broker_down(1).unwrap();
        }
        let name = format!("turn {turn}");
        let delivery = rig.publish(&spans([name.clone()]), 1).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()), "{name}");
        sent.push(vec![name]);
    }
    // This test's reader gets an error for every broker that is down.
    mock.broker_up(1).unwrap();
    let stored = read(&mock, "otlp_traces", sent.len(), |m| names(m.payload().unwrap()));
    assert_eq!(stored, sent);
    assert_eq!(rig.budget.used_bytes(), 0);
}
