//! Reads a message's headers as bytes.
//!
//! The client library's own accessor panics on a header name that isn't UTF-8, and anybody who may
//! write to the topic can send one: a gateway would end at it again and again. Here such a name is
//! read with U+FFFD in place of what isn't text. Like `metadata`, this module is unsafe.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;

use rdkafka::bindings::{
    rd_kafka_header_get_all, rd_kafka_headers_t, rd_kafka_message_headers, rd_kafka_resp_err_t,
};
use rdkafka::message::BorrowedMessage;

/// A header's name and value.
pub type RawHeader = (String, Option<Vec<u8>>);

/// The headers of `message`, in order.
#[must_use]
pub fn headers(message: &BorrowedMessage<'_>) -> Vec<RawHeader> {
    let mut native: *mut rd_kafka_headers_t = ptr::null_mut();
    // SAFETY: the message is valid while it is borrowed, and what is written is a pointer into it.
    let found = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut native) };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || native.is_null() {
        return Vec::new();
    }
    (0..).map_while(|index| header(native, index)).collect()
}

fn header(native: *const rd_kafka_headers_t, index: usize) -> Option<RawHeader> {
    let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
    // SAFETY: `native` belongs to a message that its only caller has borrowed; past the last header
    // the library answers with an error and writes nothing.
    let found = unsafe {
        rd_kafka_header_get_all(native, index, &raw mut name, &raw mut value, &raw mut bytes)
    };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
        return None;
    }
    // SAFETY: the library ends names with a zero byte, and keeps them as long as the message.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let value = (!value.is_null()).then(|| {
        // SAFETY: a value that isn't null has `bytes` bytes, kept as long as the message.
        unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) }.to_vec()
    });
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdkafka::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::message::{Header, OwnedHeaders};
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

    use super::headers;

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
        // SAFETY: the library hands on the pointer and the length, and never reads it as text.
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
            headers(&message),
            [
                ("a\u{fffd}".to_owned(), Some(b"x".to_vec())),
                ("none".to_owned(), None),
                ("bytes".to_owned(), Some(vec![0xff, 0])),
            ]
        );
    }
}
