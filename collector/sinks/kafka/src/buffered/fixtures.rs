//! A publisher without brokers and a disk with faults, for tests of the buffer's parts.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_buffer::{Disk, Folder};
use millrace_config::{BootstrapServer, KafkaConnection, KafkaExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;

use super::sender::Sender;
use crate::publisher::KafkaPublisher;
use crate::topics::destination::TopicKey;

/// The system's number of an input/output error.
const EIO: i32 = 5;

/// A folder on a disk with faults.
pub(super) struct FaultyDisk {
    pub(super) folder: Folder,
    /// Whether the disk accepts no more bytes.
    pub(super) is_full: Rc<Cell<bool>>,
    /// A file that can't be read.
    pub(super) unreadable_file: Option<u64>,
}

impl Disk for FaultyDisk {
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
        if self.unreadable_file == Some(file) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
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

    fn set_aside_file(&mut self, file: u64) -> io::Result<()> {
        self.folder.set_aside_file(file)
    }

    fn set_aside_bytes(&mut self) -> io::Result<u64> {
        self.folder.set_aside_bytes()
    }
}

pub(super) fn new_telemetry() -> Arc<Telemetry> {
    Arc::new(Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap())
}

/// Returns a publisher that never reaches Kafka.
pub(super) fn unreachable_kafka(telemetry: &Arc<Telemetry>) -> Arc<KafkaPublisher> {
    let bootstrap_servers = vec![BootstrapServer::new("127.0.0.1:9").unwrap()];
    let connection = KafkaConnection { bootstrap_servers, ..KafkaConnection::default() };
    let settings = KafkaExporter { connection, ..KafkaExporter::default() };
    let (part, drain) = (Readiness::default().add_part("kafka"), Drain::new(Duration::ZERO));
    Arc::new(KafkaPublisher::start(&settings, &[], telemetry, part, &drain).unwrap())
}

pub(super) fn new_sender(
    topic: TopicKey,
    kafka: &Arc<KafkaPublisher>,
    telemetry: &Arc<Telemetry>,
) -> Sender {
    Sender::new(topic, Arc::clone(kafka), Budget::new(1 << 20), Arc::clone(telemetry))
}
