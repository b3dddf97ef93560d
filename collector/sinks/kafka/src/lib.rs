//! Kafka as a destination: the edge's publisher, and the gateway's dead letters.
//!
//! Both use one kind of producer: idempotent, acknowledged by all in-sync replicas. A record that
//! Kafka has not confirmed is never reported as safe. This crate decodes no records, and never
//! blocks a caller: what can't be accepted now is refused or returned.

mod buffered;
mod dead_letters;
mod exporter;
mod produce;
mod publisher;
mod request;
mod topics;

pub use buffered::{BufferError, BufferedParts, BufferedPublisher};
pub use dead_letters::KafkaDeadLetters;
pub use dead_letters::recent::{RecentDeadLetters, StoredDeadLetter};
pub use exporter::ToKafka;
pub use produce::producer::{
    Context, Producer, ProducerError, Shipment, StoredPosition, Traits, code_of, create_producer,
};
pub use publisher::KafkaPublisher;
