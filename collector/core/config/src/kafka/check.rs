//! Checks the settings of topics, and of the Kafka receiver and exporter.

use std::collections::HashMap;

use super::{
    Acknowledge, DEAD_LETTER_SUFFIX, DiskBuffer, KafkaAwsMskIam, KafkaConnection, KafkaExporter,
    KafkaReceiver, MAX_MESSAGE_BYTES, Sasl, SaslMechanism, Topics,
};
use crate::document::check::Checker;
use crate::record_times::MessageTimes;
use crate::values::names::TopicName;
use crate::values::units::ByteSize;

impl Checker<'_> {
    /// One topic at least, and none named twice.
    fn check_topics(
        &mut self,
        field: &str,
        topics: &Topics,
        field_by_topic: &mut HashMap<TopicName, String>,
    ) {
        for (signal, topic) in topics.configured_topics() {
            let field = format!("{field}.{signal}");
            if let Some(other) = field_by_topic.insert(topic.clone(), field.clone()) {
                self.add_problem(
                    &field,
                    format!("topic `{topic}` is also {other}: use a separate topic"),
                );
            }
        }
    }

    fn check_any_topic(&mut self, field: &str, topics: &Topics) {
        if topics.configured_topics().next().is_none() {
            self.add_problem(
                field,
                "no signal is configured: remove `topics` to use all signals, or set traces, logs \
                 or metrics",
            );
        }
    }

    pub(crate) fn check_kafka_receiver(&mut self, receiver: &KafkaReceiver) {
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
        let mut field_by_topic = HashMap::new();
        self.check_topics("receivers.kafka.topics", topics, &mut field_by_topic);
        self.check_topics(
            "receivers.kafka.deadLetterTopics",
            dead_letter_topics,
            &mut field_by_topic,
        );
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

    pub(crate) fn check_kafka_exporter(&mut self, exporter: &KafkaExporter) {
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

    fn check_disk_buffer(
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

    fn check_connection(&mut self, field: &str, connection: &KafkaConnection) {
        let KafkaConnection { bootstrap_servers, tls, sasl } = connection;
        if bootstrap_servers.is_empty() {
            self.add_problem(
                &format!("{field}.bootstrapServers"),
                "no broker is configured: set at least one, as in [kafka-0.kafka:9092]",
            );
        }
        self.check_client_tls(&format!("{field}.tls"), tls.as_ref());
        let Some(sasl) = sasl else { return };
        self.check_sasl(&format!("{field}.sasl"), sasl);
        if sasl.mechanism == SaslMechanism::Plain && tls.is_none() {
            self.add_problem(
                &format!("{field}.sasl.mechanism"),
                "PLAIN without tls sends the password in plaintext: add `tls: {}` or use \
                 SCRAM-SHA-512",
            );
        }
        if sasl.aws_msk_iam.is_some() && tls.is_none() {
            self.add_problem(
                &format!("{field}.sasl.awsMskIam"),
                "it requires tls, as Amazon MSK does: add `tls: {}`",
            );
        }
    }

    fn check_sasl(&mut self, field: &str, sasl: &Sasl) {
        let Sasl { mechanism, username, username_file, password_file, oauth, aws_msk_iam } = sasl;
        let has_username = username.is_some() || username_file.is_some();
        if *mechanism == SaslMechanism::OAuthBearer {
            if oauth.is_some() == aws_msk_iam.is_some() {
                let message = "OAUTHBEARER requires either oauth or awsMskIam";
                self.add_problem(field, message);
            }
            if let Some(aws) = aws_msk_iam {
                self.check_aws_msk_iam(&format!("{field}.awsMskIam"), aws);
            }
            if has_username || password_file.is_some() {
                let message = "OAUTHBEARER has no user name or password: remove usernameFile, \
                               username and passwordFile";
                self.add_problem(field, message);
            }
            return;
        }
        for (name, is_set) in [("oauth", oauth.is_some()), ("awsMskIam", aws_msk_iam.is_some())] {
            if is_set {
                let message = "only OAUTHBEARER uses it: remove it, or change mechanism";
                self.add_problem(&format!("{field}.{name}"), message);
            }
        }
        if username.is_some() == username_file.is_some() {
            self.add_problem(field, "set either username or usernameFile");
        }
        if password_file.is_none() {
            let message = format!("{} requires it: add it", mechanism.as_str());
            self.add_problem(&format!("{field}.passwordFile"), message);
        }
    }

    fn check_aws_msk_iam(&mut self, field: &str, settings: &KafkaAwsMskIam) {
        let KafkaAwsMskIam { region, access_key_id_file, secret_access_key_file } = settings;
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_known) {
            let message = "not a region of AWS: write, for example, eu-central-1";
            self.add_problem(&format!("{field}.region"), message);
        }
        if access_key_id_file.is_some() != secret_access_key_file.is_some() {
            let message = "accessKeyIdFile and secretAccessKeyFile must be set together: set both, \
                           or neither";
            self.add_problem(field, message);
        }
    }
}
