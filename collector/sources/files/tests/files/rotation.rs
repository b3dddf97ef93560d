//! Tests the table: {none, rename, copy-truncate, delete, gzip} x {once, many times between two
//! scans, while off} x {fast, slow writer} x {tiny, like, large files}.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_config::StartAt;

use crate::files::rig::{Rig, numbered, text_of};
use millrace_fake_publisher::Script;

/// How `app.log` is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    None,
    Rename,
    CopyTruncate,
    Delete,
    /// Renamed, and compressed under another name.
    Gzip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Once,
    ManyTimesBetweenLooks,
    WhileOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// Its last lines aren't read yet when the file is rotated.
    Fast,
    /// All its lines are read before it continues.
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// Shorter than a fingerprint.
    Tiny,
    /// The same first line in each file; later ones differ within a fingerprint's length.
    Like,
    /// Several slices.
    Large,
}

/// The first line of files with the same beginning.
const BANNER: &str = "the service begins";
/// Pieces in which a file is written.
const PIECES: usize = 2;
/// How often a file is rotated in the cases with many rotations.
const MANY: usize = 3;
/// Cases that run concurrently. Most of a case is waiting for scans.
const AT_ONCE: usize = 15;

#[derive(Clone, Copy, Debug)]
struct Case {
    how: How,
    when: When,
    writer: Writer,
    size: Size,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for how in [How::None, How::Rename, How::CopyTruncate, How::Delete, How::Gzip] {
            for when in [When::Once, When::ManyTimesBetweenLooks, When::WhileOff] {
                for writer in [Writer::Fast, Writer::Slow] {
                    for size in [Size::Tiny, Size::Like, Size::Large] {
                        all.push(Self { how, when, writer, size });
                    }
                }
            }
        }
        all
    }

    /// Whether lines can't be recovered: of files that were created and deleted between scans, and
    /// lines written after the last scan to a file that was deleted while no process had it open.
    fn loses(self) -> bool {
        self.how == How::Delete && self.when != When::Once
    }

    fn run(self) {
        let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
        let mut expected = self.write(&rig, 0, 0);
        rig.start();
        rig.until_exactly(expected.clone());
        let times = if self.when == When::Once { 1 } else { MANY };
        let mut owed = expected.clone();
        if self.when == When::WhileOff && self.writer == Writer::Fast {
            rig.stop();
        }
        for piece in 1..PIECES {
            let more = self.write(&rig, 0, piece);
            expected.extend(more.clone());
            // An open file is read to its end, whatever happens to it.
            if !self.loses() || self.when != When::WhileOff || self.writer == Writer::Slow {
                owed.extend(more);
            }
            self.wait(&rig, &expected);
        }
        if self.when == When::WhileOff && self.writer == Writer::Slow {
            rig.stop();
        }
        for turn in 1..=times {
            self.rotate(&rig, turn);
            for piece in 0..PIECES {
                let more = self.write(&rig, turn, piece);
                expected.extend(more.clone());
                if !self.loses() || turn == times {
                    owed.extend(more);
                }
                if self.when == When::Once {
                    self.wait(&rig, &expected);
                }
            }
        }
        if self.when == When::WhileOff {
            rig.start();
        }
        self.judge(&mut rig, expected, owed);
    }

    /// Lets a slow writer wait until everything is read.
    fn wait(self, rig: &Rig, expected: &[String]) {
        if self.writer == Writer::Slow {
            rig.until_exactly(expected.to_vec());
        }
    }

    fn judge(self, rig: &mut Rig, expected: Vec<String>, owed: Vec<String>) {
        if self.loses() {
            rig.until_each(&owed);
            rig.stop();
            return Self::are_written(rig.texts(), &expected);
        }
        rig.until_exactly(expected.clone());
        rig.stop();
        rig.start();
        rig.until_metric("millrace_files_open", |open| open > 0);
        rig.stop();
        rig.until_exactly(expected);
    }

    /// Checks that all sent lines were written, and are sent once.
    fn are_written(mut came: Vec<String>, expected: &[String]) {
        let written: HashSet<&String> = expected.iter().collect();
        assert!(came.iter().all(|line| written.contains(line)), "no line is altered");
        came.sort();
        let twice = came.windows(2).find(|pair| pair[0] == pair[1] && pair[0] != BANNER);
        assert!(twice.is_none(), "no line comes twice: {twice:?}");
    }

    /// Writes a piece of the file of a turn.
    fn write(self, rig: &Rig, turn: usize, piece: usize) -> Vec<String> {
        let lines = match self.size {
            Size::Tiny => 2,
            Size::Like => 30,
            Size::Large => 4000,
        };
        let name = format!("t{turn}");
        let (from, to) = (lines * piece, lines * (piece + 1));
        let mut written = numbered(&name, from, to);
        let mut text = text_of(&name, from, to);
        if self.size == Size::Like && piece == 0 {
            written.push(BANNER.into());
            text.insert_str(0, &format!("{BANNER}\n"));
        }
        rig.append("app.log", &text);
        written
    }

    fn rotate(self, rig: &Rig, turn: usize) {
        let to = format!("app.log.{turn}");
        match self.how {
            How::None => {}
            How::Rename => rig.rename("app.log", &to),
            How::CopyTruncate => {
                fs::copy(rig.path("app.log"), rig.path(&to)).unwrap();
                File::create(rig.path("app.log")).unwrap();
            }
            How::Delete => fs::remove_file(rig.path("app.log")).unwrap(),
            How::Gzip => {
                rig.rename("app.log", &to);
                gzip(rig, &to, self.writer == Writer::Fast);
            }
        }
    }
}

