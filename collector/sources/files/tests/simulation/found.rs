//! Tests how files are found by the kernel's events, step by step; the regular walk is postponed
//! until after the test, so that it finds nothing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::SourceSettings;
use super::super::find::finder::FinderSettings;
use super::super::find::watch::WATCHES_MAX;
use super::book::{Id, line_of};
use super::process::{Process, Publisher};
use super::walk::{NEVER, sources};

/// The time between two steps, less than the shortest time between two scans and a hundredth of
/// that between two walks.
const TURN: Duration = Duration::from_millis(250);
/// The maximum steps until nothing is left to scan: an open file that is gone is scanned 20 times.
const TURNS_MAX: usize = 40;

/// A process on a directory of logs.
struct Rig {
    folder: TempDir,
    publisher: Arc<Publisher>,
    process: Process,
    now: Instant,
}

impl Rig {
    fn new(is_container: bool, finding: FinderSettings, before: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        before(folder.path());
        let settings = sources(&folder, is_container);
        Self::with(folder, &settings, finding)
    }

    fn with(folder: TempDir, settings: &[SourceSettings], finding: FinderSettings) -> Self {
        let publisher = Publisher::new();
        let positions = folder.path().join("positions");
        let process = Process::start(settings, &positions, &publisher, finding);
        let mut rig = Self { folder, publisher, process, now: Instant::now() };
        rig.settle();
        rig
    }

    /// Starts with only events, and an empty directory of logs.
    fn by_events(is_container: bool) -> Self {
        Self::new(is_container, by_events(), |folder| fs::create_dir(folder.join("logs")).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("logs").join(name)
    }

    /// Runs one scan, if one is needed, then reads and sends. Returns whether one was needed.
    fn turn(&mut self) -> bool {
        self.now += TURN;
        let looked = self.process.look_if_needed(self.now);
        while self.process.read(self.now) {}
        self.now += TURN;
        self.process.send(self.now, false);
        self.process.send(self.now, false);
        self.publisher.verdict().unwrap();
        looked
    }

    /// Runs until no scan is needed.
    fn settle(&mut self) {
        let turns = (0..TURNS_MAX).take_while(|_| self.turn()).count();
        assert!(turns < TURNS_MAX, "looks don't end");
    }

    fn count(&self, text: usize) -> usize {
        (0..).find(|count| !self.publisher.with_book(|book| book.has(text, 0, count + 1))).unwrap()
    }
}

fn by_events() -> FinderSettings {
    FinderSettings { walk_interval: NEVER, watches: WATCHES_MAX, ..FinderSettings::default() }
}

fn append(path: &Path, text: usize, numbers: std::ops::Range<usize>) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    for number in numbers {
        file.write_all(format!("{}\n", line_of(Id { text, stream: 0, number })).as_bytes())
            .unwrap();
    }
}

/// Writes a line as a container's runtime does.
fn append_container(path: &Path, text: usize, number: usize) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let line = line_of(Id { text, stream: 0, number });
    writeln!(file, "2026-01-01T00:00:00.1Z stdout F {line}").unwrap();
}

/// Scenario: a file is created when everything is quiet, then written repeatedly. Guarantee: each
/// time its lines are sent after the next scan, and only the first requires a walk.
#[test]
fn a_new_file_is_found_by_its_event_and_read_on_without_a_walk() {
    let mut rig = Rig::by_events(false);
    append(&rig.path("a.log"), 0, 0..2);
    rig.turn();
    assert_eq!(rig.count(0), 2);
    rig.settle();
    let walked_at = rig.process.walked_at();
    for number in 2..6 {
        append(&rig.path("a.log"), 0, number..number + 1);
        assert!(rig.turn());
        assert_eq!(rig.count(0), number + 1);
        assert!(!rig.turn(), "nothing is left to look at");
    }
    assert_eq!(rig.process.walked_at(), walked_at);
}

