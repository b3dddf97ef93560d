//! Topics, and the Kafka that reconcilers meet.

mod brokers;
mod credentials;
mod observed_topics;
mod records;
