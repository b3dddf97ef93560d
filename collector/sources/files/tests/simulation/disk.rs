//! Simulates writers and their files: a real directory, with modification times of the simulation's
//! clock.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::book::{Id, line_of};
use millrace_seeds::Random;

/// Two: standard output and standard error. A plain file has only the first.
pub(super) const STREAMS: usize = 2;

/// The content of one file from its beginning to its end or truncation.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Complete lines, by stream.
    pub(super) lines: [usize; STREAMS],
    /// Whether its file was deleted.
    pub(super) deleted: bool,
    /// Whether it was deleted before the process had it open: then its lines aren't required.
    pub(super) lost: bool,
    /// Whether the process has observed it under its name.
    pub(super) seen: bool,
    /// Whether positions record it under its name: then it is known under any other.
    pub(super) recorded: bool,
}

impl Text {
    fn is_renamed(&mut self) {
        (self.seen, self.recorded) = (false, false);
    }
}

/// Writes one text to one open file.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    pub(super) text: usize,
    /// Lines to be written, each with the stream whose record it ends.
    ahead: VecDeque<(Vec<u8>, Option<usize>)>,
    next: [usize; STREAMS],
    has_begun: bool,
}

/// A file that left its name.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) path: PathBuf,
    pub(super) text: usize,
    /// The writer that still writes to it.
    pub(super) writer: Option<Writer>,
    /// The remaining bytes of its compressed form.
    packing: Option<Vec<u8>>,
}

pub(super) struct Disk {
    pub(super) folder: PathBuf,
    pub(super) texts: Vec<Text>,
    pub(super) is_container: bool,
    pub(super) clock: Duration,
    pub(super) old: Vec<Old>,
    pub(super) current: Vec<(PathBuf, Option<Writer>)>,
    /// Inodes that the process has open: they aren't free, whether they have a name or not.
    pub(super) open: HashSet<u64>,
    /// Holds deleted files, so that the seed alone decides which inode is reused.
    graveyard: PathBuf,
    numbers: usize,
}

/// The grain of the system's modification times: 4 ms, a tick.
const GRAIN_MILLIS: u128 = 4;

fn packed_name(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}.gz", path.file_name().unwrap().to_string_lossy()))
}

