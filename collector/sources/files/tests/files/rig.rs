//! A receiver on a real file system, with a scripted publisher.

mod model;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{FilesReceiver, Positions, StartAt};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::SourceContext;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::pods::{Namespaces, PodLookup};
use millrace_pipeline::publish::DeliveryReceipt;
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_files::{FilesHandle, LogFiles, SourceSettings, start};
use tempfile::TempDir;

use millrace_fake_publisher::{FakePublisher, ReceivedRecord, Reserved, Script};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of logs, and receivers on it one after another.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) publisher: Arc<FakePublisher>,
    /// The records that earlier publishers accepted.
    pub(crate) before: Vec<ReceivedRecord>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) budget: Budget,
    drain: Drain,
    files: Option<FilesHandle>,
    /// Knows the pods.
    pub(crate) pods: Option<Arc<dyn PodLookup>>,
    /// Knows the selected namespaces.
    pub(crate) namespaces: Option<Arc<Namespaces>>,
    pub(crate) sources: Vec<SourceSettings>,
}

impl Rig {
    /// Reads `include` below the directory.
    pub(crate) fn new(include: &[&str], start_at: StartAt) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &&str| format!("{}/logs/{name}", folder.path().display());
        let include = include.iter().map(below).collect();
        let settings = FilesReceiver { include, start_at, ..FilesReceiver::default() };
        Self::with(folder, vec![SourceSettings::Files(settings)])
    }

    pub(crate) fn with(folder: TempDir, sources: Vec<SourceSettings>) -> Self {
        fs::create_dir_all(folder.path().join("logs")).unwrap();
        let budget = Budget::new(64 << 20);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        Self {
            folder,
            publisher: publisher(),
            before: Vec::new(),
            telemetry,
            budget,
            drain: Drain::new(PATIENCE),
            files: None,
            pods: None,
            namespaces: None,
            sources,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("logs").join(name)
    }

    pub(crate) fn positions(&self) -> PathBuf {
        self.folder.path().join("positions")
    }

    pub(crate) fn start(&mut self) {
        self.budget = Budget::new(64 << 20);
        self.telemetry = Arc::new(Telemetry::new(self.budget.clone(), "0", "system").unwrap());
        self.drain = Drain::new(PATIENCE);
        let files = LogFiles {
            sources: self.sources.clone(),
            positions: Positions { directory: self.positions() },
            pods: self.pods.clone(),
            namespaces: self.namespaces.clone(),
        };
        let context = SourceContext {
            budget: self.budget.clone(),
            drain: self.drain.clone(),
            telemetry: Arc::clone(&self.telemetry),
            publisher: Arc::clone(&self.publisher) as _,
        };
        self.files = Some(start(files, context).unwrap());
    }

    /// Drains, and requires that everything was confirmed.
    pub(crate) fn stop(&mut self) {
        self.drain.begin();
        assert!(self.files.take().unwrap().join(), "all is confirmed and on record");
        assert_eq!(self.used_beside_held(), 0, "the budget is given back");
    }

    /// Drains with a deadline that has passed. Returns whether everything was confirmed.
    pub(crate) fn stop_now(&mut self) -> bool {
        self.drain.begin_by(Instant::now());
        self.files.take().unwrap().join()
    }

    fn used_beside_held(&self) -> u64 {
        let held: u64 = self.publisher.held.lock().unwrap().iter().map(|(_, r)| r.bytes()).sum();
        self.budget.used_bytes() - held
    }

    /// Simulates a kill: from now on nothing arrives, nothing is confirmed and no position is
    /// written.
    pub(crate) fn kill(&mut self) {
        let saved = self.folder.path().join("saved");
        let _ = fs::remove_dir_all(&saved);
        fs::create_dir(&saved).unwrap();
        *self.publisher.script.lock().unwrap() = Script::Dead;
        // The copy may miss a document that is just being renamed, which a crash can't do: try
        // again.
        while !saved.join("positions").exists() {
            for entry in fs::read_dir(self.positions()).unwrap().flatten() {
                let _ = fs::copy(entry.path(), saved.join(entry.file_name()));
            }
        }
        self.drain.begin_by(Instant::now());
        let _ = self.files.take().unwrap().join();
        fs::remove_dir_all(self.positions()).unwrap();
        fs::rename(saved, self.positions()).unwrap();
        self.before.extend(self.publisher.records.lock().unwrap().drain(..));
        self.publisher = publisher();
    }

    pub(crate) fn script(&self, script: Script) {
        *self.publisher.script.lock().unwrap() = script;
    }

    /// Confirms the held requests.
    pub(crate) fn release(&self) {
        for (sender, _) in self.publisher.held.lock().unwrap().drain(..) {
            sender.finish_with(Ok(DeliveryReceipt::default()));
        }
    }

    pub(crate) fn append(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let lines = self.publisher.records.lock().unwrap();
        self.before.iter().chain(lines.iter()).map(|line| line.text.clone()).collect()
    }

    /// Waits until a metric has a value.
    pub(crate) fn until_metric(&self, name: &str, holds: impl Fn(u64) -> bool) {
        self.until(name, || {
            let text = self.telemetry.render().unwrap();
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            holds(line.rsplit(' ').next().unwrap().parse().unwrap())
        });
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{what}; {} lines came", self.texts().len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until exactly these lines were sent, in any order of files and with no repeats.
    pub(crate) fn until_exactly(&self, mut expected: Vec<String>) {
        self.until("all lines", || self.texts().len() >= expected.len());
        let mut texts = self.texts();
        texts.sort();
        expected.sort();
        assert!(texts == expected, "{} came, {} expected", texts.len(), expected.len());
    }

    /// Waits until each of these lines was sent at least once.
    pub(crate) fn until_each(&self, expected: &[String]) {
        let deadline = Instant::now() + PATIENCE / 2;
        self.until("each line", || {
            let texts: std::collections::HashSet<String> = self.texts().into_iter().collect();
            let missing = expected.iter().find(|line| !texts.contains(*line));
            assert!(missing.is_none() || Instant::now() < deadline, "missing: {missing:?}");
            missing.is_none()
        });
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.drain.begin_by(Instant::now());
        if let Some(files) = self.files.take() {
            let _ = files.join();
        }
    }
}

fn publisher() -> Arc<FakePublisher> {
    Arc::new(FakePublisher::new(Reserved::AtLeast))
}

/// Lines `from..to` of a file, distinguished by file and number.
pub(crate) fn numbered(file: &str, from: usize, to: usize) -> Vec<String> {
    (from..to)
        .map(|n| format!("{file} {n:08} a line as long as a usual one of a service"))
        .collect()
}

/// The lines of [`numbered`] as text.
pub(crate) fn text_of(file: &str, from: usize, to: usize) -> String {
    numbered(file, from, to).iter().map(|line| format!("{line}\n")).collect()
}