/// Scenario: a pod's directories are created with a file in them, all before the next scan; the
/// file grows, the container is restarted with another, and the pod is deleted. Guarantee: each
/// line is sent after the next scan.
#[test]
fn a_file_that_was_in_a_new_directory_before_it_was_watched_is_found() {
    let mut rig = Rig::by_events(true);
    for pod in 0..3 {
        let folder = rig.path(&format!("shop_cart-{pod}_uid-{pod}"));
        fs::create_dir_all(folder.join("app")).unwrap();
        append_container(&folder.join("app/0.log"), 2 * pod, 0);
        rig.turn();
        assert_eq!(rig.count(2 * pod), 1);
        append_container(&folder.join("app/0.log"), 2 * pod, 1);
        append_container(&folder.join("app/1.log"), 2 * pod + 1, 0);
        rig.turn();
        assert_eq!((rig.count(2 * pod), rig.count(2 * pod + 1)), (2, 1));
        fs::remove_dir_all(&folder).unwrap();
        rig.settle();
    }
}

/// Scenario: a pod's directory is moved away and another gets its name; so is the sources'
/// directory, whose parent isn't watched; and one that doesn't exist at first. Guarantee: files
/// under these names are found.
#[test]
fn a_directory_that_is_replaced_under_its_name_is_watched() {
    let mut rig = Rig::new(true, by_events(), |_| {});
    let (place, away) = ("shop_cart_uid/app", rig.folder.path().join("away"));
    for text in 0..3 {
        match text {
            0 => {}
            1 => fs::rename(rig.path("shop_cart_uid"), &away).unwrap(),
            _ => fs::rename(rig.path(""), rig.folder.path().join("logs-before")).unwrap(),
        }
        fs::create_dir_all(rig.path(place)).unwrap();
        append_container(&rig.path(place).join("0.log"), text, 0);
        // The sources' directory is checked once a second.
        (0..3).for_each(|_| _ = rig.turn());
        assert_eq!(rig.count(text), 1);
        rig.settle();
        append_container(&rig.path(place).join("0.log"), text, 1);
        rig.turn();
        assert_eq!(rig.count(text), 2);
    }
}

/// Scenario: more is written than the kernel's queue of events holds, and a file is created after
/// that. Guarantee: it is found by the next scan although its event was lost, which is counted.
#[test]
fn when_events_are_lost_all_is_walked_at_once() {
    let mut rig = Rig::by_events(false);
    append(&rig.path("a.log"), 0, 0..1);
    append(&rig.path("b.log"), 1, 0..1);
    rig.settle();
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let open = |name: &str| OpenOptions::new().append(true).open(rig.path(name)).unwrap();
    let (mut a, mut b) = (open("a.log"), open("b.log"));
    for _ in 0..most / 2 + 2 {
        // Equal events in a row would be merged.
        a.write_all(b"T").unwrap();
        b.write_all(b"T").unwrap();
    }
    append(&rig.path("c.log"), 2, 0..1);
    rig.turn();
    assert_eq!(rig.count(2), 1);
    assert_eq!(rig.process.metrics.events_lost.get(), 1);
    append(&rig.path("d.log"), 3, 0..1);
    rig.turn();
    assert_eq!(rig.count(3), 1);
}

/// Scenario: three directories may be watched, and there are more. Guarantee: unwatched ones are
/// counted, and files in each of them are found by walks; when some directories are gone the next
/// full walk watches the others.
#[test]
fn when_no_more_can_be_watched_all_is_walked_and_said() {
    let finding =
        FinderSettings { walk_interval: 100 * TURN, watches: 3, ..FinderSettings::default() };
    let pod = |folder: &Path, pod: usize| folder.join(format!("logs/shop_cart-{pod}_uid/app"));
    let mut rig = {
        let folder = tempfile::tempdir().unwrap();
        (0..4).for_each(|number| fs::create_dir_all(pod(folder.path(), number)).unwrap());
        let (settings, publisher) = (sources(&folder, true), Publisher::new());
        let positions = folder.path().join("positions");
        let process = Process::start(&settings, &positions, &publisher, finding);
        Rig { folder, publisher, process, now: Instant::now() }
    };
    rig.turn();
    assert_eq!(rig.process.metrics.unwatched.get(), 6);
    for number in 0..4 {
        append_container(&pod(rig.folder.path(), number).join("0.log"), number, 0);
        assert!(rig.turn());
        assert_eq!(rig.count(number), 1);
    }
    (1..4).for_each(|number| {
        fs::remove_dir_all(pod(rig.folder.path(), number).parent().unwrap()).unwrap();
    });
    (0..100).for_each(|_| _ = rig.turn());
    assert_eq!(rig.process.metrics.unwatched.get(), 0);
    rig.settle();
}