/// Logs an event, to debug one seed.
fn say(what: &str, path: &Path, to: &Path) {
    let inode = fs::metadata(to).map(|found| found.ino()).unwrap_or_default();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    tracing::debug!(inode, path = ?name(path), to = ?name(to), "{what}");
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

impl Disk {
    pub(super) fn new(folder: &Path, is_container: bool, writers: usize) -> Self {
        let name = |index: usize| {
            let name = if is_container {
                format!("shop_cart-{index}_uid-{index}/app/0.log")
            } else {
                format!("a{index}.log")
            };
            folder.join(name)
        };
        let current: Vec<_> = (0..writers).map(|index| (name(index), None)).collect();
        for (path, _) in &current {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        let graveyard = folder.with_extension("deleted");
        fs::create_dir(&graveyard).unwrap();
        Self {
            folder: folder.into(),
            texts: Vec::new(),
            is_container,
            clock: Duration::from_secs(1_000_000_000),
            old: Vec::new(),
            current,
            open: HashSet::new(),
            graveyard,
            numbers: 0,
        }
    }

    fn remove(&mut self, path: &Path) {
        say("deleted", path, path);
        let number = self.number();
        fs::rename(path, self.graveyard.join(format!("{number:06}"))).unwrap();
    }

    /// Creates a file, often with the inode of a deleted one, as file systems do.
    fn make(&self, path: &Path, random: &mut Random) -> File {
        let mut free: Vec<PathBuf> = fs::read_dir(&self.graveyard)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| !self.open.contains(&entry.metadata().unwrap().ino()))
            .map(|entry| entry.path())
            .collect();
        free.sort();
        let at = random.below(2 * free.len().max(1) as u64) as usize;
        if let Some(reused) = free.get(at) {
            File::create(reused).unwrap();
            fs::rename(reused, path).unwrap();
        }
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        say("made", path, path);
        file
    }

    fn stamp(&self, file: &File) {
        let millis = self.clock.as_millis() / GRAIN_MILLIS * GRAIN_MILLIS;
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(millis as u64);
        file.set_modified(at).unwrap();
    }

    /// Returns the writer of a current file, and creates the file if it doesn't exist.
    fn take_writer(&mut self, index: usize, random: &mut Random) -> Writer {
        let (path, writer) = &mut self.current[index];
        if let Some(writer) = writer.take() {
            return writer;
        }
        let path = path.clone();
        let file = match OpenOptions::new().append(true).open(&path) {
            Ok(file) => file,
            Err(_) => self.make(&path, random),
        };
        self.texts.push(Text::default());
        let text = self.texts.len() - 1;
        tracing::debug!(text, path = ?path, "begins");
        let (ahead, next) = (VecDeque::new(), [0; STREAMS]);
        Writer { file, text, ahead, next, has_begun: false }
    }

    pub(super) fn append(&mut self, index: usize, random: &mut Random) {
        let mut writer = self.take_writer(index, random);
        self.write(&mut writer, random);
        self.current[index].1 = Some(writer);
    }

    /// Writes to a file that left its name.
    pub(super) fn linger(&mut self, random: &mut Random) {
        let at = random.below(self.old.len().max(1) as u64) as usize;
        let old = self.old.get_mut(at).filter(|old| old.packing.is_none());
        let Some(mut writer) = old.and_then(|old| old.writer.take()) else {
            return;
        };
        if random.once_in(3) {
            self.finish(&mut writer);
        } else {
            self.write(&mut writer, random);
            self.old[at].writer = Some(writer);
        }
    }

    fn write(&mut self, writer: &mut Writer, random: &mut Random) {
        for _ in 0..random.between(1, 6) {
            self.invent(writer, random);
        }
        let count = random.between(1, writer.ahead.len() as u64);
        let mut bytes = Vec::new();
        for _ in 0..count {
            let (line, ends) = writer.ahead.pop_front().unwrap();
            if writer.has_begun && line.len() > 2 && random.once_in(8) {
                let at = random.between(1, line.len() as u64 - 1) as usize;
                bytes.extend_from_slice(&line[..at]);
                writer.ahead.push_front((line[at..].to_vec(), ends));
                break;
            }
            self.whole(writer, &line, ends, &mut bytes);
        }
        writer.file.write_all(&bytes).unwrap();
        self.stamp(&writer.file);
        tracing::debug!(text = writer.text, lines = ?self.texts[writer.text].lines, "written");
    }

    fn whole(&mut self, writer: &mut Writer, line: &[u8], ends: Option<usize>, to: &mut Vec<u8>) {
        to.extend_from_slice(line);
        writer.has_begun = true;
        if let Some(stream) = ends {
            self.texts[writer.text].lines[stream] += 1;
        }
    }

    /// Writes all lines that were begun.
    fn finish(&mut self, writer: &mut Writer) {
        let mut bytes = Vec::new();
        while let Some((line, ends)) = writer.ahead.pop_front() {
            self.whole(writer, &line, ends, &mut bytes);
        }
        if !bytes.is_empty() {
            writer.file.write_all(&bytes).unwrap();
            self.stamp(&writer.file);
        }
    }

    /// Adds lines to be written: a container's streams are mixed, and some lines are in parts.
    fn invent(&self, writer: &mut Writer, random: &mut Random) {
        let mut next = |stream: usize| {
            let id = Id { text: writer.text, stream, number: writer.next[stream] };
            writer.next[stream] += 1;
            line_of(id)
        };
        if !self.is_container {
            writer.ahead.push_back((format!("{}\n", next(0)).into_bytes(), Some(0)));
            return;
        }
        let mut parts: Vec<VecDeque<_>> = (0..STREAMS)
            .map(|stream| {
                let line = next(stream);
                let count = random.between(1, 3) as usize;
                let length = line.len().div_ceil(count);
                let pieces: Vec<&[u8]> = line.as_bytes().chunks(length).collect();
                let last = pieces.len() - 1;
                let part = |(at, piece): (usize, &&[u8])| {
                    let name = ["stdout", "stderr"][stream];
                    let tag = if at == last { 'F' } else { 'P' };
                    let mut bytes = format!("2026-01-01T00:00:00.1Z {name} {tag} ").into_bytes();
                    bytes.extend_from_slice(piece);
                    bytes.push(b'\n');
                    (bytes, (at == last).then_some(stream))
                };
                pieces.iter().enumerate().map(part).collect()
            })
            .collect();
        while parts.iter().any(|parts| !parts.is_empty()) {
            let stream = random.below(STREAMS as u64) as usize;
            writer.ahead.extend(parts[stream].pop_front());
        }
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn rotated_name(&mut self, path: &Path) -> PathBuf {
        let number = self.number();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let name = if self.is_container {
            format!("{name}.20260101-{number:06}")
        } else {
            format!("{name}.{number}")
        };
        path.with_file_name(name)
    }

    /// Rotates the current file to another name; its writer may continue for a while.
    pub(super) fn rename(&mut self, index: usize, random: &mut Random) {
        let Some(mut writer) = self.current[index].1.take() else { return };
        let from = self.current[index].0.clone();
        let path = self.rotated_name(&from);
        fs::rename(&from, &path).unwrap();
        say("renamed", &from, &path);
        let text = writer.text;
        let writer = if random.once_in(2) {
            self.finish(&mut writer);
            None
        } else {
            Some(writer)
        };
        self.old.push(Old { path, text, writer, packing: None });
    }

    /// Moves the current file to a name unrelated to rotation, or such an old file to a name that
    /// is read.
    pub(super) fn move_about(&mut self, index: usize) {
        let number = self.number();
        let kept = |old: &&mut Old| old.path.to_string_lossy().contains("kept");
        if let Some(old) = self.old.iter_mut().find(kept) {
            let to = self.folder.join(format!("back{number}.log"));
            fs::rename(&old.path, &to).unwrap();
            say("moved", &old.path, &to);
            old.path = to;
            self.texts[old.text].is_renamed();
        } else if let Some(writer) = self.current[index].1.take_if(|writer| {
            // A file that isn't on record can't be recognised under such a name.
            self.texts[writer.text].recorded
        }) {
            let path = self.folder.join(format!("kept{number}"));
            fs::rename(&self.current[index].0, &path).unwrap();
            say("moved", &self.current[index].0, &path);
            let text = writer.text;
            self.old.push(Old { path, text, writer: Some(writer), packing: None });
        }
    }

    /// Copies the current file, and truncates it.
    pub(super) fn copy_truncate(&mut self, index: usize, random: &mut Random) {
        let Some(mut writer) = self.current[index].1.take() else { return };
        self.finish(&mut writer);
        let from = self.current[index].0.clone();
        let path = self.rotated_name(&from);
        let mut copy = self.make(&path, random);
        copy.write_all(&fs::read(&from).unwrap()).unwrap();
        self.stamp(&copy);
        writer.file.set_len(0).unwrap();
        say("copied and cut", &from, &path);
        self.stamp(&writer.file);
        self.old.push(Old { path, text: writer.text, writer: None, packing: None });
    }

    /// Compresses a file that left its name: at once, or in two pieces.
    pub(super) fn compress(&mut self, random: &mut Random) -> bool {
        let at = random.below(self.old.len().max(1) as u64) as usize;
        // A file that came back under an unknown name can't be recognised once it is compressed.
        let is_foreign = |old: &Old| {
            let path = old.path.to_string_lossy();
            let is_unknown = path.contains("back") && !self.texts[old.text].recorded;
            path.contains("kept") || path.ends_with(".gz") || is_unknown
        };
        let Some(old) = self.old.get(at).filter(|old| !is_foreign(old)) else { return false };
        let to = packed_name(&old.path);
        let writer = self.old[at].writer.take();
        writer.into_iter().for_each(|mut writer| self.finish(&mut writer));
        let (bytes, file) = match self.old[at].packing.take() {
            Some(rest) => (rest, OpenOptions::new().append(true).open(&to).unwrap()),
            None => {
                let mut bytes = packed(&fs::read(&self.old[at].path).unwrap());
                if random.once_in(2) {
                    let half = random.below(bytes.len() as u64) as usize;
                    let file = self.make(&to, random);
                    (&file).write_all(&bytes[..half]).unwrap();
                    self.stamp(&file);
                    self.old[at].packing = Some(bytes.split_off(half));
                    say("half compressed", &self.old[at].path, &to);
                    return false;
                }
                (bytes, self.make(&to, random))
            }
        };
        (&file).write_all(&bytes).unwrap();
        if random.once_in(2) {
            // gzip does this; the kubelet doesn't.
            let of = fs::metadata(&self.old[at].path).unwrap().modified().unwrap();
            file.set_modified(of).unwrap();
        } else {
            self.stamp(&file);
        }
        say("compressed", &self.old[at].path, &to);
        let from = std::mem::replace(&mut self.old[at].path, to);
        self.remove(&from);
        true
    }

    /// Deletes the oldest file. A process that has it open reads it to its end.
    pub(super) fn delete(&mut self, is_safe: impl Fn(usize, &Text) -> bool) {
        if self.old.is_empty() {
            return;
        }
        let mut old = self.old.remove(0);
        if let Some(mut writer) = old.writer.take() {
            self.finish(&mut writer);
        }
        let inode = fs::metadata(&old.path).unwrap().ino();
        self.remove(&old.path);
        if old.packing.is_some() {
            self.remove(&packed_name(&old.path));
        }
        let text = &mut self.texts[old.text];
        text.deleted = true;
        text.lost = text.lost || !self.open.contains(&inode) && !is_safe(old.text, text);
    }

    /// Lets all writers write the lines that they have begun.
    pub(super) fn finish_all(&mut self) {
        for index in 0..self.current.len() {
            if let Some(mut writer) = self.current[index].1.take() {
                self.finish(&mut writer);
                self.current[index].1 = Some(writer);
            }
        }
        for index in 0..self.old.len() {
            if let Some(mut writer) = self.old[index].writer.take() {
                self.finish(&mut writer);
            }
        }
    }
}
