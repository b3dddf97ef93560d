//! Tests which text a file has, if names and inodes mislead.

use std::path::Path;

use millrace_tail::{PositionFallback, TailEvent, load_positions};

use crate::rotation::rig::{Collector, Disk};
use crate::rotation::{app, lines, write};

/// A file of `count` lines, and a collector that has sent them.
fn begun(count: usize) -> (Disk, Collector) {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, count);
    collector.looks(&disk, 2);
    (disk, collector)
}

/// Scenario: a file is copied and truncated, and the process is killed before the next scan, or
/// after it and before positions were stored; the copy has unread lines. Guarantee: each line once:
/// the copy has the recorded text, and the file another.
#[test]
fn a_copy_made_before_a_kill_is_read_on_from_the_record() {
    for looks in 0..3 {
        let (mut disk, mut collector) = begun(30);
        collector.keep();
        write(&mut disk, "/l/app.log", 30, 33);
        disk.copy("/l/app.log", "/l/app.log.1");
        disk.truncate("/l/app.log");
        collector.acknowledges = false;
        let before = collector.lines.len();
        collector.looks(&disk, looks);
        collector.lines.truncate(before);
        write(&mut disk, "/l/app.log", 100, 140);
        collector.kill();
        collector.looks(&disk, 5);
        collector.has_sent(&[lines(0, 33), lines(100, 140)].concat());
    }
}

/// Scenario: the same, and the copy is compressed, and its inode reused by the next copy.
/// Guarantee: each line once.
#[test]
fn an_inode_goes_from_copy_to_copy_and_each_text_is_told() {
    let (mut disk, mut collector) = begun(30);
    disk.copy("/l/app.log", "/l/app.log.1");
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 130);
    collector.looks(&disk, 3);
    collector.restart();
    let free = disk.inode("/l/app.log.1");
    let packed = disk.pack("/l/app.log.1");
    disk.delete("/l/app.log.1");
    disk.use_again(free);
    disk.copy("/l/app.log", "/l/app.log.2");
    assert_eq!(disk.inode("/l/app.log.2"), free);
    disk.truncate("/l/app.log");
    disk.use_again(packed + 1);
    write(&mut disk, "/l/app.log", 200, 205);
    collector.looks(&disk, 5);
    collector.has_sent(&[lines(0, 30), lines(100, 130), lines(200, 205)].concat());
}

/// Scenario: a file is gone, and a new one reuses its inode, which a scan finds and which isn't
/// opened before positions are stored, the process is killed, and the file is moved to a name
/// unrelated to rotation. Guarantee: it is read, since it was observed under a name that is read.
#[test]
fn a_file_that_was_seen_and_not_opened_is_read_under_any_name() {
    let (mut disk, mut collector) = begun(10);
    collector.restart();
    let inode = disk.inode("/l/app.log");
    disk.delete("/l/app.log");
    disk.use_again(inode);
    write(&mut disk, "/l/app.log", 50, 70);
    collector.look_without_opening(&disk);
    collector.restart();
    disk.rename("/l/app.log", "/l/kept");
    collector.looks(&disk, 3);
    collector.has_sent(&[lines(0, 10), lines(50, 70)].concat());
}

/// Scenario: a recorded file is gone, and another one with an irrelevant name reuses its inode.
/// Guarantee: none of its lines is read.
#[test]
fn a_foreign_file_with_a_known_inode_is_not_read() {
    let (mut disk, mut collector) = begun(10);
    collector.restart();
    let inode = disk.inode("/l/app.log");
    disk.delete("/l/app.log");
    disk.use_again(inode);
    write(&mut disk, "/l/other", 50, 70);
    collector.looks(&disk, 5);
    collector.has_sent(&lines(0, 10));
}

/// Scenario: while the collector is off a file is compressed, and its inode is reused by another
/// compressed file, of which only the beginning exists for long. Guarantee: the remainder of the
/// first is read in that time.
#[test]
fn a_torn_file_with_a_texts_inode_keeps_nobody_from_the_text() {
    let (mut disk, mut collector) = begun(20);
    write(&mut disk, "/l/app.log", 20, 30);
    let inode = disk.inode("/l/app.log");
    disk.rename("/l/app.log", "/l/app.log.1");
    let packed = disk.pack("/l/app.log.1");
    disk.delete("/l/app.log.1");
    write(&mut disk, "/l/app.log", 30, 40);
    write(&mut disk, "/l/app.log.2", 40, 50);
    disk.use_again(inode);
    assert_eq!(disk.pack("/l/app.log.2"), inode);
    disk.torn.insert(inode);
    disk.delete("/l/app.log.2");
    disk.use_again(packed + 10);
    collector.restart();
    collector.looks(&disk, 5);
    collector.has_sent(&lines(0, 40));
    disk.torn.clear();
    disk.write(inode, |_| {});
    collector.looks(&disk, 5);
    collector.has_sent(&lines(0, 50));
}

