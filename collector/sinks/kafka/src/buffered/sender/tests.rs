//! Tests of `sender.rs` on a disk that can't read a file.

use std::cell::Cell;
use std::rc::Rc;

use millrace_buffer::{Folder, QueueLimits, Sums};
use millrace_wire::Signal;

use super::*;
use crate::buffered::fixtures::{FaultyDisk, new_sender, new_telemetry, unreachable_kafka};

/// Scenario: the disk can't read the first of a topic's files. Guarantee: reading is retried a
/// bounded number of times, with a wait between; then the file's records are counted as damaged and
/// the sender holds the first record of the next file.
#[test]
fn a_file_that_cannot_be_read_does_not_stop_its_topic() {
    let path = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let folder = Folder::open(&path.path().join(name)).unwrap();
        let disk = FaultyDisk { folder, is_full: Rc::new(Cell::new(false)), unreadable_file: None };
        let limits = QueueLimits { max_bytes: 1 << 20, segment_bytes: 100 };
        Queue::open(disk, limits).unwrap().0
    };
    let (mut queue, mut aside) = (open("traces"), open("set-aside"));
    for serial in 0..3 {
        queue.append(&[serial; 50], 0, 1, 0).unwrap();
    }
    queue.disk_mut().unreadable_file = Some(1);
    let telemetry = new_telemetry();
    let kafka = unreachable_kafka(&telemetry);
    let mut sender = new_sender(TopicKey::own(Signal::Traces), &kafka, &telemetry);
    for failure in 1..MAX_READ_FAILURES {
        assert!(sender.run_step(&mut queue, &mut aside, true).is_err(), "{failure}");
        assert_eq!(queue.take_damaged(), Sums::default(), "{failure}");
        // Until the wait ends nothing is read.
        sender.not_before += Duration::from_secs(60);
        sender.run_step(&mut queue, &mut aside, true).unwrap();
        sender.not_before = Instant::now();
    }
    sender.run_step(&mut queue, &mut aside, true).unwrap();
    assert_eq!(queue.take_damaged(), Sums { records: 1, count: 1 });
    assert_eq!(sender.held.map(|entry| entry.payload), Some(vec![1; 50]));
}
