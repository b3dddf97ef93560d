//! Topic ids: which topic a name currently identifies.
//!
//! A topic that is deleted and recreated has its old name and another id. The client library
//! continues at the old position (librdkafka 2.12, `rd_kafka_topic_metadata_update`: "an offset
//! reset must be triggered"), so if the new topic has grown that far before the next fetch, its
//! first messages are skipped silently. The ids show it. The library's safe interface doesn't have
//! them: like `headers`, this module is unsafe. It decides nothing.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::bindings::{
    rd_kafka_AdminOptions_destroy, rd_kafka_AdminOptions_new, rd_kafka_AdminOptions_set_broker,
    rd_kafka_AdminOptions_set_request_timeout, rd_kafka_DescribeTopics,
    rd_kafka_DescribeTopics_result_topics, rd_kafka_TopicCollection_destroy,
    rd_kafka_TopicCollection_of_topic_names, rd_kafka_TopicDescription_error,
    rd_kafka_TopicDescription_name, rd_kafka_TopicDescription_t,
    rd_kafka_TopicDescription_topic_id, rd_kafka_Uuid_least_significant_bits,
    rd_kafka_Uuid_most_significant_bits, rd_kafka_admin_op_t, rd_kafka_error_code,
    rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_event_error,
    rd_kafka_queue_destroy, rd_kafka_queue_new, rd_kafka_queue_poll, rd_kafka_queue_t,
    rd_kafka_resp_err_t,
};
use rdkafka::consumer::Consumer;

use crate::topics::query_client::QueryConsumer;

/// The interval of requests for the topics' ids while nothing is committed: messages of a recreated
/// topic may be below where the old one was read, so no message shows it.
pub(crate) const ID_REQUEST_INTERVAL: Duration = Duration::from_secs(5);

/// How long brokers may take to answer, in milliseconds. After a later answer the ids are requested
/// again with the next commit.
const RESPONSE_MILLIS: i32 = 2_000;

/// No broker's number.
const NOBODY: i32 = -1;

/// A topic's id: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopicId(pub(crate) u128);

impl TopicId {
    /// The id of every topic of brokers that have no ids (before Kafka 2.8).
    pub(crate) const NONE: Self = Self(0);

    /// Returns a short form for commits' metadata and tokens. Two topics have the same in one of 4
    /// billion cases.
    pub(crate) fn number(self) -> Option<u32> {
        let [a, b, c, d] = [0, 32, 64, 96].map(|bits| (self.0 >> bits) as u32);
        (self != Self::NONE).then_some(a ^ b ^ c ^ d)
    }
}

/// The ids of topics, in the order of the request; `None` where the broker knows no such topic now.
pub(crate) type TopicIds = Vec<Option<TopicId>>;

/// The topics of a source, and the broker to query.
pub(crate) struct SourceTopics {
    client: Arc<QueryConsumer>,
    names: Vec<CString>,
    /// The broker that answers; below zero: not found yet. By default the library queries the
    /// controller, and waits for one where there is none.
    broker: AtomicI32,
    /// The number of searches for a broker, so that each picks another one.
    searches: AtomicUsize,
}

impl SourceTopics {
    /// Creates the queries. Names of topics have no zero bytes; one that does identifies no topic.
    pub(crate) fn new(client: Arc<QueryConsumer>, names: impl Iterator<Item = Arc<str>>) -> Self {
        let names = names.map(|name| CString::new(&*name).unwrap_or_default()).collect();
        let (broker, searches) = (AtomicI32::new(NOBODY), AtomicUsize::new(0));
        Self { client, names, broker, searches }
    }

    /// Returns the broker to query.
    fn broker_id(&self) -> Option<i32> {
        let known = self.broker.load(Ordering::Relaxed);
        if known != NOBODY {
            return Some(known);
        }
        let name = self.names.first()?.to_str().ok()?;
        let patience = Duration::from_millis(RESPONSE_MILLIS.unsigned_abs().into());
        let metadata = self.client.request_metadata(Some(name), patience).ok()?;
        let brokers = metadata.brokers();
        let search = self.searches.fetch_add(1, Ordering::Relaxed);
        let found = brokers.get(search.checked_rem(brokers.len())?)?.id();
        self.broker.store(found, Ordering::Relaxed);
        Some(found)
    }

    /// Requests the topics' ids, without waiting for the answer. `None` when no broker is known;
    /// finding one the first time, and again after a missing answer, takes a round trip.
    pub(crate) fn request_ids(&self) -> Option<IdRequest<'_>> {
        let broker = self.broker_id()?;
        let client = self.client.client().native_ptr();
        let mut list: Vec<*const c_char> = self.names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: `client` is valid while `self` is borrowed, which is longer than the question
        // lives. The library copies names and options, which are freed here, each once.
        let queue = unsafe {
            let queue = rd_kafka_queue_new(client);
            let topics = rd_kafka_TopicCollection_of_topic_names(list.as_mut_ptr(), list.len());
            let operation = rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
            let options = rd_kafka_AdminOptions_new(client, operation);
            // Both are within the allowed ranges, so there is no error to read.
            let no_text = std::ptr::null_mut();
            rd_kafka_AdminOptions_set_request_timeout(options, RESPONSE_MILLIS, no_text, 0);
            rd_kafka_AdminOptions_set_broker(options, broker, no_text, 0);
            rd_kafka_DescribeTopics(client, topics, options, queue);
            rd_kafka_AdminOptions_destroy(options);
            rd_kafka_TopicCollection_destroy(topics);
            queue
        };
        Some(IdRequest { queue, topics: self })
    }
}

