//! Tests of `resend.rs` against librdkafka's mock cluster.

use millrace_config::{BootstrapServer, GroupId, KafkaConnection};
use millrace_pipeline::dead_letter;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, Producer as _};

use super::*;

/// Writes a dead letter of `otlp_logs` 3:41, with these bytes.
fn write_letter(servers: &str, topic: &str, payload: &[u8]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", servers).create().unwrap();
    let headers = [
        (dead_letter::REASON, "too_long"),
        (dead_letter::DETAIL, "9000000 bytes exceed the 8388608 bytes that can be decoded"),
        (dead_letter::SOURCE_TOPIC, "otlp_logs"),
        (dead_letter::SOURCE_PARTITION, "3"),
        (dead_letter::SOURCE_OFFSET, "41"),
    ];
    let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(*value) })
    });
    let record = BaseRecord::<[u8], [u8]>::to(topic).payload(payload).headers(headers).partition(0);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(DELIVERY_TIMEOUT).unwrap();
}

/// Scenario: of two dead letters one was written without its bytes; all are sent again. Guarantee:
/// only the other is sent; the refusal names the source of the bytes and what to do, and is
/// counted.
#[test]
fn a_letter_without_bytes_is_refused_with_the_place_of_its_bytes() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_logs", 4, 1).unwrap();
    mock.create_topic("otlp_logs_dead_letter", 1, 1).unwrap();
    let servers = mock.bootstrap_servers();
    write_letter(&servers, "otlp_logs_dead_letter", b"");
    write_letter(&servers, "otlp_logs_dead_letter", b"bytes");
    let server: BootstrapServer = servers.parse().unwrap();
    let source = TopicName::new("otlp_logs").unwrap();
    let desk = DeadLetterAccess {
        connection: KafkaConnection {
            bootstrap_servers: vec![server],
            ..KafkaConnection::default()
        },
        group: GroupId::new("g").unwrap(),
        topics: vec![DeadLetterTopic {
            name: TopicName::new("otlp_logs_dead_letter").unwrap(),
            signal: None,
            source: Some(source.clone()),
        }],
    };
    let mut out = Vec::new();
    let done = resend_dead_letters(&desk, &ResendOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!((done.sent, done.without_bytes), (1, 1), "{text}");
    for part in ["refused otlp_logs_dead_letter 0:0", "from otlp_logs 3:41", "at most 8Mi"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let reader = desk.open_reader().unwrap();
    let mut payloads = Vec::new();
    let written = DeadLetterTopic { name: source, signal: None, source: None };
    let each = &mut |item| {
        if let Item::DeadLetter(found) = item {
            payloads.push(found.payload);
        }
        Ok(())
    };
    reader.read_all(&written, None, each).unwrap();
    assert_eq!(payloads, [b"bytes"]);
}
