//! Tests single-file checks between scans: what they read, what requires a scan, and when none is
//! needed.

use millrace_tail::TailEvent;

use crate::rotation::rig::{Collector, Disk};
use crate::rotation::{any, app, lines, write};

/// The number of scans skipped in half a minute.
const SKIPPED: u32 = 120;

/// A file that is read to its end, and a quiescent collector.
fn settled(inside: fn(&str) -> bool) -> (Disk, Collector) {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 10);
    let mut collector = Collector::start(inside, false);
    assert!(collector.is_settled());
    collector.look(&disk);
    assert!(collector.is_settled());
    (disk, collector)
}

/// Scenario: an open file is written many times, then truncated and written to its old length
/// within one tick, so that its size and modification time are the same, and its beginning differs.
/// Guarantee: each line is read by a check, once, and no scan is needed.
#[test]
fn an_open_file_is_read_on_without_a_look() {
    let (mut disk, mut collector) = settled(app);
    for turn in 1..5 {
        write(&mut disk, "/l/app.log", turn * 10, turn * 10 + 10);
        assert!(collector.glance(&disk, "/l/app.log", true));
        assert!(collector.is_settled());
    }
    collector.has_sent(&lines(0, 50));
    let inode = disk.inode("/l/app.log");
    let again: String = lines(100, 150).iter().map(|line| format!("{line}\n")).collect();
    disk.content.insert(inode, again.into_bytes());
    assert!(collector.glance(&disk, "/l/app.log", true));
    collector.look(&disk);
    collector.has_sent(&[lines(0, 50), lines(100, 150)].concat());
}

/// Scenario: a file without events is checked from time to time. Guarantee: it is read when its
/// size or modification time has changed, and once more.
#[test]
fn a_file_of_which_nobody_tells_is_read_when_its_stamps_have_changed() {
    let (mut disk, mut collector) = settled(app);
    write(&mut disk, "/l/app.log", 10, 20);
    assert!(collector.glance(&disk, "/l/app.log", false));
    collector.has_sent(&lines(0, 20));
    let (inode, line) = (disk.inode("/l/app.log"), format!("{}\n", lines(20, 21)[0]));
    disk.content.get_mut(&inode).unwrap().extend_from_slice(line.as_bytes());
    assert!(collector.glance(&disk, "/l/app.log", false));
    collector.has_sent(&lines(0, 21));
}

/// Scenario: a new file, one that was renamed to a name that isn't read and is still written, and
/// one that was closed. Guarantee: each requires a scan, and scans continue until the renamed one
/// is finished.
#[test]
fn what_is_new_moved_or_closed_takes_a_look() {
    let (mut disk, mut collector) = settled(app);
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 10, 20);
    assert!(!collector.glance(&disk, "/l/app.log", true));
    collector.look(&disk);
    assert!(!collector.glance(&disk, "/l/app.log.1", true));
    assert!(!collector.is_settled());
    collector.looks(&disk, 25);
    assert!(collector.is_settled());
    assert!(!collector.glance(&disk, "/l/app.log.1", true));
    write(&mut disk, "/l/app.log.1", 20, 21);
    collector.looks(&disk, 1);
    collector.has_sent(&lines(0, 21));
}

/// Scenario: files next to those that are read. Guarantee: a file whose name rotation can't have
/// made is irrelevant however it changes; the others are not.
#[test]
fn a_file_of_another_name_is_a_stranger() {
    let (mut disk, mut collector) = settled(app);
    for (name, is_stranger) in [("/l/other", true), ("/l/app.log.5", false), ("/l/app-5", false)] {
        disk.append(name, "x");
        let inode = disk.inode(name);
        assert_eq!(collector.tail.is_stranger((7, inode), name.as_ref()), is_stranger, "{name}");
    }
    collector.look(&disk);
    assert!(!collector.glance(&disk, "/l/other", true));
}

/// Scenario: a recorded text, whose file is gone at the start; scans are skipped, half a minute
/// each time. Guarantee: none is needed for long, and the text is given up after ten minutes, with
/// real scans at the end.
#[test]
fn looks_that_are_left_out_count_until_the_last_ones() {
    let (mut disk, mut collector) = settled(any);
    disk.append("/l/app.log", "unfinished");
    collector.look(&disk);
    collector.restart();
    disk.delete("/l/app.log");
    let mut real = 0;
    for _ in 0..19 {
        collector.look(&disk);
        assert!(collector.is_settled());
        collector.tail.skip_scans(SKIPPED);
    }
    while collector.events.is_empty() {
        collector.look(&disk);
        collector.tail.skip_scans(if collector.is_settled() { SKIPPED } else { 0 });
        real += 1;
    }
    assert!((20..30).contains(&real), "{real}");
    assert!(matches!(collector.events[..], [TailEvent::Lost { .. }]));
}
