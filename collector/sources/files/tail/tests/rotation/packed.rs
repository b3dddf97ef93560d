//! Tests compressed files.

use crate::rotation::rig::{Collector, Disk};
use crate::rotation::{any, app, lines, write};

/// Scenario: a file has unread lines when the collector stops; it is rotated and compressed, and so
/// is the next one; an old compressed file is next to them. Guarantee: each line once, none of the
/// old file, and no repeats after further starts.
#[test]
fn files_compressed_while_off_are_read_on_from_where_they_were_left() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log.9", 900, 930);
    disk.pack("/l/app.log.9");
    disk.delete("/l/app.log.9");
    write(&mut disk, "/l/app.log", 0, 20);
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 2);
    collector.has_sent(&lines(0, 20));
    write(&mut disk, "/l/app.log", 20, 30);
    disk.rename("/l/app.log", "/l/app.log.2");
    disk.pack("/l/app.log.2");
    disk.delete("/l/app.log.2");
    write(&mut disk, "/l/app.log.1", 30, 60);
    disk.pack("/l/app.log.1");
    disk.delete("/l/app.log.1");
    write(&mut disk, "/l/app.log", 60, 70);
    for _ in 0..3 {
        collector.restart();
        collector.looks(&disk, 40);
        collector.has_sent(&lines(0, 70));
    }
}

/// Scenario: a file is rotated and read to its end, then compressed; its original remains for a
/// while and is deleted; the collector is restarted. Guarantee: the compressed file is never read,
/// and opened once.
#[test]
fn the_compressed_form_of_what_was_read_is_not_read_again() {
    for inside in [app, any] {
        let mut disk = Disk::default();
        write(&mut disk, "/l/app.log", 0, 20);
        let mut collector = Collector::start(inside, false);
        collector.look(&disk);
        disk.rename("/l/app.log", "/l/app.log.1");
        write(&mut disk, "/l/app.log", 20, 30);
        collector.looks(&disk, 3);
        disk.pack("/l/app.log.1");
        write(&mut disk, "/l/app.log.1.gz", 0, 0);
        collector.looks(&disk, 3);
        disk.delete("/l/app.log.1");
        collector.looks(&disk, 50);
        for _ in 0..3 {
            collector.restart();
            collector.looks(&disk, 50);
        }
        collector.has_sent(&lines(0, 30));
    }
}

/// Scenario: a rotated file retains a name that is read, as a container's does, and is open and
/// quiet for long; between two scans it is compressed and deleted, and the file created after it is
/// written; the compressed file is opened in the scan that finds it, or only long after. Guarantee:
/// it isn't read again, also after a restart.
#[test]
fn a_quiet_file_that_is_compressed_between_two_looks_is_not_read_again() {
    for busy_looks in [0, 60] {
        let mut disk = Disk::default();
        write(&mut disk, "/l/app.log", 0, 20);
        let mut collector = Collector::start(any, false);
        collector.look(&disk);
        disk.rename("/l/app.log", "/l/app.log.1");
        write(&mut disk, "/l/app.log", 20, 30);
        collector.looks(&disk, 40);
        write(&mut disk, "/l/app.log", 30, 32);
        let packed = disk.pack("/l/app.log.1");
        disk.write(packed, |_| {});
        disk.delete("/l/app.log.1");
        for _ in 0..busy_looks {
            collector.look_without_unpacking(&disk);
        }
        collector.looks(&disk, 50);
        collector.has_sent(&lines(0, 32));
        collector.restart();
        collector.looks(&disk, 50);
        collector.has_sent(&lines(0, 32));
    }
}

/// Scenario: the same, and a scan finds the complete compressed file under the kubelet's temporary
/// name. Guarantee: nothing is read again.
#[test]
fn a_compressed_file_that_was_seen_under_another_name_is_not_read_again() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 20);
    let is_container = |path: &str| any(path) && !path.ends_with(".tmp");
    let mut collector = Collector::start(is_container, false);
    collector.look(&disk);
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 20, 30);
    collector.looks(&disk, 40);
    let packed = disk.pack("/l/app.log.1");
    disk.write(packed, |_| {});
    disk.rename("/l/app.log.1.gz", "/l/app.log.1.tmp");
    collector.look(&disk);
    disk.rename("/l/app.log.1.tmp", "/l/app.log.1.gz");
    disk.delete("/l/app.log.1");
    collector.looks(&disk, 50);
    collector.restart();
    collector.looks(&disk, 50);
    collector.has_sent(&lines(0, 30));
}

/// Scenario: a file is rotated twice and compressed within one scan: the scan sees the compressed
/// file, complete, under the name that it has while it is written, and the original no more. Then
/// the file gets its own name, by which neither its size nor its time changes. Guarantee: each line
/// once.
#[test]
fn a_file_that_was_seen_while_it_was_compressed_is_read_once_it_has_its_name() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 20);
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 3);
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 20, 30);
    disk.rename("/l/app.log", "/l/app.log.2");
    write(&mut disk, "/l/app.log", 30, 40);
    disk.pack("/l/app.log.2");
    disk.rename("/l/app.log.2.gz", "/l/app.log.2.tmp");
    disk.delete("/l/app.log.2");
    let listed: Vec<_> = disk.names.keys().cloned().collect();
    collector.look_long(&listed, &disk);
    disk.rename("/l/app.log.2.tmp", "/l/app.log.2.gz");
    collector.looks(&disk, 5);
    collector.has_sent(&lines(0, 40));
}

