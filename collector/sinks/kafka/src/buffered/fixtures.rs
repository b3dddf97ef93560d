//! A publisher without brokers, for tests of the buffer's parts.

use std::sync::Arc;
use std::time::Duration;

use millrace_config::{BootstrapServer, KafkaConnection, KafkaExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;

use super::sender::Sender;
use crate::destination::TopicKey;
use crate::publisher::KafkaPublisher;

pub(super) fn new_telemetry() -> Arc<Telemetry> {
    Arc::new(Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap())
}

/// Returns a publisher that never reaches Kafka.
pub(super) fn unreachable_kafka(telemetry: &Arc<Telemetry>) -> Arc<KafkaPublisher> {
    let bootstrap_servers = vec![BootstrapServer::new("127.0.0.1:9").unwrap()];
    let connection = KafkaConnection { bootstrap_servers, ..KafkaConnection::default() };
    let settings = KafkaExporter { connection, ..KafkaExporter::default() };
    let (part, drain) = (Readiness::default().add_part("kafka"), Drain::new(Duration::ZERO));
    Arc::new(KafkaPublisher::start(&settings, &[], telemetry, part, &drain).unwrap())
}

pub(super) fn new_sender(
    topic: TopicKey,
    kafka: &Arc<KafkaPublisher>,
    telemetry: &Arc<Telemetry>,
) -> Sender {
    Sender::new(topic, Arc::clone(kafka), Budget::new(1 << 20), Arc::clone(telemetry))
}
