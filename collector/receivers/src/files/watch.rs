//! What the kernel tells of directories: inotify. Events say where to look, and nothing else.
//!
//! Directories are watched, never single files. An event that is lost (the kernel's queue is full)
//! leads to a walk of all directories, and so does one that says that something came, moved or
//! went. A directory that can't be watched, since a limit of the node's is reached, is counted,
//! said once, and tried again; until then all directories are walked as if there were no events.

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

/// The most directories that are watched: two for each file that may be known, a pod's and its
/// container's. The kernel holds some 1 KiB for each: 64 MiB.
pub(super) const WATCHES_MAX: usize = 65_536;

/// The share of the node's limit that is used: the kubelet and others watch as well, as root.
const WATCHES_SHARE: usize = 2;

/// Where the node says how many directories a user may watch.
const NODES_LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";

/// File systems on which others write without an event here: NFS, SMB (three), FUSE, 9P, Ceph, AFS.
const SILENT: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];

/// Bytes of events that are read at once: some 2,000 events with names of 16 bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Events taken at once: twice the kernel's usual queue, so that writers can't keep a reader.
const EVENTS_MAX: usize = 32_768;

/// Writes in one directory between two looks at what was written, after which they aren't told one
/// by one for a while: 1,024 are read in 0.3 ms, and its files are looked at anyway.
const WRITES_MAX: u32 = 1024;

/// How long writes in a directory aren't told: it costs then what a directory without events does.
const MUTED: Duration = Duration::from_secs(5);

/// What comes, moves and goes.
const ENTRIES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// That, and writes to files that still have a name.
const ALL: WatchFlags = ENTRIES.union(WatchFlags::MODIFY).union(WatchFlags::EXCL_UNLINK);

/// A watched directory.
#[derive(Debug)]
struct Covered {
    number: i32,
    /// The round in which it was found to be the one that is watched.
    round: u32,
}

/// The names in a directory that were written.
#[derive(Debug, Default)]
struct Written {
    names: HashSet<OsString>,
    events: u32,
}

/// All watches, and what they told since it was last taken.
#[derive(Debug)]
pub(super) struct Watch {
    kernel: Option<OwnedFd>,
    buffer: Vec<MaybeUninit<u8>>,
    most: usize,
    by_path: HashMap<Arc<Path>, Covered>,
    by_number: HashMap<i32, Arc<Path>>,
    round: u32,
    is_full: bool,
    has_said: bool,
    unwatched: usize,
    written: HashMap<i32, Written>,
    muted: Vec<(Arc<Path>, Instant)>,
    has_changed: bool,
    /// Events were lost: what is watched may have other names.
    has_lost: bool,
    overflows: u64,
}

impl Watch {
    /// At most so many directories are watched.
    pub(super) fn new(most: usize) -> Self {
        Self {
            kernel: None,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
            most,
            by_path: HashMap::new(),
            by_number: HashMap::new(),
            round: 0,
            is_full: false,
            has_said: false,
            unwatched: 0,
            written: HashMap::new(),
            muted: Vec::new(),
            has_changed: false,
            has_lost: false,
            overflows: 0,
        }
    }

    /// Directories that the last walk found and that aren't watched.
    pub(super) fn unwatched(&self) -> usize {
        self.unwatched
    }

    /// Whether something has come, moved or gone since the last walk began.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether events were lost since the last walk of all began.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Times that events were lost since the last call.
    pub(super) fn take_overflows(&mut self) -> u64 {
        std::mem::take(&mut self.overflows)
    }

