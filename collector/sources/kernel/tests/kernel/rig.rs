//! A stand-in log that returns one record per read, and a receiver that reads it.
//!
//! The stand-in is a pair of sockets: each datagram is a record. Unlike the kernel it never reports
//! "overwritten", which only missing numbers show; `worker.rs` has its own tests for that.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_config::Positions;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::SourceContext;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_kernel::{Log, Machine, StartError, start};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use millrace_fake_publisher::{FakePublisher, ReceivedRecord, Reserved, Script};

pub(crate) const BOOT: &str = "8a39e962-6b20-4db4-ad07-2adf3549c91b";

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kernel's records, and the reader that has the log open.
#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<(u64, Vec<u8>)>,
    reader: Option<UnixDatagram>,
}

impl Ring {
    /// Sends all existing records, then new ones. A pair holds some 200 records of these tests.
    fn open(&mut self) -> io::Result<OwnedFd> {
        let (reads, writes) = UnixDatagram::pair()?;
        reads.set_nonblocking(true)?;
        for (_, record) in &self.records {
            writes.send(record)?;
        }
        self.reader = Some(writes);
        Ok(reads.into())
    }

    fn write(&mut self, number: u64, record: Vec<u8>) {
        if let Some(reader) = &self.reader {
            reader.send(&record).unwrap();
        }
        self.records.push_back((number, record));
    }
}

pub(crate) struct Rig {
    folder: TempDir,
    ring: Arc<Mutex<Ring>>,
    publisher: Arc<FakePublisher>,
    telemetry: Arc<Telemetry>,
    budget: Budget,
    drain: Drain,
    running: Option<JoinHandle<bool>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let budget = Budget::new(8 << 20);
        Self {
            folder: tempfile::tempdir().unwrap(),
            ring: Arc::default(),
            publisher: Arc::new(FakePublisher::new(Reserved::Exactly)),
            telemetry: Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap()),
            budget,
            drain: Drain::new(PATIENCE),
            running: None,
        }
    }

    pub(crate) fn positions(&self) -> PathBuf {
        self.folder.path().join("positions")
    }

    pub(crate) fn start(&mut self, boot: &str) -> Result<(), StartError> {
        let ring = Arc::clone(&self.ring);
        let log = Log::new("a stand-in", boot, move || ring.lock().unwrap().open());
        self.start_with(log, Machine::Node("node-1".into()))
    }

    pub(crate) fn start_with(&mut self, log: Log, machine: Machine) -> Result<(), StartError> {
        self.telemetry = Arc::new(Telemetry::new(self.budget.clone(), "0", "system").unwrap());
        self.drain = Drain::new(PATIENCE);
        *self.publisher.tries.lock().unwrap() = 0;
        let context = SourceContext {
            budget: self.budget.clone(),
            drain: self.drain.clone(),
            telemetry: Arc::clone(&self.telemetry),
            publisher: Arc::clone(&self.publisher) as _,
        };
        let positions = Positions { directory: self.positions() };
        let kernel = start(log, &machine, &positions, context)?;
        self.running = Some(tokio::spawn(kernel.run()));
        Ok(())
    }

    /// Drains: in order, or with a deadline that has passed. Only the former confirms everything.
    pub(crate) async fn stop(&mut self, in_order: bool) {
        if in_order {
            self.drain.begin();
        } else {
            self.drain.begin_by(Instant::now());
        }
        assert_eq!(self.running.take().unwrap().await.unwrap(), in_order);
        self.publisher.held.lock().unwrap().clear();
        assert_eq!(self.budget.used_bytes(), 0, "the budget is given back");
        self.ring.lock().unwrap().reader = None;
    }

    /// Writes records with these numbers.
    pub(crate) fn write(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let micros = number * 1_000_000;
            let record = format!("4,{number},{micros},-;record {number}\n DEVICE=+pci:{number}\n");
            self.write_raw(number, record.into_bytes());
        }
    }

    pub(crate) fn write_raw(&self, number: u64, record: Vec<u8>) {
        self.ring.lock().unwrap().write(number, record);
    }

    /// Removes all records before this one.
    pub(crate) fn overwrite(&self, before: u64) {
        self.ring.lock().unwrap().records.retain(|(number, _)| *number >= before);
    }

    /// Makes the next read report the end of the log, which the kernel's never does.
    pub(crate) fn fail(&self) {
        let mut ring = self.ring.lock().unwrap();
        ring.reader.as_ref().unwrap().send(&[]).unwrap();
        ring.reader = None;
    }

    pub(crate) fn script(&self, script: Script) {
        *self.publisher.script.lock().unwrap() = script;
        *self.publisher.tries.lock().unwrap() = 0;
    }

    pub(crate) fn tries(&self) -> u64 {
        self.publisher.attempt_count()
    }

    pub(crate) fn came(&self) -> Vec<ReceivedRecord> {
        self.publisher.records.lock().unwrap().clone()
    }

    /// Retains only the first records that arrived.
    pub(crate) fn forget_after(&self, kept: usize) {
        self.publisher.records.lock().unwrap().truncate(kept);
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            let came = self.came().len();
            assert!(Instant::now() < deadline, "{came} records, {} tries", self.tries());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until exactly the records with these numbers arrived, in this order.
    pub(crate) async fn until_texts(&self, numbers: impl IntoIterator<Item = u64>) {
        let texts: Vec<String> = numbers.into_iter().map(|n| format!("record {n}")).collect();
        self.until(|rig| rig.came().len() >= texts.len()).await;
        let came: Vec<String> = self.came().into_iter().map(|record| record.text).collect();
        assert_eq!(came, texts);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.drain.begin_by(Instant::now());
    }
}
