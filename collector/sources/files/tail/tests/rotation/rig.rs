//! A directory in memory, and a reader that executes the state machine's actions, line by line.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use millrace_tail::{
    Action, FileCheck, FileId, FileObservation, InodeId, OpenOutcome, PauseSet, Position,
    ReadOutcome, RecordedPositions, Tail, TailEvent, TailSettings, TailSource, Ticket,
    UnlistedPaths, load_positions,
};

const DEVICE: u64 = 7;

/// Files by inode, names by path; an inode exists while it has a name or is open.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) names: BTreeMap<PathBuf, u64>,
    pub(crate) content: HashMap<u64, Vec<u8>>,
    stamps: HashMap<u64, u64>,
    pub(crate) clock: u64,
    next_inode: u64,
    /// Compressed files of which only the beginning exists.
    pub(crate) torn: HashSet<u64>,
}

impl Disk {
    pub(crate) fn append(&mut self, path: &str, text: &str) {
        let inode = self.names.get(&PathBuf::from(path)).copied().unwrap_or_else(|| {
            self.next_inode += 1;
            self.names.insert(path.into(), self.next_inode);
            self.next_inode
        });
        self.write(inode, |content| content.extend_from_slice(text.as_bytes()));
    }

    pub(crate) fn write(&mut self, inode: u64, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.content.entry(inode).or_default());
        self.clock += 1;
        self.stamps.insert(inode, self.clock);
    }

    pub(crate) fn inode(&self, path: &str) -> u64 {
        self.names[&PathBuf::from(path)]
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let inode = self.names.remove(&PathBuf::from(from)).unwrap();
        self.names.insert(to.into(), inode);
    }

    pub(crate) fn truncate(&mut self, path: &str) {
        self.write(self.inode(path), Vec::clear);
    }

    pub(crate) fn copy(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.content[&self.inode(from)].clone()).unwrap();
        self.names.remove(&PathBuf::from(to));
        self.append(to, &text);
    }

    pub(crate) fn delete(&mut self, path: &str) {
        self.names.remove(&PathBuf::from(path)).unwrap();
    }

    /// Writes a compressed file next to the original, with its modification time. The content is
    /// stored as text here.
    pub(crate) fn pack(&mut self, path: &str) -> u64 {
        let (from, to) = (self.inode(path), format!("{path}.gz"));
        self.copy(path, &to);
        let inode = self.inode(&to);
        self.stamps.insert(inode, self.stamps[&from]);
        inode
    }

    /// Makes the next file reuse this inode.
    pub(crate) fn use_again(&mut self, inode: u64) {
        self.content.remove(&inode);
        self.next_inode = inode - 1;
    }

    pub(crate) fn link(&mut self, from: &str, to: &str) {
        self.names.insert(to.into(), self.inode(from));
    }

    /// Returns what a scan observes.
    pub(crate) fn seen(&self, inside: fn(&str) -> bool) -> Vec<FileObservation> {
        self.names
            .iter()
            .map(|(path, inode)| FileObservation {
                path: path.as_path().into(),
                source: 0,
                inside: inside(path.to_str().unwrap()) && path.extension() != Some("gz".as_ref()),
                is_begun: false,
                device: DEVICE,
                inode: *inode,
                size: self.content[inode].len() as u64,
                modified: self.stamps[inode],
            })
            .collect()
    }

    fn head(&self, inode: u64) -> &[u8] {
        let content = &self.content[&inode];
        &content[..content.len().min(1024)]
    }
}

/// The text to read, and its offset.
fn begun(opened: OpenOutcome) -> Option<(FileId, usize)> {
    match opened {
        OpenOutcome::From(file, Position { offset, .. })
        | OpenOutcome::FromEnd(file, Position { offset, .. }) => Some((file, offset as usize)),
        OpenOutcome::Unread => None,
    }
}

struct Open {
    inode: u64,
    at: usize,
    rest: Vec<u8>,
}

/// A collector: the state machine, open files, and all lines that it sent.
pub(crate) struct Collector {
    pub(crate) tail: Tail,
    inside: fn(&str) -> bool,
    open: HashMap<FileId, Open>,
    pub(crate) lines: Vec<String>,
    pub(crate) events: Vec<TailEvent>,
    /// Whether sent lines are acknowledged at once.
    pub(crate) acknowledges: bool,
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) most_open: usize,
    pub(crate) opened_packed: usize,
    document: Option<Vec<u8>>,
}

