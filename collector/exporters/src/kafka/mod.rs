//! Kafka as a destination: the edge's publisher, and the gateway's dead letters.
//!
//! Both use one kind of producer: idempotent, acknowledged by all in-sync replicas. A record that
//! Kafka has not confirmed is never reported as safe. Nothing here decodes records, and nothing
//! blocks a caller: what can't be taken now is refused or handed back.

mod buffered;
mod dead_letters;
mod failure;
mod lane;
mod lanes;
mod monitor;
mod producer;
mod publisher;
mod room;
mod ticket;
mod way;

pub use buffered::{BufferError, BufferedParts, BufferedPublisher};
pub use dead_letters::KafkaDeadLetters;
pub use producer::{Context, Producer, ProducerError, Shipment, Traits, code_of, create};
pub use publisher::KafkaPublisher;