/// Scenario: an open file is written, renamed and compressed while nothing can be sent, so that
/// none of it is read; or it had another text before, of which no copy exists. Guarantee: its text
/// is read only from the open file, once.
#[test]
fn a_compressed_file_waits_for_the_open_one_that_it_is_made_of() {
    for had in [0, 30] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        disk.append("/l/app.log", "");
        write(&mut disk, "/l/app.log", 0, had);
        collector.looks(&disk, 2);
        disk.truncate("/l/app.log");
        write(&mut disk, "/l/app.log", 30, 40);
        disk.rename("/l/app.log", "/l/app.log.1");
        disk.pack("/l/app.log.1");
        disk.delete("/l/app.log.1");
        write(&mut disk, "/l/app.log", 40, 50);
        collector.look_without_reading(&disk);
        collector.look_without_reading(&disk);
        collector.looks(&disk, 40);
        collector.has_sent(&[lines(0, had), lines(30, 50)].concat());
        assert!(!collector.events.iter().any(|event| matches!(event, TailEvent::Lost { .. })));
    }
}

/// Scenario: all files of a name are gone and forgotten; then one is created and rotated between
/// two scans, also across a restart. Guarantee: it is read.
#[test]
fn a_name_stays_known_when_its_files_are_gone() {
    for restarts in [false, true] {
        let (mut disk, mut collector) = begun(10);
        disk.delete("/l/app.log");
        collector.looks(&disk, 50);
        assert_eq!(collector.tail.totals().files, 0);
        if restarts {
            collector.restart();
        }
        write(&mut disk, "/l/app.log", 10, 20);
        disk.rename("/l/app.log", "/l/app.log.1");
        collector.looks(&disk, 3);
        collector.has_sent(&lines(0, 20));
    }
}

/// Scenario: a copy is shorter than what was read of the original, which is gone; then a restart.
/// Guarantee: the copy isn't read again.
#[test]
fn a_copy_shorter_than_what_was_read_is_not_read_again() {
    let (mut disk, mut collector) = begun(30);
    disk.copy("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 30, 40);
    collector.looks(&disk, 2);
    disk.delete("/l/app.log");
    collector.looks(&disk, 50);
    collector.restart();
    collector.looks(&disk, 5);
    collector.has_sent(&lines(0, 40));
}

/// Scenario: all positions are damaged, and rotated files, one of them compressed, may contain
/// lines that were never sent; the source starts at the end. Guarantee: every file is read from its
/// beginning, whatever its rotated name.
#[test]
fn rotated_files_are_read_too_if_no_positions_can_be() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log.2", 0, 20);
    disk.pack("/l/app.log.2");
    disk.delete("/l/app.log.2");
    write(&mut disk, "/l/app.log.1", 20, 40);
    write(&mut disk, "/l/app.log", 40, 50);
    let (recalled, resort) = load_positions(Some(b"torn"), Some(b""));
    assert!(matches!(resort, Some(PositionFallback::Beginning(_))), "{resort:?}");
    let mut collector = Collector::with(app, true, recalled, 100);
    collector.looks(&disk, 30);
    collector.has_sent(&lines(0, 50));
    collector.restart();
    collector.looks(&disk, 30);
    collector.has_sent(&lines(0, 50));
}

/// Scenario: between two scans a file with a new name is created, and rotated twice: copied and
/// truncated, or renamed and once compressed. Next to it is an archive that existed before, and one
/// of yesterday is moved there in that time. Guarantee: every line of the new file once, no line of
/// the archives, also after a restart.
#[test]
fn a_new_name_is_read_with_what_was_rotated_of_it_before_it_was_seen() {
    for renames in [false, true] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(|path| path.ends_with("app.log"), false);
        disk.append("/l/b/app.log.9", "archived yesterday\n");
        disk.clock += 86_400_000_000_000;
        write(&mut disk, "/l/b/app.log.8", 80, 90);
        write(&mut disk, "/l/a/app.log", 0, 10);
        let archive = disk.names.remove(Path::new("/l/b/app.log.9")).unwrap();
        collector.looks(&disk, 3);
        disk.names.insert("/l/b/app.log.9".into(), archive);
        for first in [20, 30, 40] {
            if first > 30 {
                disk.rename("/l/b/app.log.1", "/l/b/app.log.2");
            }
            if first > 20 && renames {
                disk.rename("/l/b/app.log", "/l/b/app.log.1");
            } else if first > 20 {
                disk.copy("/l/b/app.log", "/l/b/app.log.1");
                disk.truncate("/l/b/app.log");
            }
            write(&mut disk, "/l/b/app.log", first, first + 10);
        }
        if renames {
            disk.pack("/l/b/app.log.2");
            disk.delete("/l/b/app.log.2");
        }
        let expected = [lines(0, 10), lines(20, 50)].concat();
        collector.looks(&disk, 5);
        collector.has_sent(&expected);
        collector.restart();
        collector.looks(&disk, 5);
        collector.has_sent(&expected);
    }
}

/// Scenario: the first scan finds nothing; then a file is created and rotated before the next.
/// Guarantee: all of it is read.
#[test]
fn what_is_rotated_where_nothing_was_is_read() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 1);
    write(&mut disk, "/l/app.log", 0, 10);
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 10, 20);
    collector.looks(&disk, 3);
    collector.has_sent(&lines(0, 20));
}
