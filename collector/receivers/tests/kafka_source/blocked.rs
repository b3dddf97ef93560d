//! What memory batches hold that are open, or wait for a table that takes nothing for now.

use super::*;

/// Scenario: one short message on each of 32 partitions, batches that are cut when they are a
/// minute old, and a budget of 12 MiB. Guarantee: all are read, and their open batches take 1 MiB of
/// it at most.
#[test]
fn open_batches_of_few_rows_take_little_of_the_budget() {
    const PARTITIONS: i32 = 32;
    let kafka = Kafka::new(PARTITIONS);
    let sink = FakeSink::new(Mode::Store);
    for partition in 0..PARTITIONS {
        kafka.send(partition, messages("m", 1));
    }
    let limit = 12 << 20;
    let options = Options { budget_bytes: limit, max_age_millis: 60_000, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("all read", || {
        running.metric("millrace_records_in_total{signal=\"traces\"}") == f64::from(PARTITIONS)
    });
    // 4 MiB are kept for the next message, 1 MiB is for what is fetched ahead.
    let used = running.budget.used_bytes();
    assert!(used <= (4 + 1 + 1) << 20, "{used}");
    assert_eq!(sink.stored(), []);
    running.stop();
    assert_eq!(sink.messages(), vec![messages("m", 1); PARTITIONS as usize].concat());
}
