//! Settings of Kafka, whatever they are.

use super::{
    Acknowledge, Compression, Delivery, DiskBuffer, GroupProtocol, KafkaConnection, KafkaExporter,
    KafkaReceiver, PartitionBy, Sasl, SaslMechanism, Topics,
};
use crate::document::round_trip::{parsed, size};
use crate::record_times::MessageTimes;
use crate::values::names::{EnvName, GroupId, TopicName};
use crate::values::network::BootstrapServer;
use crate::values::secret::arbitrary::{client_tls, file};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// Names that YAML would read as something else are the interesting ones.
pub(crate) fn topic() -> impl Strategy<Value = TopicName> {
    prop_oneof![
        parsed("[a-zA-Z0-9_-]{1,20}"),
        prop_oneof![Just("null"), Just("1e3"), Just("0x10"), Just("true"), Just("-"), Just("1.5")]
            .prop_map(|text| TopicName::new(text).unwrap()),
    ]
}

pub(crate) fn topics() -> impl Strategy<Value = Topics> {
    (option::of(topic()), option::of(topic()), option::of(topic()))
        .prop_map(|(traces, logs, metrics)| Topics { traces, logs, metrics })
}

pub(crate) fn connection() -> impl Strategy<Value = KafkaConnection> {
    let server = parsed::<BootstrapServer>("[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
    let mechanism = prop_oneof![
        Just(SaslMechanism::ScramSha512),
        Just(SaslMechanism::ScramSha256),
        Just(SaslMechanism::Plain)
    ];
    let sasl = (mechanism, option::of(file()), option::of(file())).prop_map(
        |(mechanism, username_file, password_file)| Sasl {
            mechanism,
            username: username_file.is_none().then(|| "edge".to_owned()),
            username_file,
            password_file,
            oauth: None,
            aws_msk_iam: None,
        },
    );
    (proptest::collection::vec(server, 0..4), option::of(client_tls()), option::of(sasl))
        .prop_map(|(bootstrap_servers, tls, sasl)| KafkaConnection { bootstrap_servers, tls, sasl })
}

pub(crate) fn kafka_receiver() -> impl Strategy<Value = KafkaReceiver> {
    let group = parsed::<GroupId>("[!-~]{1,20}");
    let env = option::of(parsed::<EnvName>("[A-Z_][A-Z0-9_]{0,20}"));
    (
        connection().boxed(),
        group,
        env,
        topics(),
        topics(),
        any::<Option<std::num::NonZeroU16>>(),
        size(),
    )
        .prop_map(|(connection, group_id, env, topics, dead, workers, fetch_queue_bytes)| {
            KafkaReceiver {
                connection,
                group_id,
                group_instance_id_env: env,
                topics,
                dead_letter_topics: dead,
                workers,
                fetch_queue_bytes,
                group_protocol: GroupProtocol::Consumer,
                session_timeout_seconds: 30,
                delivery: Delivery::EffectivelyOnce,
                record_times: MessageTimes { past_days: 3, future_hours: 2 },
            }
        })
}

pub(crate) fn kafka_exporter() -> impl Strategy<Value = KafkaExporter> {
    let compression =
        prop_oneof![Just(Compression::Zstd), Just(Compression::Lz4), Just(Compression::None)];
    let acknowledge = prop_oneof![Just(Acknowledge::AfterKafka), Just(Acknowledge::AfterBuffering)];
    let partition_by = prop_oneof![Just(PartitionBy::Any), Just(PartitionBy::TraceId)];
    let choices = (compression, partition_by, acknowledge);
    let buffer =
        option::of((file(), size(), any::<bool>()).prop_map(|(path, max_bytes, drain)| {
            let path = path.path().to_owned();
            DiskBuffer { path, max_bytes, drain }
        }));
    (connection().boxed(), topics(), choices, size(), any::<[u32; 2]>(), buffer).prop_map(
        |(connection, topics, choices, max_message_bytes, [linger, delivery], buffer)| {
            let (compression, partition_by, acknowledge) = choices;
            KafkaExporter {
                connection,
                topics,
                compression,
                max_message_bytes,
                linger_millis: linger,
                partition_by,
                acknowledge,
                delivery_timeout_seconds: delivery,
                buffer,
            }
        },
    )
}