impl Collector {
    pub(crate) fn start(inside: fn(&str) -> bool, from_end: bool) -> Self {
        Self::with(inside, from_end, RecordedPositions::for_first_start(), 100)
    }

    pub(crate) fn with(
        inside: fn(&str) -> bool,
        from_end: bool,
        recalled: RecordedPositions,
        open_files: usize,
    ) -> Self {
        Self::bounded(inside, from_end, recalled, (open_files, 1000))
    }

    /// Limits the open and the known files.
    pub(crate) fn bounded(
        inside: fn(&str) -> bool,
        from_end: bool,
        recalled: RecordedPositions,
        (open_files, known_files): (usize, usize),
    ) -> Self {
        let sources = vec![TailSource { names: vec!["host".into()], from_end }];
        let settings = TailSettings { sources, open_files, known_files };
        Self {
            tail: Tail::new(settings, recalled, |_| Some(0)),
            inside,
            open: HashMap::new(),
            lines: Vec::new(),
            events: Vec::new(),
            acknowledges: true,
            tickets: Vec::new(),
            most_open: 0,
            opened_packed: 0,
            document: None,
        }
    }

    /// Stores the positions.
    pub(crate) fn keep(&mut self) {
        if let Some(document) = self.tail.changed_checkpoint() {
            self.document = Some(document);
        }
    }

    /// Stores the positions, kills the process, and starts another with them.
    pub(crate) fn restart(&mut self) {
        self.keep();
        self.kill();
    }

    /// Kills the process, and starts another with the last stored positions.
    pub(crate) fn kill(&mut self) {
        let document = self.document.take();
        let (recalled, resort) = load_positions(document.as_deref(), None);
        assert_eq!(resort, None);
        let lines = std::mem::take(&mut self.lines);
        *self = Self { lines, document, ..Self::with(self.inside, true, recalled, 100) };
    }

    pub(crate) fn look(&mut self, disk: &Disk) {
        self.look_with(disk, &UnlistedPaths::default());
    }

    /// Runs a scan that couldn't list some paths.
    pub(crate) fn look_with(&mut self, disk: &Disk, unlisted: &UnlistedPaths) {
        self.tail.set_paused(PauseSet::default());
        for action in self.tail.apply_scan(&disk.seen(self.inside), unlisted) {
            self.act(disk, action);
        }
        self.events.extend(self.tail.take_events());
    }

    /// Runs a scan while all files are paused.
    pub(crate) fn look_paused(&mut self, disk: &Disk) {
        for (file, open) in self.open.drain() {
            self.tail
                .record_closed(file, Position::from_offset((open.at - open.rest.len()) as u64));
        }
        let files = disk.names.values().map(|inode| (DEVICE, *inode)).collect();
        self.tail.set_paused(PauseSet { files, ..PauseSet::default() });
        assert_eq!(self.tail.apply_scan(&[], &UnlistedPaths::default()), []);
        self.events.extend(self.tail.take_events());
    }

    /// Runs a scan that listed these names and then took long: each file is observed as it is now,
    /// and files with another name by now aren't included.
    pub(crate) fn look_long(&mut self, listed: &[PathBuf], disk: &Disk) {
        let mut seen = disk.seen(self.inside);
        seen.retain(|seen| listed.iter().any(|name| **name == *seen.path));
        for action in self.tail.apply_scan(&seen, &UnlistedPaths::default()) {
            self.act(disk, action);
        }
        self.events.extend(self.tail.take_events());
    }

    /// Fails the reads of all open files.
    pub(crate) fn fail_reads(&mut self) {
        for (file, open) in self.open.drain() {
            self.tail
                .record_unreadable(file, Position::from_offset((open.at - open.rest.len()) as u64));
        }
    }

    /// Runs a scan while nothing can be sent, so that nothing is read.
    pub(crate) fn look_without_reading(&mut self, disk: &Disk) {
        for action in self.tail.apply_scan(&disk.seen(self.inside), &UnlistedPaths::default()) {
            if !matches!(action, Action::Read { .. }) {
                self.act(disk, action);
            }
        }
    }

    /// Runs a scan while the limit of compressed files is reached, so that none is opened.
    pub(crate) fn look_without_unpacking(&mut self, disk: &Disk) {
        for action in self.tail.apply_scan(&disk.seen(self.inside), &UnlistedPaths::default()) {
            match action {
                Action::Open { file, packed: true, .. } => self.tail.record_open_failure(file),
                action => self.act(disk, action),
            }
        }
    }

    /// Runs a scan after which nothing is opened.
    pub(crate) fn look_without_opening(&mut self, disk: &Disk) {
        self.tail.apply_scan(&disk.seen(self.inside), &UnlistedPaths::default());
    }

