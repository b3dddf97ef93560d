//! Which text a file has, where names and inodes mislead.

use std::path::Path;

use millrace_tail::{Event, Resort, recall};

use crate::rig::{Collector, Disk};
use crate::{app, lines, write};

/// A file of so many lines, and a collector that has sent them.
fn begun(count: usize) -> (Disk, Collector) {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, count);
    collector.looks(&disk, 2);
    (disk, collector)
}

/// Scenario: a file is copied and truncated, and the process killed before it looked again, or
/// after that and before positions were kept; the copy has lines that weren't read. Guarantee: each
/// line once: the copy has the text that is on record, and the file another.
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

/// Scenario: as above, and the copy was compressed and the inode of the plain one used for the next
/// copy meanwhile. Guarantee: each line once.
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

/// Scenario: a file is gone, and its inode is that of a new one, which a look sees and nobody opens
/// before positions are kept, the process is killed, and the file moved to a name that nothing of
/// rotation has. Guarantee: it is read, since it was seen under a name that is.
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

/// Scenario: a file on record is gone, and its inode is that of another one, of no concern by its
/// name. Guarantee: no line of that.
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

/// Scenario: while the collector is off a file is compressed, and its inode becomes that of another
/// compressed file, of which only the beginning is there for long. Guarantee: the rest of the first
/// is read meanwhile.
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
/// nothing of it is read; or it had another text before, of which nobody has a copy. Guarantee: its
/// text is read from the open file alone, once.
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
        assert!(!collector.events.iter().any(|event| matches!(event, Event::Gone { .. })));
    }
}

/// Scenario: all files of a name are gone and forgotten; then one is made and rotated between two
/// looks, also across a start. Guarantee: it is read.
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

/// Scenario: a copy is shorter than what was read of the original, which is gone; then a start.
/// Guarantee: nothing of the copy is read again.
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

/// Scenario: all positions are damaged, and rotated files, one of them compressed, may hold lines
/// that were never sent; the source starts at the end. Guarantee: every file is read from its
/// beginning, whatever rotation has named it.
#[test]
fn rotated_files_are_read_too_if_no_positions_can_be() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log.2", 0, 20);
    disk.pack("/l/app.log.2");
    disk.delete("/l/app.log.2");
    write(&mut disk, "/l/app.log.1", 20, 40);
    write(&mut disk, "/l/app.log", 40, 50);
    let (recalled, resort) = recall(Some(b"torn"), Some(b""));
    assert!(matches!(resort, Some(Resort::Beginning(_))), "{resort:?}");
    let mut collector = Collector::with(app, true, recalled, 100);
    collector.looks(&disk, 30);
    collector.has_sent(&lines(0, 50));
    collector.restart();
    collector.looks(&disk, 30);
    collector.has_sent(&lines(0, 50));
}

/// Scenario: between two looks a file of a name never seen is made, and rotated twice: copied and
/// truncated, or renamed and once compressed. Beside it is an archive that was there before, and
/// one of yesterday is moved there meanwhile. Guarantee: every line of the new file once, no line
/// of the archives, also after a restart.
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

/// Scenario: there is nothing at the first look; then a file is made and rotated before the next.
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