/// Scenario: a link to a file elsewhere, which is written there, replaced by a link to another,
/// removed and created again; its target is deleted and created again. Guarantee: the link's target
/// is read at each scan.
#[test]
fn what_a_link_leads_to_is_looked_at_whatever_its_directory_says() {
    let mut rig = Rig::by_events(false);
    let elsewhere = |rig: &Rig, name: &str| rig.folder.path().join(name);
    append(&elsewhere(&rig, "first"), 0, 0..1);
    symlink(elsewhere(&rig, "first"), rig.path("link.log")).unwrap();
    rig.settle_links();
    append(&elsewhere(&rig, "first"), 0, 1..2);
    rig.turn();
    assert_eq!(rig.count(0), 2);
    append(&elsewhere(&rig, "second"), 1, 0..1);
    symlink(elsewhere(&rig, "second"), rig.path("link.new")).unwrap();
    fs::rename(rig.path("link.new"), rig.path("link.log")).unwrap();
    rig.turn();
    assert_eq!(rig.count(1), 1);
    rig.settle_links();
    fs::remove_file(elsewhere(&rig, "second")).unwrap();
    rig.settle_links();
    append(&elsewhere(&rig, "second"), 2, 0..1);
    rig.turn();
    assert_eq!(rig.count(2), 1);
}

/// Scenario: a file that can be listed and opened, and of which no byte can be read, next to one
/// that is written. Guarantee: a few walks find that out, then only regular walks come, while the
/// other's lines are sent after each scan.
#[test]
fn a_file_that_can_not_be_read_leads_to_no_more_walks() {
    let finding = FinderSettings {
        walk_interval: 100 * TURN,
        watches: WATCHES_MAX,
        ..FinderSettings::default()
    };
    let mut rig = Rig::new(false, finding, |folder| {
        fs::create_dir(folder.join("logs")).unwrap();
        append(&folder.join("logs/a.log"), 0, 0..1);
    });
    // A read at 0 is an I/O error: no process has that address.
    symlink("/proc/self/mem", rig.path("bad.log")).unwrap();
    rig.settle_links();
    let walks = |rig: &mut Rig, turns: usize, from: usize| {
        let mut walked_at = vec![rig.process.walked_at()];
        for number in from..from + turns {
            append(&rig.path("a.log"), 0, number..number + 1);
            rig.turn();
            assert_eq!(rig.count(0), number + 1);
            walked_at.push(rig.process.walked_at());
        }
        walked_at.dedup();
        walked_at.len() - 1
    };
    // A step takes two of the 100 intervals between two walks.
    assert_eq!(walks(&mut rig, 30, 1), 0);
    assert_eq!(walks(&mut rig, 100, 31), 2);
}

/// Scenario: a call that names the sources' directory fails, until it is replaced. Guarantee: only
/// regular walks come, and the next one finds the new directory's files.
#[test]
fn a_sources_directory_that_can_not_be_read_leads_to_no_more_walks() {
    let finding = FinderSettings {
        walk_interval: 20 * TURN,
        watches: WATCHES_MAX,
        ..FinderSettings::default()
    };
    // A name that is too long can't be a directory's, and its error is treated like a disk's.
    let mut rig = Rig::new(false, finding, |folder| {
        symlink("x".repeat(300), folder.join("logs")).unwrap();
    });
    assert_eq!(rig.process.metrics.unwatched.get(), 0);
    (0..5).for_each(|_| assert!(!rig.turn()));
    let logs = rig.folder.path().join("logs");
    fs::remove_file(&logs).unwrap();
    fs::create_dir(&logs).unwrap();
    append(&rig.path("a.log"), 0, 0..1);
    (0..10).for_each(|_| _ = rig.turn());
    assert_eq!(rig.count(0), 1);
}