    /// Checks one file. Returns whether no scan is needed.
    pub(crate) fn glance(&mut self, disk: &Disk, path: &str, told: bool) -> bool {
        let inode = disk.inode(path);
        let stamps = (disk.content[&inode].len() as u64, disk.stamps[&inode]);
        match self.tail.check_file((DEVICE, inode), stamps, told) {
            FileCheck::Nothing => true,
            FileCheck::Read(file) => {
                self.read(disk, file);
                true
            }
            FileCheck::Scan => false,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.tail.is_quiescent(&HashSet::new())
    }

    pub(crate) fn looks(&mut self, disk: &Disk, count: usize) {
        for _ in 0..count {
            self.look(disk);
        }
    }

    fn act(&mut self, disk: &Disk, action: Action) {
        match action {
            Action::Open { file, path, packed: true, .. } => self.open_packed(disk, file, &path),
            Action::Open { file, path, .. } => {
                assert!(path.extension() != Some("gz".as_ref()), "{} as text", path.display());
                let inode = disk.names[&*path];
                let size = disk.content[&inode].len() as u64;
                let opened = self.tail.record_opened(file, (DEVICE, inode), size, disk.head(inode));
                if let Some((file, at)) = begun(opened) {
                    self.open.insert(file, Open { inode, at, rest: Vec::new() });
                    self.most_open = self.most_open.max(self.open.len());
                    self.read(disk, file);
                }
            }
            Action::Read { file } => self.read(disk, file),
            Action::Close { file } => {
                let open = self.open.remove(&file).unwrap();
                self.tail
                    .record_closed(file, Position::from_offset((open.at - open.rest.len()) as u64));
            }
            Action::Finish { file } => {
                let open = self.open.remove(&file).unwrap();
                self.take_rest(&open.rest);
                self.send(file, open.at);
                self.tail.record_closed(file, Position::from_offset(open.at as u64));
            }
        }
    }

    fn open_packed(&mut self, disk: &Disk, file: InodeId, path: &Path) {
        let inode = disk.names[path];
        assert!(path.extension() == Some("gz".as_ref()), "{} as compressed", path.display());
        self.opened_packed += 1;
        let size = disk.content[&inode].len() as u64;
        if disk.torn.contains(&inode) {
            return self.tail.record_torn(file);
        }
        let opened = self.tail.record_opened(file, (DEVICE, inode), size, disk.head(inode));
        let Some((file, at)) = begun(opened) else { return };
        self.open.insert(file, Open { inode, at, rest: Vec::new() });
        self.read(disk, file);
        self.tail.record_end(file);
        let open = self.open.remove(&file).unwrap();
        self.tail.record_closed(file, Position::from_offset(open.at as u64));
    }

    fn take_rest(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.lines.push(String::from_utf8(rest.to_vec()).unwrap());
        }
    }

    fn send(&mut self, file: FileId, up_to: usize) {
        let position = Position::from_offset(up_to as u64);
        self.tail.record_accepted(file, position);
        let ticket = self.tail.record_sent(file, position).unwrap();
        if self.acknowledges {
            self.tail.acknowledge(ticket);
        } else {
            self.tickets.push(ticket);
        }
    }

    fn read(&mut self, disk: &Disk, mut file: FileId) {
        loop {
            let open = self.open.get_mut(&file).unwrap();
            let content = &disk.content[&open.inode];
            let slice = content.get(open.at..).unwrap_or_default();
            let slice = &slice[..slice.len().min(50)];
            let (size, head) = (content.len() as u64, disk.head(open.inode));
            let step = self.tail.record_read(file, open.at as u64, slice.len() as u64, size, head);
            if let ReadOutcome::Restart(next) = step {
                let Open { inode, rest, .. } = self.open.remove(&file).unwrap();
                self.open.insert(next, Open { inode, at: 0, rest: Vec::new() });
                file = next;
                self.take_rest(&rest);
                continue;
            }
            open.at += slice.len();
            open.rest.extend_from_slice(slice);
            while let Some(end) = open.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = open.rest.drain(..=end).collect();
                self.lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let up_to = open.at - open.rest.len();
            self.send(file, up_to);
            if step == ReadOutcome::AtEnd {
                return;
            }
        }
    }

    /// Fails unless exactly these lines were sent, in any order of files.
    pub(crate) fn has_sent(&self, expected: &[String]) {
        let mut lines = self.lines.clone();
        let mut expected = expected.to_vec();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
    }
}
