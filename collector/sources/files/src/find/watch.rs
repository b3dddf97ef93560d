//! Watches directories with inotify. Events only state which paths to scan.
//!
//! Only directories are watched, never single files. A lost event (the kernel's queue is full)
//! leads to a walk of all directories, as does an entry that appeared, moved or went. If a limit of
//! the node prevents watching a directory, it is counted, logged once, and tried again; until then
//! all directories are walked as if there were no events.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::statfs;
use rustix::io::Errno;

/// The maximum watched directories: two for each file that may be known, a pod's and its
/// container's. The kernel holds some 1 KiB for each: 64 MiB.
pub(crate) const WATCHES_MAX: usize = 65_536;

/// The fraction (1/n) of the node's limit that is used: the kubelet and others also watch, as root.
const WATCHES_SHARE: usize = 2;

/// The node's limit of watched directories per user.
const NODES_LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";

/// Magic numbers of file systems on which other machines write without a local event: NFS, SMB
/// (three), FUSE, 9P, Ceph, AFS.
const SILENT: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];

/// Bytes of events per read: some 2,000 events with names of 16 bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The maximum events per call: twice the kernel's usual queue, so that writers can't hold up the
/// worker.
const EVENTS_MAX: usize = 32_768;

/// Writes in one directory between two scans of written files, after which the directory is muted:
/// 1,024 are read in 0.3 ms, and its files are polled anyway.
const WRITES_MAX: u32 = 1024;

/// How long a directory's writes stay muted: in that time it costs as much as one without events.
const MUTED: Duration = Duration::from_secs(5);

/// Events of entries that appear, move and go.
const ENTRIES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// `ENTRIES`, and writes to files that still have a name.
const ALL: WatchFlags = ENTRIES.union(WatchFlags::MODIFY).union(WatchFlags::EXCL_UNLINK);

/// A watched directory.
#[derive(Debug)]
struct WatchedFolder {
    number: i32,
    /// The last walk that found this directory at its path.
    round: u32,
}

/// The names of written files in a directory, and the number of write events.
#[derive(Debug, Default)]
struct WrittenNames {
    names: HashSet<OsString>,
    events: u32,
}

/// All watches, and the events since they were last consumed.
#[derive(Debug)]
pub(crate) struct DirectoryWatcher {
    kernel: Option<OwnedFd>,
    buffer: Vec<MaybeUninit<u8>>,
    most: usize,
    by_path: HashMap<Arc<Path>, WatchedFolder>,
    by_number: HashMap<i32, Arc<Path>>,
    round: u32,
    is_full: bool,
    has_reported: bool,
    unwatched: usize,
    written: HashMap<i32, WrittenNames>,
    muted: Vec<(Arc<Path>, Instant)>,
    has_changed: bool,
    /// Events were lost: watched directories may have other paths.
    has_lost: bool,
    overflows: u64,
}

