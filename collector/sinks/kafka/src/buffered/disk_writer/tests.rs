//! Tests of `disk_writer.rs`.

use millrace_wire::Signal;

use super::*;
use crate::buffered::fixtures::{new_sender, new_telemetry, unreachable_kafka};
use crate::topics::destination::TopicKey;

/// Scenario: an edge's buffer fills while Kafka is away; Kafka returns and gets its records; Kafka
/// is away again. Guarantee: the edge isn't ready while both fail, and is ready in the second
/// outage, although no request has arrived since the buffer was full.
#[test]
fn an_outage_after_a_full_buffer_finds_the_edge_ready() {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = new_telemetry();
    let kafka = unreachable_kafka(&telemetry);
    let sender = |topic| (new_sender(topic, &kafka, &telemetry), true);
    let buffers = DiskBuffers::open(folder.path(), &[], (1 << 20, 1000), &telemetry, sender);
    let (readiness, behind) = (Readiness::default(), Readiness::default());
    let (part, kafka_part) = (readiness.add_part("kafka"), behind.add_part("kafka"));
    let (kafka, stop) = (Arc::clone(&kafka), WriterStop::default());
    let mut writer = DiskWriter::new(kafka, buffers.unwrap(), telemetry.clone(), part, behind);

    kafka_part.set_ready();
    writer.run_housekeeping(&stop);
    kafka_part.set_not_ready("away");
    writer.not_written(AppendError::Full { used_bytes: 2, max_bytes: 2 });
    writer.run_housekeeping(&stop);
    assert!(!readiness.is_ready());
    kafka_part.set_ready();
    // There is space again: the disk has something to make safe, as after acknowledgements.
    writer.buffers.append_request(TopicKey::own(Signal::Traces), b"x", 0, 1).unwrap();
    writer.run_housekeeping(&stop);
    kafka_part.set_not_ready("away");
    writer.run_housekeeping(&stop);
    assert!(readiness.is_ready(), "{:?}", readiness.reasons());
}
