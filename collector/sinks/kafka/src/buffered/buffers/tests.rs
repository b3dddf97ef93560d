//! Tests of `buffers.rs` on a disk that is full.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::buffered::fixtures::{new_sender, new_telemetry, unreachable_kafka};

/// A folder on a disk that accepts no more bytes while it is full.
struct FullDisk {
    folder: Folder,
    is_full: Rc<Cell<bool>>,
}

impl Disk for FullDisk {
    fn list_files(&mut self) -> io::Result<Vec<u64>> {
        self.folder.list_files()
    }

    fn create_file(&mut self, file: u64) -> io::Result<()> {
        self.folder.create_file(file)
    }

    fn append_bytes(&mut self, file: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.folder.append_bytes(file, bytes)
    }

    fn truncate_file(&mut self, file: u64, length: u64) -> io::Result<()> {
        self.folder.truncate_file(file, length)
    }

    fn file_length(&mut self, file: u64) -> io::Result<u64> {
        self.folder.file_length(file)
    }

    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.folder.read_at(file, offset, into)
    }

    fn sync_file(&mut self, file: u64) -> io::Result<()> {
        self.folder.sync_file(file)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_folder()
    }

    fn remove_file(&mut self, file: u64) -> io::Result<()> {
        self.folder.remove_file(file)
    }
}

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
        let disk = FullDisk { folder, is_full: Rc::clone(&is_full) };
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
