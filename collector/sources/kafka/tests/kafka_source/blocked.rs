//! The memory of batches that are open, or wait for a table that accepts nothing.

use super::*;

/// Scenario: one short message on each of 32 partitions, batches that are cut when they are a
/// minute old, and a budget of 12 MiB. Guarantee: all are read, and their open batches use at most
/// 1 MiB of it.
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
    // 4 MiB are reserved for the next message, 1 MiB for what is fetched ahead.
    let used = running.budget.used_bytes();
    assert!(used <= (4 + 1 + 1) << 20, "{used}");
    assert_eq!(sink.stored(), []);
    running.stop();
    assert_eq!(sink.messages(), vec![messages("m", 1); PARTITIONS as usize].concat());
}

/// Scenario: effectively once; batches of 16 partitions are cut and named, 8 MiB together, and wait
/// for a sink that is full; then their table accepts nothing, while others do; then it does.
/// Guarantee: until then these batches free their memory, the other signal is stored, and none of
/// the first is read repeatedly; in the end each of its messages is stored once. Slow: the mock
/// group waits 3 s before it assigns partitions, batches are 3 s old when they are cut, and the
/// commits of 16 partitions are read by a new client each.
#[test]
fn batches_that_wait_for_a_blocked_table_give_their_memory_back() {
    const PARTITIONS: usize = 16;
    const EACH: usize = 32;
    let kafka = Kafka::new(PARTITIONS as i32);
    let sink = FakeSink::new(Mode::Full);
    let filler = "x".repeat(16 * 1024);
    let sent: Vec<_> = (0..PARTITIONS * EACH).map(|i| format!("{i:05}{filler}")).collect();
    for (partition, messages) in sent.chunks(EACH).enumerate() {
        kafka.send(partition as i32, messages.to_vec());
    }
    let options = Options {
        max_rows: 1_000,
        max_age_millis: 3_000,
        delivery: DeliveryMode::EffectivelyOnce,
        ..Options::default()
    };
    let running = Running::start(&kafka, &sink, options);
    let read = || running.metric("millrace_records_in_total{signal=\"traces\"}");
    eventually("batches wait", || {
        // Named, and with an offset that a restart would begin at: all are cut.
        read() == sent.len() as f64
            && (0..PARTITIONS).all(|partition| kafka.committed(partition as i32).is_some())
    });
    assert!(running.budget.used_bytes() > 8 << 20, "{}", running.budget.used_bytes());
    sink.block(Some(Signal::Traces));
    sink.set(Mode::Store);
    eventually("memory is given back", || running.budget.used_bytes() < 8 << 20);
    kafka.send_to(LOGS, 0, messages("l", 50));
    eventually("logs are committed", || kafka.committed_in(LOGS, 0) == Some(50));
    assert_eq!(sink.messages(), messages("l", 50));
    let read_once = read();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(read(), read_once, "nothing is read while its table takes nothing");
    sink.block(None);
    eventually("committed", || {
        (0..PARTITIONS).all(|partition| kafka.committed(partition as i32) == Some(EACH as i64))
    });
    assert_eq!(sink.messages(), [sent, messages("l", 50)].concat());
    running.stop();
}
