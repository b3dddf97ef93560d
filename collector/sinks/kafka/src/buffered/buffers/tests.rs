//! Tests of `buffers.rs` on a disk that is full.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::buffered::fixtures::{FaultyDisk, new_sender, new_telemetry, unreachable_kafka};

/// Scenario: an edge starts on a full disk, without requests that were set aside and with one;
/// then there is space. Guarantee: it starts each time; the request stays set aside until it can be
/// returned to its topic.
#[test]
fn buffers_open_on_a_full_disk() {
    let (folder, is_full) = (tempfile::tempdir().unwrap(), Rc::new(Cell::new(false)));
    let telemetry = new_telemetry();
    let kafka = unreachable_kafka(&telemetry);
    let open_queue = |name: &str| {
        let folder = Folder::open(&folder.path().join(name)).unwrap();
        let disk = FaultyDisk { folder, is_full: Rc::clone(&is_full), unreadable_file: None };
        Queue::open(disk, QueueLimits::from_max_bytes(1 << 20)).unwrap().0
    };
    let open = || {
        let topic = TopicKey::own(Signal::Traces);
        let sender = new_sender(topic, &kafka, &telemetry);
        let (signal, queue) = (Signal::Traces, open_queue("traces"));
        let buffers = DestinationBuffers {
            destination: Destination::Own,
            name: String::new(),
            signals: vec![SignalBuffer { signal, queue, sender, is_configured: true }],
            aside: open_queue(ASIDE),
        };
        let (destinations, max_bytes) = (vec![buffers], 1 << 20);
        let mut buffers = DiskBuffers { destinations, max_bytes, held_back_bytes: 0 };
        buffers.return_aside().unwrap();
        buffers
    };
    drop(open());
    is_full.set(true);
    drop(open());
    is_full.set(false);
    let mut buffers = open();
    let aside = &mut buffers.destinations[0].aside;
    aside.append(b"set aside", 0, 3, Signal::Traces.index() as u8).unwrap();
    aside.sync().unwrap();
    drop(buffers);
    is_full.set(true);
    assert_eq!(open().aside_records(), 3);
    is_full.set(false);
    let buffers = open();
    assert_eq!((buffers.aside_records(), buffers.stats().count), (0, 3));
}
