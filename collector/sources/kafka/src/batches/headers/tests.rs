//! Tests of `headers.rs`.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::read_headers;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Scenario: a message with a header whose name isn't UTF-8, one without a value, and one of
/// bytes. Guarantee: all are read, in order, and nothing panics.
#[test]
fn a_header_name_that_is_no_text_is_read_all_the_same() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("t", 1, 1).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", mock.bootstrap_servers()).set("group.id", "g");
    let name = std::hint::black_box(*b"a\xff");
    // SAFETY: the library passes on the pointer and the length, and never reads it as text.
    let hostile = unsafe { std::str::from_utf8_unchecked(&name) };
    let sent = OwnedHeaders::new()
        .insert(Header { key: hostile, value: Some("x") })
        .insert(Header { key: "none", value: None::<&str> })
        .insert(Header { key: "bytes", value: Some(&[0xff_u8, 0][..]) });
    let producer: BaseProducer = config.create().unwrap();
    let record = BaseRecord::<(), [u8]>::to("t").partition(0).payload(b"x").headers(sent);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(TIMEOUT).unwrap();
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("t", 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let message = consumer.poll(TIMEOUT).unwrap().unwrap();
    assert_eq!(
        read_headers(&message),
        [
            ("a\u{fffd}".to_owned(), Some(b"x".to_vec())),
            ("none".to_owned(), None),
            ("bytes".to_owned(), Some(vec![0xff, 0])),
        ]
    );
}