    /// A walk begins, which finds all that was told so far. One of `all` also finds out whether
    /// each watched directory is still the one of its name, and tries those that aren't watched.
    pub(super) fn begin(&mut self, all: bool) {
        self.has_changed = false;
        self.unwatched = 0;
        self.written.clear();
        if !all {
            return;
        }
        self.round = self.round.wrapping_add(1);
        (self.is_full, self.has_lost) = (false, false);
        // Watching it again gives it back all of its events.
        self.muted.clear();
        if self.kernel.is_none() && self.most > 0 {
            match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
                Ok(kernel) => self.kernel = Some(kernel),
                Err(error) => self.say(
                    error,
                    "fs.inotify.max_user_instances, or the process's limit of open files",
                ),
            }
        }
    }

    /// A walk has ended. After one of all, what it didn't find is watched no longer.
    pub(super) fn end(&mut self, all: bool) {
        if all {
            let round = self.round;
            self.forget(|_, covered| covered.round != round);
        }
    }

    /// A directory that is read next.
    pub(super) fn cover(&mut self, path: &Path) {
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
            self.say(
                format_args!("{most} are watched: half of the node's limit, {WATCHES_MAX} at most"),
                "fs.inotify.max_user_watches",
            );
        }
        if !is_known && !self.is_full && is_silent(path) {
            self.unwatched += 1;
            return self.say("there are no events on network file systems", "(none)");
        }
        let Some(kernel) = self.kernel.as_ref().filter(|_| is_known || !self.is_full) else {
            self.unwatched += 1;
            return;
        };
        match inotify::add_watch(kernel, path, ALL) {
            Ok(number) => self.covered(path, number),
            Err(Errno::NOSPC) => {
                self.is_full = true;
                self.unwatched += 1;
                self.say(Errno::NOSPC, "fs.inotify.max_user_watches");
            }
            // It is gone, or not ours to read: the walk says so.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => self.forget(|it, _| it == path),
            Err(error) => {
                self.unwatched += 1;
                self.say(error, "(none)");
            }
        }
    }

    fn covered(&mut self, path: &Path, number: i32) {
        let covered = Covered { number, round: self.round };
        if let Some(known) = self.by_path.get_mut(path) {
            let before = std::mem::replace(known, covered).number;
            if before == number {
                return;
            }
            self.release(before, path);
        } else {
            self.by_path.insert(path.into(), covered);
        }
        if let Some((path, _)) = self.by_path.get_key_value(path) {
            self.by_number.insert(number, Arc::clone(path));
        }
    }

    /// A directory that a name led to isn't watched under it any more.
    fn release(&mut self, number: i32, path: &Path) {
        if self.by_number.get(&number).is_some_and(|known| **known == *path) {
            self.by_number.remove(&number);
            self.written.remove(&number);
            if let Some(kernel) = &self.kernel {
                // It may be gone, and its watch with it.
                let _ = inotify::remove_watch(kernel, number);
            }
        }
    }

    fn forget(&mut self, gone: impl Fn(&Path, &Covered) -> bool) {
        let gone: Vec<(Arc<Path>, i32)> = self
            .by_path
            .iter()
            .filter(|(path, covered)| gone(path, covered))
            .map(|(path, covered)| (Arc::clone(path), covered.number))
            .collect();
        for (path, number) in gone {
            self.by_path.remove(&path);
            self.release(number, &path);
        }
    }

    /// Says once why not all is watched.
    fn say(&mut self, why: impl std::fmt::Display, sysctl: &str) {
        if !std::mem::replace(&mut self.has_said, true) {
            tracing::error!(
                %why,
                sysctl,
                "not all directories of log files can be watched: all are walked, every second at \
                 most, which takes more CPU time; if a limit of the node is reached, raise it"
            );
        }
    }

    /// Takes what the kernel has to tell.
    pub(super) fn listen(&mut self, now: Instant) {
        let Some(kernel) = self.kernel.take() else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut events = inotify::Reader::new(&kernel, &mut buffer);
        let mut loud = Vec::new();
        for _ in 0..EVENTS_MAX {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    loud.extend(self.hear(event.wd(), event.events(), name));
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
            self.mute(number, now);
        }
    }

    /// Takes an event. A directory in which too much is written is given back.
    fn hear(&mut self, number: i32, flags: ReadFlags, name: Option<&OsStr>) -> Option<i32> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.overflows += 1;
            self.has_lost = true;
            return None;
        }
        // Not known: it came before its watch was given up.
        let path = Arc::clone(self.by_number.get(&number)?);
        let is_folder = flags.contains(ReadFlags::ISDIR);
        let itself =
            ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        if flags.intersects(itself) {
            self.has_changed = true;
            self.forget(|it, _| it.starts_with(&path));
            return None;
        }
        if is_folder || !flags.intersects(ReadFlags::MODIFY | ReadFlags::ATTRIB) {
            self.has_changed = true;
            // What is watched below it has another name now.
            if let (true, Some(name)) = (is_folder && flags.contains(ReadFlags::MOVED_FROM), name) {
                let from = path.join(name);
                self.forget(|it, _| it.starts_with(&from));
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

    fn mute(&mut self, number: i32, now: Instant) {
        let Some(path) = self.by_number.get(&number).map(Arc::clone) else { return };
        let Some(kernel) = &self.kernel else { return };
        match inotify::add_watch(kernel, &*path, ENTRIES) {
            Ok(same) if same == number => self.muted.push((path, now)),
            // Another directory has its name: an event says so.
            Ok(_) | Err(_) => self.has_changed = true,
        }
    }

    /// The files that were written.
    pub(super) fn take_written(&mut self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for (number, written) in self.written.drain() {
            if let Some(folder) = self.by_number.get(&number) {
                paths.extend(written.names.into_iter().map(|name| folder.join(name)));
            }
        }
        paths
    }

    /// Directories whose writes aren't told: all of their files are to be looked at. After a while
    /// they are told again, from before this look on.
    pub(super) fn take_muted(&mut self, now: Instant) -> Vec<Arc<Path>> {
        let muted = self.muted.iter().map(|(path, _)| Arc::clone(path)).collect();
        let (kernel, has_changed) = (&self.kernel, &mut self.has_changed);
        self.muted.retain(|(path, since)| {
            if now.duration_since(*since) < MUTED {
                return true;
            }
            let told = kernel.as_ref().map(|kernel| inotify::add_watch(kernel, &**path, ALL));
            *has_changed |= !matches!(told, Some(Ok(_)));
            false
        });
        muted
    }
}

/// How many directories this process may watch.
pub(super) fn watches_max() -> usize {
    let limit = fs::read_to_string(NODES_LIMIT).ok().and_then(|text| text.trim().parse().ok());
    limit.map_or(WATCHES_MAX, |limit: usize| WATCHES_MAX.min(limit / WATCHES_SHARE))
}

/// Whether a directory is on a file system on which others write without an event here.
fn is_silent(path: &Path) -> bool {
    let kind = statfs(path).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| SILENT.contains(&kind))
}
