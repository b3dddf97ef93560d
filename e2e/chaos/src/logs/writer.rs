//! Writes numbered lines to log files, as programs and a container runtime do, and rotates them, as
//! logrotate and the kubelet do. What happens when follows from a seed, but for the clock.
//!
//! A rotated file is deleted only once its lines are known to be stored. Nothing here knows the
//! product.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use millrace_stack::random::Random;

use super::judge::Written;
use super::line::{self, Form};

/// Between two turns, in which every file may get lines: some 2,000 lines a second in all.
const TURN: Duration = Duration::from_millis(20);
/// Lines of a turn: below this.
const LINES: u64 = 9;
/// In one turn of this many a file gets a burst instead.
const BURST_EVERY: u64 = 500;
const BURST_LINES: u64 = 500;
/// In one turn of this many a file is rotated: every two seconds.
const ROTATION_EVERY: u64 = 100;
/// One rotation of this many is followed by others at once, within one look of the reader.
const SERIES_EVERY: u64 = 4;
const SERIES: usize = 3;
/// One container's line of this many is written in two parts.
const PARTS_EVERY: u64 = 20;
/// The longest part: the runtimes' own limit.
const PART_BYTES: usize = 16 << 10;

/// How a file is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Renamed, all older ones as well, and made anew.
    Move,
    /// Copied and truncated.
    Copy,
    /// As `Move`; all but the newest are compressed in place.
    Compress,
    /// A container's: renamed once, compressed beside it.
    Kubelet,
}

/// Every manner, in the order of the files.
pub const MANNERS: [Manner; 4] = [Manner::Move, Manner::Copy, Manner::Compress, Manner::Kubelet];
/// Two files of each.
pub const FILES: usize = 2 * MANNERS.len();

/// How a file is rotated.
pub fn manner(file: usize) -> Manner {
    MANNERS[file % MANNERS.len()]
}

/// The pod whose container writes a file.
pub fn pod(file: usize) -> String {
    format!("writer-{file}")
}

/// What was done so far.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// By file.
    pub files: Vec<Written>,
    /// By file: lines before this number are stored, so that what holds them may be deleted.
    pub stored: Vec<u64>,
    /// Rotations, compressions and deletions of all files.
    pub done: Done,
}

/// What happened to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Files rotated.
    pub rotated: u64,
    /// Rotated files compressed.
    pub compressed: u64,
    /// Rotated files deleted.
    pub deleted: u64,
}