/// A query in flight.
pub(crate) struct IdRequest<'a> {
    /// Belongs to the client of `topics`, which outlives it.
    queue: *mut rd_kafka_queue_t,
    topics: &'a SourceTopics,
}

impl IdRequest<'_> {
    /// The maximum wait for an answer.
    pub(crate) const PATIENCE: Duration = Duration::from_millis(RESPONSE_MILLIS as u64 + 500);

    /// Waits for the answer, no longer than [`IdRequest::PATIENCE`]. `None` when there is none: the
    /// next query goes to another broker.
    pub(crate) fn await_ids(self) -> Option<TopicIds> {
        let ids = self.read();
        if ids.is_none() {
            self.topics.broker.store(NOBODY, Ordering::Relaxed);
        }
        ids
    }

    fn read(&self) -> Option<TopicIds> {
        let wait = i32::try_from(Self::PATIENCE.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is valid until `self` is dropped. The event is ours from here on; what
        // the result points to lives as long as the event, which is destroyed last, once.
        unsafe {
            let event = rd_kafka_queue_poll(self.queue, wait);
            if event.is_null() {
                return None;
            }
            let result = rd_kafka_event_DescribeTopics_result(event);
            let error = rd_kafka_event_error(event);
            if error == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE {
                rd_kafka_event_destroy(event);
                return Some(vec![Some(TopicId::NONE); self.topics.names.len()]);
            }
            let answered = error == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
            let ids = (answered && !result.is_null()).then(|| {
                let mut count = 0;
                let topics = rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
                let topics = match topics.is_null() {
                    true => &[][..],
                    false => std::slice::from_raw_parts(topics, count),
                };
                let found: Vec<(&CStr, Option<TopicId>)> =
                    topics.iter().map(|topic| id_of(*topic)).collect();
                let of = |name: &CString| found.iter().find(|(known, _)| *known == &**name);
                let names = self.topics.names.iter();
                names.map(|name| of(name).and_then(|(_, id)| *id)).collect()
            });
            rd_kafka_event_destroy(event);
            ids
        }
    }
}

impl Drop for IdRequest<'_> {
    fn drop(&mut self) {
        // SAFETY: created by `request_ids`, destroyed only here. The library drops an answer still
        // in flight, as it counts the queue's holders.
        unsafe { rd_kafka_queue_destroy(self.queue) };
    }
}

/// Returns a described topic's name, and its id if the broker knows the topic.
///
/// # Safety
/// `topic` belongs to a result that lives for `'a`.
unsafe fn id_of<'a>(topic: *const rd_kafka_TopicDescription_t) -> (&'a CStr, Option<TopicId>) {
    // SAFETY: by the contract above; the library ends names with a zero byte. An id that isn't null
    // is read and not retained.
    unsafe {
        let name = CStr::from_ptr(rd_kafka_TopicDescription_name(topic));
        let id = rd_kafka_TopicDescription_topic_id(topic);
        // The code of no error, which is a null pointer, is zero.
        let error = rd_kafka_error_code(rd_kafka_TopicDescription_error(topic));
        if error != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || id.is_null() {
            return (name, None);
        }
        let high = rd_kafka_Uuid_most_significant_bits(id).cast_unsigned();
        let low = rd_kafka_Uuid_least_significant_bits(id).cast_unsigned();
        let bits = u128::from(high) << 64 | u128::from(low);
        (name, Some(TopicId(bits)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;

    use super::*;

    fn topics(servers: &str, names: &[&str]) -> SourceTopics {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers);
        let client = QueryConsumer::create(&config).unwrap();
        SourceTopics::new(Arc::new(client), names.iter().map(|name| Arc::from(*name)))
    }

    /// Scenario: two topics, queried twice, the second time in another order, with one that doesn't
    /// exist. Guarantee: each topic has the same id both times, no two share one, and the third has
    /// none.
    #[test]
    fn topics_have_ids_in_the_order_asked_for() {
        let mock = MockCluster::new(1).unwrap();
        mock.create_topic("a", 1, 1).unwrap();
        mock.create_topic("b", 1, 1).unwrap();
        let servers = mock.bootstrap_servers();
        let ask =
            |names: &[&str]| topics(&servers, names).request_ids().and_then(IdRequest::await_ids);
        let there = ask(&["a", "b"]).unwrap();
        let [Some(first), Some(second)] = there[..] else { panic!("{there:?}") };
        assert_ne!(first, second);
        let again = ask(&["b", "missing", "a"]).unwrap();
        assert_eq!(again, [Some(second), None, Some(first)]);
        assert!(first != TopicId::NONE && second != TopicId::NONE);
    }

    /// Scenario: no broker answers. Guarantee: the query returns nothing, in bounded time.
    #[test]
    fn without_a_broker_there_is_no_answer() {
        let topics = topics("127.0.0.1:9", &["a"]);
        let began = Instant::now();
        assert_eq!(topics.request_ids().and_then(IdRequest::await_ids), None);
        assert!(began.elapsed() < IdRequest::PATIENCE * 4, "{:?}", began.elapsed());
    }
}