/// Scenario: a file with a backlog is compressed while no process has it open; only the beginning
/// of the compressed file exists at first. Guarantee: it isn't tried again until it changes; then
/// each line is sent once.
#[test]
fn a_compressed_file_that_is_not_whole_is_tried_again_when_it_changes() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 20);
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 2);
    write(&mut disk, "/l/app.log", 20, 30);
    disk.rename("/l/app.log", "/l/app.log.1");
    let inode = disk.pack("/l/app.log.1");
    disk.delete("/l/app.log.1");
    disk.torn.insert(inode);
    collector.restart();
    collector.looks(&disk, 10);
    assert_eq!(collector.opened_packed, 1);
    disk.torn.clear();
    disk.write(inode, |_| {});
    collector.looks(&disk, 10);
    collector.has_sent(&lines(0, 30));
}

/// Scenario: a file is copied and truncated, and the copy compressed at once, with lines that
/// weren't read before. Guarantee: each line once.
#[test]
fn the_compressed_copy_of_a_truncated_file_is_continued() {
    for looks_between in [0, 2] {
        let mut disk = Disk::default();
        write(&mut disk, "/l/app.log", 0, 30);
        let mut collector = Collector::start(app, false);
        collector.look(&disk);
        write(&mut disk, "/l/app.log", 30, 33);
        disk.copy("/l/app.log", "/l/app.log.1");
        disk.truncate("/l/app.log");
        disk.pack("/l/app.log.1");
        disk.delete("/l/app.log.1");
        collector.looks(&disk, looks_between);
        write(&mut disk, "/l/app.log", 100, 105);
        collector.looks(&disk, 5);
        collector.has_sent(&[lines(0, 33), lines(100, 105)].concat());
    }
}

/// Scenario: while the collector is off, a file that was read is deleted, and a compressed one
/// reuses its inode; then the reverse. Guarantee: each line once; compressed bytes never count as
/// text, nor text as compressed bytes.
#[test]
fn an_inode_of_a_text_may_become_that_of_a_compressed_file_and_back() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 20);
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 2);
    let was_text = disk.inode("/l/app.log");
    disk.delete("/l/app.log");
    write(&mut disk, "/l/app.log.1", 20, 30);
    let free = disk.inode("/l/app.log.1");
    disk.use_again(was_text);
    assert_eq!(disk.pack("/l/app.log.1"), was_text);
    disk.delete("/l/app.log.1");
    disk.use_again(free);
    write(&mut disk, "/l/app.log", 30, 40);
    collector.restart();
    collector.looks(&disk, 10);
    collector.has_sent(&lines(0, 40));
    disk.delete("/l/app.log.1.gz");
    disk.delete("/l/app.log");
    disk.use_again(was_text);
    write(&mut disk, "/l/app.log", 40, 50);
    collector.restart();
    collector.looks(&disk, 10);
    collector.has_sent(&lines(0, 50));
}

/// Scenario: a file is created, rotated and compressed between two scans, so that none finds the
/// original; the first scan finds its compressed form half written; the next finds it complete,
/// under the name of a further rotation, next to newer lines. Guarantee: each line once.
#[test]
fn a_file_that_was_only_seen_half_compressed_is_read_under_its_next_name() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log", 0, 20);
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 2);
    disk.rename("/l/app.log", "/l/app.log.2");
    write(&mut disk, "/l/app.log.1", 20, 22);
    let packed = disk.pack("/l/app.log.1");
    disk.delete("/l/app.log.1");
    let whole = disk.content.insert(packed, Vec::new()).unwrap();
    disk.torn.insert(packed);
    write(&mut disk, "/l/app.log", 22, 30);
    collector.look(&disk);
    disk.content.insert(packed, whole);
    disk.torn.clear();
    disk.rename("/l/app.log.2", "/l/app.log.3");
    disk.rename("/l/app.log.1.gz", "/l/app.log.2.gz");
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 30, 40);
    collector.looks(&disk, 50);
    collector.restart();
    collector.looks(&disk, 50);
    collector.has_sent(&lines(0, 40));
}

/// Scenario: a scan lists the names, and before it reaches the files one is rotated three times,
/// and all but the newest are compressed: it finds the newest file and none in between. Guarantee:
/// each line once: those that the next scan finds are read, although the newest was read before.
#[test]
fn files_that_rotate_while_a_look_is_under_way_are_read_at_the_next_one() {
    for keeps in [false, true] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        write(&mut disk, "/l/app.log", 0, 10);
        collector.looks(&disk, 3);
        let listed: Vec<_> = disk.names.keys().cloned().collect();
        for turn in 1..4 {
            shift(&mut disk, turn);
            write(&mut disk, "/l/app.log", turn * 10, turn * 10 + 10);
        }
        collector.look_long(&listed, &disk);
        if keeps {
            collector.restart();
        }
        collector.looks(&disk, 5);
        collector.has_sent(&lines(0, 40));
    }
}

/// Rotates as logrotate does with `delaycompress`: each number is incremented, and the former first
/// file is compressed. There are `count` files including the new one.
fn shift(disk: &mut Disk, count: usize) {
    for number in (2..count).rev() {
        disk.rename(&format!("/l/app.log.{number}.gz"), &format!("/l/app.log.{}.gz", number + 1));
    }
    if count > 1 {
        disk.rename("/l/app.log.1", "/l/app.log.2");
        disk.pack("/l/app.log.2");
        disk.delete("/l/app.log.2");
    }
    disk.rename("/l/app.log", "/l/app.log.1");
}