/// Compresses a file as gzip does, with its modification time, or as the kubelet does, without.
pub(crate) fn gzip(rig: &Rig, name: &str, keeps_time: bool) {
    let (from, to) = (rig.path(name), rig.path(&format!("{name}.gz")));
    let mut encoder = GzEncoder::new(File::create(&to).unwrap(), Compression::fast());
    encoder.write_all(&fs::read(&from).unwrap()).unwrap();
    let file = encoder.finish().unwrap();
    if keeps_time {
        file.set_modified(fs::metadata(&from).unwrap().modified().unwrap()).unwrap();
    }
    fs::remove_file(from).unwrap();
}

/// Scenario: each case of the table; a thread has its case's name. Guarantee: each line once, also
/// after a further start; of files deleted many times between scans, or while off, those that could
/// be observed, and none altered or repeated.
#[test]
fn each_case_of_the_table_of_rotations_brings_each_line_once() {
    let cases = Mutex::new(Case::all().into_iter());
    let next = || cases.lock().unwrap().next();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let name = format!("{case:?}");
                    let run = thread::Builder::new().name(name.clone()).spawn(move || case.run());
                    if run.unwrap().join().is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} cases failed: {}", failed.len(), failed.join("\n"));
}

/// Scenario: a file with a backlog is deleted, while the publisher refuses. Guarantee: none of it
/// is lost: the open file is read to its end when there is capacity again.
#[test]
fn a_file_deleted_while_behind_is_read_to_its_end() {
    let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
    rig.script(Script::Refuse);
    let expected = numbered("a", 0, 200_000);
    rig.append("app.log", &text_of("a", 0, 200_000));
    rig.start();
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    fs::remove_file(rig.path("app.log")).unwrap();
    rig.script(Script::Deliver);
    rig.until_exactly(expected);
    rig.stop();
}

/// Scenario: a file with a backlog is truncated, without a copy. Guarantee: its known unread bytes
/// are counted, and the next text is read completely.
#[test]
fn what_a_truncation_without_a_copy_takes_away_is_counted() {
    let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
    rig.script(Script::Refuse);
    rig.append("app.log", &text_of("a", 0, 400_000));
    rig.start();
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes > 20_000_000);
    File::create(rig.path("app.log")).unwrap();
    rig.append("app.log", &text_of("b", 0, 10));
    rig.script(Script::Deliver);
    rig.until_each(&numbered("b", 0, 10));
    rig.until_metric("millrace_files_lost_bytes_total", |bytes| bytes > 8_000_000);
    rig.stop();
}

/// Scenario: a file of 3 MB has a backlog when it is compressed while the collector is off; its
/// compressed form is cut short, and later complete. Guarantee: its readable part is read, the
/// damage is counted, nothing is skipped: each line is sent once when the file is complete.
#[test]
fn a_compressed_file_that_is_cut_short_is_tried_again_when_it_is_whole() {
    let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
    rig.append("app.log", &text_of("a", 0, 10));
    rig.start();
    rig.until_exactly(numbered("a", 0, 10));
    rig.stop();
    rig.append("app.log", &text_of("a", 10, 40_000));
    rig.rename("app.log", "app.log.1");
    gzip(&rig, "app.log.1", true);
    let path = rig.path("app.log.1.gz");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    rig.append("app.log", &text_of("b", 0, 10));
    rig.start();
    rig.until_each(&numbered("b", 0, 10));
    rig.until_metric("millrace_files_damaged_total", |times| times == 1);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes > 0);
    fs::write(&path, &whole).unwrap();
    rig.until_exactly([numbered("a", 0, 40_000), numbered("b", 0, 10)].concat());
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.stop();
}

/// Scenario: a log that is written without a pause is rotated three times at once, and all but the
/// newest are compressed, so that some files are new to the next scan. Guarantee: their lines are
/// sent while it is written: its changes between any two scans delay nothing.
#[test]
fn rotated_files_are_read_while_the_next_one_is_always_written() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    rig.append("app.log", &text_of("a", 0, 10));
    rig.start();
    rig.until_exactly(numbered("a", 0, 10));
    for turn in 1..=3 {
        if turn == 3 {
            rig.rename("app.log.2.gz", "app.log.3.gz");
        }
        if turn > 1 {
            rig.rename("app.log.1", "app.log.2");
            gzip(&rig, "app.log.2", true);
        }
        rig.rename("app.log", "app.log.1");
        rig.append("app.log", &text_of("a", turn * 10, turn * 10 + 10));
    }
    let path = rig.path("app.log");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = File::options().append(true).open(path).unwrap();
            for number in 100.. {
                if ends.load(Ordering::Acquire) {
                    break;
                }
                log.write_all(text_of("a", number, number + 1).as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        });
        let expected = numbered("a", 0, 40);
        let began = Instant::now();
        let have_come = || {
            let texts: HashSet<String> = rig.texts().into_iter().collect();
            expected.iter().all(|line| texts.contains(line))
        };
        while !have_come() && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
        ends.store(true, Ordering::Release);
        assert!(have_come(), "the rotated files wait while the log is written");
    });
}
