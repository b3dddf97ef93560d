//! Checks the settings of topics, and of the Kafka receiver and exporter.

use std::collections::HashMap;

use super::Checker;
use crate::kafka::DEAD_LETTER_SUFFIX;
use crate::{
    Acknowledge, ByteSize, DiskBuffer, KafkaExporter, KafkaReceiver, MAX_MESSAGE_BYTES,
    MessageTimes, TopicName, Topics,
};

impl Checker<'_> {
    /// One topic at least, and none named twice.
    pub(super) fn check_topics(
        &mut self,
        field: &str,
        topics: &Topics,
        seen: &mut HashMap<TopicName, String>,
    ) {
        for (signal, topic) in topics.configured_topics() {
            let field = format!("{field}.{signal}");
            if let Some(other) = seen.insert(topic.clone(), field.clone()) {
                self.add_problem(
                    &field,
                    format!("topic `{topic}` is also {other}: use a separate topic"),
                );
            }
        }
    }

    pub(super) fn check_any_topic(&mut self, field: &str, topics: &Topics) {
        if topics.configured_topics().next().is_none() {
            self.add_problem(
                field,
                "no signal is configured: remove `topics` to use all signals, or set traces, logs \
                 or metrics",
            );
        }
    }

    pub(super) fn check_kafka_receiver(&mut self, receiver: &KafkaReceiver) {
        let KafkaReceiver {
            connection,
            group_id: _,
            group_instance_id_env: _,
            topics,
            dead_letter_topics,
            workers,
            fetch_queue_bytes,
            group_protocol: _,
            session_timeout_seconds,
            delivery: _,
            record_times,
        } = receiver;
        self.check_connection("receivers.kafka.connection", connection);
        self.check_any_topic("receivers.kafka.topics", topics);
        let mut seen = HashMap::new();
        self.check_topics("receivers.kafka.topics", topics, &mut seen);
        self.check_topics("receivers.kafka.deadLetterTopics", dead_letter_topics, &mut seen);
        for (signal, topic) in topics.configured_topics() {
            if TopicName::new(format!("{topic}{DEAD_LETTER_SUFFIX}")).is_err() {
                self.add_problem(
                    &format!("receivers.kafka.topics.{signal}"),
                    format!(
                        "`{topic}` is too long to append `{DEAD_LETTER_SUFFIX}`: use a shorter name"
                    ),
                );
            }
        }
        if let Some(workers) = workers {
            self.check_range("receivers.kafka.workers", workers.get(), 1..=256);
        }
        self.check_range(
            "receivers.kafka.fetchQueueBytes",
            *fetch_queue_bytes,
            ByteSize::mib(1)..=ByteSize::mib(1024),
        );
        self.check_range(
            "receivers.kafka.sessionTimeoutSeconds",
            *session_timeout_seconds,
            6..=300,
        );
        let MessageTimes { past_days, future_hours } = *record_times;
        self.check_record_times("receivers.kafka.recordTimes", past_days, future_hours);
    }

    pub(super) fn check_record_times(&mut self, field: &str, past_days: u32, future_hours: u32) {
        // A hundred years either way: every time there is.
        self.check_range(&format!("{field}.pastDays"), past_days, 1..=36_500);
        self.check_range(&format!("{field}.futureHours"), future_hours, 1..=876_000);
    }

    pub(super) fn check_kafka_exporter(&mut self, exporter: &KafkaExporter) {
        let KafkaExporter {
            connection,
            topics,
            compression: _,
            max_message_bytes,
            linger_millis,
            partition_by: _,
            acknowledge,
            delivery_timeout_seconds,
            buffer,
        } = exporter;
        self.check_connection("exporters.kafka.connection", connection);
        self.check_any_topic("exporters.kafka.topics", topics);
        self.check_topics("exporters.kafka.topics", topics, &mut HashMap::new());
        self.check_range(
            "exporters.kafka.maxMessageBytes",
            *max_message_bytes,
            ByteSize::kib(16)..=MAX_MESSAGE_BYTES,
        );
        self.check_range("exporters.kafka.lingerMillis", *linger_millis, 0..=1000);
        self.check_range(
            "exporters.kafka.deliveryTimeoutSeconds",
            *delivery_timeout_seconds,
            1..=600,
        );
        if let Some(buffer) = buffer {
            self.check_disk_buffer(buffer, *max_message_bytes, *acknowledge);
        }
    }

    pub(super) fn check_disk_buffer(
        &mut self,
        buffer: &DiskBuffer,
        message: ByteSize,
        acknowledge: Acknowledge,
    ) {
        /// Segments are an eighth of the buffer: of four messages each has its place.
        const MESSAGES_MIN: u64 = 4;
        let DiskBuffer { path, max_bytes, drain: _ } = buffer;
        self.check_absolute("exporters.kafka.buffer.path", path);
        let least =
            ByteSize::mib(16).max(ByteSize::bytes(message.get().saturating_mul(MESSAGES_MIN)));
        let most = ByteSize::mib(1024 * 1024);
        self.check_range("exporters.kafka.buffer.maxBytes", *max_bytes, least..=most);
        if acknowledge == Acknowledge::AfterBuffering {
            self.add_problem(
                "exporters.kafka.acknowledge",
                "AfterBuffering answers clients before records are safe, so it can't be combined \
                 with a buffer on disk: use AfterKafka or remove the buffer",
            );
        }
    }
}
