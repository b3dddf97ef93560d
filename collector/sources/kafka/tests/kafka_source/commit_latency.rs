//! How many batches a worker announces and stores while the group's coordinator is far away.

use std::time::{Duration, Instant};

use millrace_source_kafka::DeliveryMode;
use rdkafka::mocking::MockCoordinator;

use super::fake_sink::{FakeSink, Mode};
use super::{Kafka, Options, Running, eventually, messages};

/// The inserts a second that one worker must reach at any latency.
const LEAST_RATE: f64 = 50.0;

/// Scenario: the coordinator answers after 0, 5, 20 and 100 ms, the partitions' leader at once, and
/// one worker has 500 batches of one partition to announce, the next commit only after the last
/// one's answer. Guarantee: a commit carries all that was cut in the meantime, so that the worker
/// makes at least 50 inserts a second. Prints its rate (`--nocapture`). Slow: four gateways join
/// and leave a group, one of them with a coordinator 100 ms away.
#[test]
fn a_far_coordinator_leaves_a_worker_fifty_inserts_a_second() {
    const BATCHES: usize = 500;
    for delay_millis in [0, 5, 20, 100] {
        let kafka = Kafka::with_brokers(2, 1);
        let (leader, coordinator) = (1, 2);
        kafka.cluster.partition_leader(super::TOPIC, 0, Some(leader)).unwrap();
        let group = MockCoordinator::Group("millrace-gateway".to_owned());
        kafka.cluster.coordinator(group, coordinator).unwrap();
        kafka.send(0, messages("m", 10 * BATCHES));
        let delay = Duration::from_millis(delay_millis);
        kafka.cluster.broker_round_trip_time(coordinator, delay).unwrap();
        let sink = FakeSink::new(Mode::Store);
        let delivery = DeliveryMode::EffectivelyOnce;
        let running = Running::start(&kafka, &sink, Options { delivery, ..Options::default() });
        eventually("a first insert", || !sink.stored().is_empty());
        let (began, before) = (Instant::now(), sink.stored().len());
        let records = || sink.stored().iter().map(|insert| insert.messages.len()).sum::<usize>();
        eventually("all stored", || records() == 10 * BATCHES);
        let inserts = sink.stored().len() - before;
        let rate = inserts as f64 / began.elapsed().as_secs_f64();
        println!("coordinator at {delay_millis} ms: {rate:.0} inserts a second");
        assert!(rate > LEAST_RATE, "{rate} inserts a second at {delay_millis} ms");
        running.stop();
    }
}