/// A writer under way.
#[derive(Debug)]
pub struct Writer {
    ledger: Arc<Mutex<Ledger>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    /// Begins to write below `logs` and, in the kubelet's manner, below `pods`.
    ///
    /// # Errors
    /// When files can't be made, or no thread can be had.
    pub fn start(logs: &Path, pods: &Path, round: u64) -> Result<Self> {
        let written = |file| Written {
            begins: vec![0],
            is_timed: manner(file) != Manner::Kubelet,
            lines: 0,
            deleted: 0,
        };
        let ledger = Ledger {
            files: (0..FILES).map(written).collect(),
            stored: vec![0; FILES],
            done: Done::default(),
        };
        let ledger = Arc::new(Mutex::new(ledger));
        let ends = Arc::new(AtomicBool::new(false));
        let mut files = (0..FILES)
            .map(|file| Log::create(file, path(logs, pods, file), round, Arc::clone(&ledger)))
            .collect::<Result<Vec<_>>>()?;
        let is_over = Arc::clone(&ends);
        let body = move || {
            let mut random = Random::named(round, "writer");
            while !is_over.load(Ordering::Acquire) {
                files.iter_mut().try_for_each(|file| file.turn(&mut random))?;
                thread::sleep(TURN);
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(body)?;
        Ok(Self { ledger, ends, thread: Some(thread) })
    }

    /// How many lines each file has by now, at least.
    pub fn lines(&self) -> Vec<u64> {
        lock(&self.ledger).files.iter().map(|written| written.lines).collect()
    }

    /// Lines before these numbers are stored, by file.
    pub fn are_stored(&self, stored: &[u64]) {
        lock(&self.ledger).stored.copy_from_slice(stored);
    }

    /// Writes no more.
    ///
    /// # Errors
    /// When a file could not be written or rotated.
    pub fn end(&mut self) -> Result<()> {
        self.ends.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join().map_err(|_| anyhow!("the writer of files broke"))?;
        ended.context("files could not be written")
    }

    /// What was written so far.
    pub fn ledger(&self) -> Ledger {
        lock(&self.ledger).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    // Each change is whole even if a holder panicked.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn path(logs: &Path, pods: &Path, file: usize) -> PathBuf {
    match manner(file) {
        Manner::Kubelet => pods.join(format!("chaos_{}_uid-{file}/app/0.log", pod(file))),
        Manner::Move | Manner::Copy | Manner::Compress => {
            let name = match line::form(file) {
                Form::Plain => "app",
                Form::Several => "trace",
                Form::Wide => "wide",
            };
            logs.join(format!("{name}-{file}.log"))
        }
    }
}

/// A file that is written, and what became of it before.
#[derive(Debug)]
struct Log {
    file: usize,
    manner: Manner,
    path: PathBuf,
    round: u64,
    open: File,
    /// Lines of the file that is open.
    lines: u64,
    rotations: u64,
    /// The oldest first.
    rotated: VecDeque<Rotated>,
    ledger: Arc<Mutex<Ledger>>,
}

/// A file that isn't written any more.
#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    /// The number after its last line's.
    end: u64,
    is_packed: bool,
}

impl Log {
    fn create(file: usize, path: PathBuf, round: u64, ledger: Arc<Mutex<Ledger>>) -> Result<Self> {
        fs::create_dir_all(path.parent().context("a file in no folder")?)?;
        let (open, rotated) = (append_to(&path)?, VecDeque::new());
        let manner = manner(file);
        Ok(Self { file, manner, path, round, open, lines: 0, rotations: 0, rotated, ledger })
    }

    fn turn(&mut self, random: &mut Random) -> Result<()> {
        let count = match random.below(BURST_EVERY) {
            0 => BURST_LINES,
            _ => random.below(LINES),
        };
        self.write(count, random)?;
        if random.below(ROTATION_EVERY) > 0 || self.lines == 0 {
            return Ok(());
        }
        let times = if random.below(SERIES_EVERY) == 0 { SERIES } else { 1 };
        for _ in 0..times {
            self.rotate()?;
            self.write(1 + random.below(LINES), random)?;
        }
        self.delete()
    }

    /// Writes some lines, in two goes that part them anywhere.
    fn write(&mut self, count: u64, random: &mut Random) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // In the ledger before they are in the file: whoever asks knows of every line that is read.
        let first = {
            let mut ledger = lock(&self.ledger);
            let written = &mut ledger.files[self.file];
            let first = written.lines;
            written.lines += count;
            first
        };
        let mut bytes = Vec::new();
        for number in first..first + count {
            let text = line::text(self.round, self.file, number);
            match self.manner {
                Manner::Kubelet => container_line(&text, random, &mut bytes),
                Manner::Move | Manner::Copy | Manner::Compress => {
                    bytes.extend_from_slice(&line::bytes(self.file, &text));
                }
            }
        }
        let middle = random.below(bytes.len() as u64) as usize;
        self.open.write_all(&bytes[..middle])?;
        self.open.write_all(&bytes[middle..])?;
        self.lines += count;
        Ok(())
    }

    fn rotate(&mut self) -> Result<()> {
        let end = {
            let mut ledger = lock(&self.ledger);
            ledger.done.rotated += 1;
            let written = &mut ledger.files[self.file];
            written.begins.push(written.lines);
            written.lines
        };
        self.rotations += 1;
        let to = match self.manner {
            Manner::Move | Manner::Compress => {
                self.shift()?;
                named(&self.path, ".1")
            }
            Manner::Copy => named(&self.path, &format!("-{:06}", self.rotations)),
            Manner::Kubelet => named(&self.path, &format!(".20261126-{:06}", self.rotations)),
        };
        if self.manner == Manner::Copy {
            fs::copy(&self.path, &to)?;
            self.open.set_len(0)?;
        } else {
            fs::rename(&self.path, &to)?;
            self.open = append_to(&self.path)?;
        }
        if matches!(self.manner, Manner::Compress | Manner::Kubelet) {
            self.compress()?;
        }
        self.rotated.push_back(Rotated { path: to, end, is_packed: false });
        self.lines = 0;
        Ok(())
    }

    /// Each rotated file's number becomes one more: the oldest first, whose next number is free.
    fn shift(&mut self) -> Result<()> {
        let count = self.rotated.len();
        for (index, rotated) in self.rotated.iter_mut().enumerate() {
            let ending = if rotated.is_packed { ".gz" } else { "" };
            let to = named(&self.path, &format!(".{}{ending}", count - index + 1));
            fs::rename(&rotated.path, &to)?;
            rotated.path = to;
        }
        Ok(())
    }

    /// All that are rotated by now: the newest isn't among them yet.
    fn compress(&mut self) -> Result<()> {
        for rotated in self.rotated.iter_mut().filter(|rotated| !rotated.is_packed) {
            let packed = named(&rotated.path, ".gz");
            if self.manner == Manner::Compress {
                // Where readers see it grow.
                gzip(Command::new("gzip").arg(&rotated.path))?;
            } else {
                let beside = named(&rotated.path, ".tmp");
                let into = File::create(&beside)?;
                gzip(Command::new("gzip").arg("-c").arg(&rotated.path).stdout(into))?;
                fs::rename(&beside, &packed)?;
                fs::remove_file(&rotated.path)?;
            }
            (rotated.path, rotated.is_packed) = (packed, true);
            lock(&self.ledger).done.compressed += 1;
        }
        Ok(())
    }

    /// What is stored to its last line.
    fn delete(&mut self) -> Result<()> {
        let stored = lock(&self.ledger).stored[self.file];
        while self.rotated.front().is_some_and(|oldest| oldest.end <= stored)
            && let Some(oldest) = self.rotated.pop_front()
        {
            fs::remove_file(&oldest.path)?;
            let mut ledger = lock(&self.ledger);
            ledger.done.deleted += 1;
            ledger.files[self.file].deleted = oldest.end;
        }
        Ok(())
    }
}

/// As a container runtime writes it: with time, stream, and a mark for a part or the last one.
fn container_line(text: &str, random: &mut Random, into: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    let stream = if random.below(4) == 0 { "stderr" } else { "stdout" };
    let first = match random.below(PARTS_EVERY) {
        0 => 1 + random.below(rest.len() as u64 - 1) as usize,
        _ => PART_BYTES,
    };
    let mut limit = first.min(PART_BYTES);
    loop {
        let (part, later) = rest.split_at(limit.min(rest.len()));
        let mark = if later.is_empty() { 'F' } else { 'P' };
        into.extend_from_slice(format!("{} {stream} {mark} ", Timestamp::now()).as_bytes());
        into.extend_from_slice(part);
        into.push(b'\n');
        if later.is_empty() {
            return;
        }
        (rest, limit) = (later, PART_BYTES);
    }
}

fn append_to(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn gzip(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let output = output.context("gzip can't be started")?.wait_with_output()?;
    if !output.status.success() {
        bail!("gzip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
