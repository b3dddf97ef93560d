//! Which Kafka offsets are done. Pure: no client, no clock.