impl DirectoryWatcher {
    /// Watches at most this many directories.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            kernel: None,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
            most,
            by_path: HashMap::new(),
            by_number: HashMap::new(),
            round: 0,
            is_full: false,
            has_reported: false,
            unwatched: 0,
            written: HashMap::new(),
            muted: Vec::new(),
            has_changed: false,
            has_lost: false,
            overflows: 0,
        }
    }

    /// The number of directories that the last walk found and that aren't watched.
    pub(crate) fn unwatched(&self) -> usize {
        self.unwatched
    }

    /// Whether an entry has appeared, moved or gone since the last walk began.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether events were lost since the last full walk began.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// The number of queue overflows since the last call.
    pub(crate) fn take_overflows(&mut self) -> u64 {
        std::mem::take(&mut self.overflows)
    }

    /// Begins a walk, which covers all events so far. A full walk (`all`) also checks whether each
    /// watched directory is still the one at its path, and retries unwatched ones.
    pub(crate) fn begin_walk(&mut self, all: bool) {
        self.has_changed = false;
        self.unwatched = 0;
        self.written.clear();
        if !all {
            return;
        }
        self.round = self.round.wrapping_add(1);
        (self.is_full, self.has_lost) = (false, false);
        // Watching a directory again restores all of its events.
        self.muted.clear();
        if self.kernel.is_none() && self.most > 0 {
            match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
                Ok(kernel) => self.kernel = Some(kernel),
                Err(error) => self.report_unwatched(
                    error,
                    "fs.inotify.max_user_instances, or the process's limit of open files",
                ),
            }
        }
    }

    /// Ends a walk. After a full one, directories that it didn't find are no longer watched.
    pub(super) fn end_walk(&mut self, all: bool) {
        if all {
            let round = self.round;
            self.forget_folders(|_, covered| covered.round != round);
        }
    }

    /// Watches a directory that is read next.
    pub(super) fn watch_folder(&mut self, path: &Path) {
        let known = self.by_path.get_mut(path);
        let is_known = known.is_some();
        if let Some(known) = known
            && std::mem::replace(&mut known.round, self.round) == self.round
        {
            return;
        }
        if !is_known && !self.is_full && self.by_path.len() >= self.most {
            self.is_full = true;
            let most = self.most;
            self.report_unwatched(
                format_args!(
                    "{most} directories are watched: half of the node's limit, at most \
                     {WATCHES_MAX}"
                ),
                "fs.inotify.max_user_watches",
            );
        }
        if !is_known && !self.is_full && is_silent(path) {
            self.unwatched += 1;
            return self.report_unwatched("network file systems report no events", "(none)");
        }
        let Some(kernel) = self.kernel.as_ref().filter(|_| is_known || !self.is_full) else {
            self.unwatched += 1;
            return;
        };
        match inotify::add_watch(kernel, path, ALL) {
            Ok(number) => self.record_watch(path, number),
            Err(Errno::NOSPC) => {
                self.is_full = true;
                self.unwatched += 1;
                self.report_unwatched(Errno::NOSPC, "fs.inotify.max_user_watches");
            }
            // The directory is gone, not permitted, or unreadable: the walk reports it, and the
            // next walk retries.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::ACCESS
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::IO
                | Errno::STALE
                | Errno::NOTCONN,
            ) => self.forget_folders(|it, _| it == path),
            Err(error) => {
                self.unwatched += 1;
                self.report_unwatched(error, "(none)");
            }
        }
    }

    fn record_watch(&mut self, path: &Path, number: i32) {
        let covered = WatchedFolder { number, round: self.round };
        if let Some(known) = self.by_path.get_mut(path) {
            let before = std::mem::replace(known, covered).number;
            if before == number {
                return;
            }
            self.remove_watch(before, path);
        } else {
            self.by_path.insert(path.into(), covered);
        }
        if let Some((path, _)) = self.by_path.get_key_value(path) {
            self.by_number.insert(number, Arc::clone(path));
        }
    }

    /// Stops watching a directory at a path that no longer leads to it.
    fn remove_watch(&mut self, number: i32, path: &Path) {
        if self.by_number.get(&number).is_some_and(|known| **known == *path) {
            self.by_number.remove(&number);
            self.written.remove(&number);
            if let Some(kernel) = &self.kernel {
                // The directory may be gone, and its watch with it.
                let _ = inotify::remove_watch(kernel, number);
            }
        }
    }

    fn forget_folders(&mut self, is_obsolete: impl Fn(&Path, &WatchedFolder) -> bool) {
        let forgotten: Vec<(Arc<Path>, i32)> = self
            .by_path
            .iter()
            .filter(|(path, covered)| is_obsolete(path, covered))
            .map(|(path, covered)| (Arc::clone(path), covered.number))
            .collect();
        for (path, number) in forgotten {
            self.by_path.remove(&path);
            self.remove_watch(number, &path);
        }
    }

    /// Logs once why some directories aren't watched.
    fn report_unwatched(&mut self, why: impl std::fmt::Display, sysctl: &str) {
        if !std::mem::replace(&mut self.has_reported, true) {
            tracing::error!(
                %why,
                sysctl,
                "some directories of log files cannot be watched: all are scanned at least every \
                 second, which takes more CPU time; if a node limit is reached, raise it"
            );
        }
    }

    /// Reads the kernel's events.
    pub(crate) fn read_events(&mut self, now: Instant) {
        let Some(kernel) = self.kernel.take() else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut events = inotify::Reader::new(&kernel, &mut buffer);
        let mut loud = Vec::new();
        for _ in 0..EVENTS_MAX {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    loud.extend(self.handle_event(event.wd(), event.events(), name));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.has_lost = true;
                    break;
                }
            }
        }
        self.buffer = buffer;
        self.kernel = Some(kernel);
        for number in loud {
            self.mute_folder(number, now);
        }
    }

    /// Applies an event. Returns the directory if its writes reach [`WRITES_MAX`].
    fn handle_event(&mut self, number: i32, flags: ReadFlags, name: Option<&OsStr>) -> Option<i32> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.overflows += 1;
            self.has_lost = true;
            return None;
        }
        // An unknown number: the event came before its watch was removed.
        let path = Arc::clone(self.by_number.get(&number)?);
        let is_folder = flags.contains(ReadFlags::ISDIR);
        let itself =
            ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        if flags.intersects(itself) {
            self.has_changed = true;
            self.forget_folders(|it, _| it.starts_with(&path));
            return None;
        }
        if is_folder || !flags.intersects(ReadFlags::MODIFY | ReadFlags::ATTRIB) {
            self.has_changed = true;
            // Watched directories below it have other paths now.
            if let (true, Some(name)) = (is_folder && flags.contains(ReadFlags::MOVED_FROM), name) {
                let from = path.join(name);
                self.forget_folders(|it, _| it.starts_with(&from));
            }
            return None;
        }
        let name = name?;
        let written = self.written.entry(number).or_default();
        if !written.names.contains(name) {
            written.names.insert(name.to_owned());
        }
        written.events += 1;
        (written.events == WRITES_MAX).then_some(number)
    }

    fn mute_folder(&mut self, number: i32, now: Instant) {
        let Some(path) = self.by_number.get(&number).map(Arc::clone) else { return };
        let Some(kernel) = &self.kernel else { return };
        match inotify::add_watch(kernel, &*path, ENTRIES) {
            Ok(same) if same == number => self.muted.push((path, now)),
            // Another directory is at this path: an event reports it.
            Ok(_) | Err(_) => self.has_changed = true,
        }
    }

    /// Returns the files that were written.
    pub(super) fn take_written(&mut self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for (number, written) in self.written.drain() {
            if let Some(folder) = self.by_number.get(&number) {
                paths.extend(written.names.into_iter().map(|name| folder.join(name)));
            }
        }
        paths
    }

    /// Returns the muted directories, all of whose files are to be checked. After [`MUTED`] their
    /// write events are enabled again, before this scan.
    pub(super) fn take_muted(&mut self, now: Instant) -> Vec<Arc<Path>> {
        let muted = self.muted.iter().map(|(path, _)| Arc::clone(path)).collect();
        let (kernel, has_changed) = (&self.kernel, &mut self.has_changed);
        self.muted.retain(|(path, since)| {
            if now.duration_since(*since) < MUTED {
                return true;
            }
            let added = kernel.as_ref().map(|kernel| inotify::add_watch(kernel, &**path, ALL));
            *has_changed |= !matches!(added, Some(Ok(_)));
            false
        });
        muted
    }
}

/// The number of directories that this process may watch.
pub(super) fn watches_max() -> usize {
    let limit = fs::read_to_string(NODES_LIMIT).ok().and_then(|text| text.trim().parse().ok());
    limit.map_or(WATCHES_MAX, |limit: usize| WATCHES_MAX.min(limit / WATCHES_SHARE))
}

/// Whether a directory is on a file system on which others write without an event here.
fn is_silent(path: &Path) -> bool {
    let kind = statfs(path).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| SILENT.contains(&kind))
}
