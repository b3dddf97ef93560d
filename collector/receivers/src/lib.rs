//! Where records come in: OTLP and Kafka.