impl Rig {
    /// Runs until no walk is needed, since polled files are checked each time.
    fn settle_links(&mut self) {
        let mut walked_at = None;
        for _ in 0..TURNS_MAX {
            self.turn();
            if walked_at == self.process.walked_at() {
                return;
            }
            walked_at = self.process.walked_at();
        }
        panic!("walks don't end");
    }
}

/// Scenario: a file with a second name in a directory that isn't read, written under that name.
/// Guarantee: its lines are sent after the next scan.
#[test]
fn a_file_that_is_written_under_another_name_is_read() {
    let mut rig = Rig::by_events(false);
    append(&rig.path("a.log"), 0, 0..1);
    let other = rig.folder.path().join("other");
    fs::hard_link(rig.path("a.log"), &other).unwrap();
    rig.settle_links();
    append(&other, 0, 1..2);
    rig.turn();
    assert_eq!(rig.count(0), 2);
}

/// Scenario: files that no source reads, written next to one that is read. Guarantee: they lead to
/// no walks.
#[test]
fn a_file_of_no_concern_leads_to_no_walk() {
    let mut rig = Rig::by_events(false);
    append(&rig.path("a.log"), 0, 0..1);
    fs::write(rig.path("other"), "").unwrap();
    rig.settle();
    let walked_at = rig.process.walked_at();
    for _ in 0..3 {
        append(&rig.path("other"), 1, 0..1);
        rig.turn();
    }
    assert_eq!((rig.process.walked_at(), rig.count(1)), (walked_at, 0));
}

/// Scenario: so much is written in one directory between two scans that it is muted for a while,
/// with quiet files in it; then its events are enabled again. Guarantee: each line is sent after
/// the next scan, all the time.
#[test]
fn a_directory_in_which_much_is_written_is_looked_at_as_a_whole() {
    let mut rig = Rig::by_events(false);
    let names = ["a.log", "b.log", "c.log"];
    for (text, name) in names.iter().enumerate() {
        append(&rig.path(name), text, 0..1);
    }
    rig.settle();
    let walked_at = rig.process.walked_at();
    let mut last = 1;
    for round in 0..30 {
        let count = if round < 3 { 1000 } else { 1 };
        for number in last..last + count {
            append(&rig.path("a.log"), 0, number..number + 1);
            append(&rig.path("b.log"), 1, number..number + 1);
        }
        last += count;
        append(&rig.path("c.log"), 2, round + 1..round + 2);
        rig.turn();
        // Modification times have a coarse grain, so a write may show one scan later.
        rig.turn();
        assert_eq!([0, 1, 2].map(|text| rig.count(text)), [last, last, round + 2]);
    }
    assert_eq!(rig.process.walked_at(), walked_at);
    assert!(!rig.turn(), "told again");
}

/// Scenario: a file is written and its event is dropped. Guarantee: the regular walk finds it,
/// after its time and not before.
#[test]
fn what_no_event_tells_is_found_by_the_walk_that_comes_besides() {
    let finding = FinderSettings {
        walk_interval: 20 * TURN,
        watches: WATCHES_MAX,
        ..FinderSettings::default()
    };
    let mut rig = Rig::new(false, finding, |folder| {
        fs::create_dir(folder.join("logs")).unwrap();
        append(&folder.join("logs/a.log"), 0, 0..1);
    });
    append(&rig.path("a.log"), 0, 1..2);
    rig.process.drop_events();
    assert!(!rig.turn());
    assert_eq!(rig.count(0), 1);
    (0..10).for_each(|_| _ = rig.turn());
    assert_eq!(rig.count(0), 2);
}
