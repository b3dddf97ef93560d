//! Tests rotation, truncation, identity and positions, with a directory in memory.

mod chance;
mod glances;
mod packed;
mod paused;
mod rig;
mod texts;

use std::path::Path;

use millrace_tail::{TailEvent, UnlistedPaths, load_positions};
use rig::{Collector, Disk};

fn app(path: &str) -> bool {
    path == "/l/app.log"
}

fn any(path: &str) -> bool {
    path.starts_with("/l/app.log")
}

/// Lines `from..to`, distinguished by number and each as long as a real one.
fn lines(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("2026-11-25T04:00:00.{n:06}Z INFO a message of its own")).collect()
}

fn write(disk: &mut Disk, path: &str, from: usize, to: usize) {
    for line in lines(from, to) {
        disk.append(path, &format!("{line}\n"));
    }
}

/// Scenario: the file is renamed to a name that isn't read and created again, once and then three
/// times between two scans, with unread lines in each. Guarantee: each line once.
#[test]
fn renamed_files_are_read_to_their_end_however_often_between_two_looks() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 10, 20);
    disk.rename("/l/app.log", "/l/app.log.1");
    write(&mut disk, "/l/app.log", 20, 30);
    collector.look(&disk);
    collector.has_sent(&lines(0, 30));
    for turn in 0..3 {
        write(&mut disk, "/l/app.log", 30 + turn * 10, 40 + turn * 10);
        for number in (1..6).rev() {
            if disk.names.contains_key(std::path::Path::new(&format!("/l/app.log.{number}"))) {
                let to = format!("/l/app.log.{}", number + 1);
                disk.rename(&format!("/l/app.log.{number}"), &to);
            }
        }
        disk.rename("/l/app.log", "/l/app.log.1");
    }
    write(&mut disk, "/l/app.log", 60, 70);
    collector.looks(&disk, 50);
    collector.has_sent(&lines(0, 70));
}

/// Scenario: while the collector is off the file is written, renamed and created again, three
/// times; a file that was rotated long before is next to them. Guarantee: each line once, and none
/// of the old one.
#[test]
fn rotations_while_the_collector_was_off_are_read() {
    let mut disk = Disk::default();
    write(&mut disk, "/l/app.log.9", 900, 910);
    write(&mut disk, "/l/app.log", 0, 10);
    let mut collector = Collector::start(app, false);
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 10, 20);
    disk.rename("/l/app.log", "/l/app.log.3");
    write(&mut disk, "/l/app.log.2", 20, 30);
    write(&mut disk, "/l/app.log.1", 30, 40);
    write(&mut disk, "/l/app.log", 40, 50);
    collector.restart();
    collector.looks(&disk, 3);
    collector.has_sent(&lines(0, 50));
}

/// Scenario: the file is copied and truncated, then written to a shorter length and, in the other
/// case, past the length that was read; each time the last lines are only in the copy. Guarantee:
/// each line once, since the copy is continued where the original was left.
#[test]
fn truncated_files_begin_again_and_their_copies_are_continued() {
    for after in [3, 40] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        write(&mut disk, "/l/app.log", 0, 30);
        collector.look(&disk);
        write(&mut disk, "/l/app.log", 30, 33);
        disk.copy("/l/app.log", "/l/app.log.1");
        disk.truncate("/l/app.log");
        write(&mut disk, "/l/app.log", 100, 100 + after);
        collector.looks(&disk, 4);
        let expected = [lines(0, 33), lines(100, 100 + after)].concat();
        collector.has_sent(&expected);
        assert!(matches!(collector.events[..], [TailEvent::Restarted { .. }]));
    }
}

/// Scenario: the file is truncated twice with unread lines, the first time with a copy. Guarantee:
/// the lines that the second truncation removed are reported as lost, and none of the first.
#[test]
fn what_no_copy_has_of_a_truncated_file_is_said_to_be_lost() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 30);
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 30, 33);
    collector.tail.apply_scan(&disk.seen(app), &UnlistedPaths::default());
    disk.copy("/l/app.log", "/l/app.log.1");
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 110);
    collector.looks(&disk, 5);
    assert!(
        matches!(collector.events[..], [TailEvent::Restarted { .. }]),
        "{:?}",
        collector.events
    );
    collector.events.clear();
    write(&mut disk, "/l/app.log", 110, 113);
    collector.tail.apply_scan(&disk.seen(app), &UnlistedPaths::default());
    disk.truncate("/l/app.log");
    collector.looks(&disk, 5);
    let lost_bytes = lines(110, 113).iter().map(|line| line.len() as u64 + 1).sum();
    let path = "/l/app.log".into();
    assert!(
        collector.events.contains(&TailEvent::Lost { path, lost_bytes }),
        "{:?}",
        collector.events
    );
}

/// Scenario: a scan finds the copy before the truncation. Guarantee: it is recognised as a copy,
/// and each line is sent once.
#[test]
fn a_copy_that_is_seen_before_the_truncation_is_no_new_file() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 30);
    collector.look(&disk);
    disk.copy("/l/app.log", "/l/app.log.1");
    collector.looks(&disk, 3);
    collector.has_sent(&lines(0, 30));
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 105);
    collector.looks(&disk, 3);
    collector.has_sent(&[lines(0, 30), lines(100, 105)].concat());
}

/// Scenario: the file is truncated, and written to exactly its former length; also with the
/// modification time of an earlier scan. Guarantee: the head shows the change.
#[test]
fn a_truncation_to_an_equal_length_is_told_by_the_head() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 30);
    collector.look(&disk);
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 130);
    collector.look(&disk);
    collector.has_sent(&[lines(0, 30), lines(100, 130)].concat());
    let inode = disk.inode("/l/app.log");
    let swapped = lines(200, 230).join("\n") + "\n";
    disk.content.insert(inode, swapped.into_bytes());
    collector.look(&disk);
    collector.has_sent(&[lines(0, 30), lines(100, 130), lines(200, 230)].concat());
}

/// Scenario: a file with a backlog is deleted, and its writer continues for a while. Guarantee: it
/// is read to its end by the open descriptor, with its unfinished line, then forgotten.
#[test]
fn a_deleted_file_is_read_to_its_end() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    let inode = disk.inode("/l/app.log");
    write(&mut disk, "/l/app.log", 10, 20);
    disk.delete("/l/app.log");
    collector.looks(&disk, 3);
    disk.write(inode, |content| content.extend_from_slice(b"last words"));
    collector.looks(&disk, 50);
    collector.has_sent(&[lines(0, 20), vec!["last words".into()]].concat());
    assert_eq!((collector.tail.totals().files, collector.tail.totals().open), (0, 0));
}

/// Scenario: a file is deleted while the collector is off, and another of the same name reuses its
/// inode. Guarantee: the new one is read completely, and the restart is reported.
#[test]
fn an_inode_used_again_is_a_new_file() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    let inode = disk.inode("/l/app.log");
    disk.delete("/l/app.log");
    disk.use_again(inode);
    write(&mut disk, "/l/app.log", 50, 70);
    assert_eq!(disk.inode("/l/app.log"), inode);
    collector.restart();
    collector.look(&disk);
    collector.has_sent(&[lines(0, 10), lines(50, 70)].concat());
    assert!(matches!(collector.events[..], [TailEvent::Restarted { .. }]));
}

/// Scenario: two files with the same content, shorter than a fingerprint, one of them under two
/// names, and moved. Guarantee: each is read once: they are distinguished by inodes, not by names.
#[test]
fn files_that_begin_alike_are_told_apart_and_one_with_two_names_is_one() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(any, false);
    write(&mut disk, "/l/app.log", 0, 2);
    write(&mut disk, "/l/app.log.b", 0, 2);
    disk.link("/l/app.log", "/l/app.log.c");
    collector.look(&disk);
    collector.has_sent(&[lines(0, 2), lines(0, 2)].concat());
    disk.rename("/l/app.log", "/l/app.log.x");
    write(&mut disk, "/l/app.log.b", 2, 40);
    collector.looks(&disk, 2);
    collector.has_sent(&[lines(0, 2), lines(0, 40)].concat());
}

/// Scenario: a file is moved to a name that isn't read, grows there, and is moved back. Guarantee:
/// each line once.
#[test]
fn moves_out_of_the_pattern_and_back_lose_and_repeat_nothing() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    disk.rename("/l/app.log", "/l/kept");
    write(&mut disk, "/l/kept", 10, 20);
    collector.looks(&disk, 50);
    write(&mut disk, "/l/kept", 20, 30);
    collector.looks(&disk, 50);
    disk.rename("/l/kept", "/l/app.log");
    write(&mut disk, "/l/app.log", 30, 40);
    collector.looks(&disk, 3);
    collector.has_sent(&lines(0, 40));
}

/// Scenario: a first start with `startAt: End`; then more is written, and another file appears.
/// Guarantee: only new lines of the first file, all of the second.
#[test]
fn files_that_appear_later_are_read_from_their_start() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(any, true);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    collector.has_sent(&[]);
    write(&mut disk, "/l/app.log", 10, 20);
    write(&mut disk, "/l/app.log.b", 50, 60);
    collector.look(&disk);
    collector.has_sent(&[lines(10, 20), lines(50, 60)].concat());
    write(&mut disk, "/l/app.log.c", 60, 70);
    collector.restart();
    collector.look(&disk);
    collector.has_sent(&[lines(10, 20), lines(50, 70)].concat());
}

/// Scenario: three requests with a file's lines are acknowledged last to first, and the process is
/// killed later. Guarantee: the position doesn't move until the first is acknowledged, and a
/// restart repeats unacknowledged lines.
#[test]
fn positions_are_committed_in_order() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    collector.acknowledges = false;
    for part in 0..3 {
        write(&mut disk, "/l/app.log", part * 10, part * 10 + 10);
        collector.look(&disk);
    }
    let tickets = std::mem::take(&mut collector.tickets);
    for ticket in tickets[1..].iter().rev() {
        collector.tail.acknowledge(*ticket);
        assert_eq!(collector.tail.committed_offsets()[0].1, 0);
    }
    collector.tail.acknowledge(tickets[0]);
    assert_eq!(collector.tail.committed_offsets()[0].1, disk.content[&1].len() as u64);
    collector.acknowledges = false;
    write(&mut disk, "/l/app.log", 30, 35);
    collector.look(&disk);
    collector.restart();
    collector.look(&disk);
    collector.has_sent(&[lines(0, 35), lines(30, 35)].concat());
}

/// Scenario: an acknowledgement comes after the file was restarted. Guarantee: it moves no
/// position.
#[test]
fn an_acknowledgement_of_the_text_before_a_truncation_means_nothing() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    collector.acknowledges = false;
    write(&mut disk, "/l/app.log", 0, 30);
    collector.look(&disk);
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 140);
    let before = std::mem::take(&mut collector.tickets);
    collector.look(&disk);
    for ticket in before {
        collector.tail.acknowledge(ticket);
    }
    assert_eq!(collector.tail.committed_offsets()[0].1, 0);
}

/// Scenario: a file's last request isn't acknowledged when it is copied and truncated; its copy is
/// found; the process is killed, or the acknowledgement comes before. Guarantee: the copy's
/// position is what was acknowledged of the original: a kill repeats the other lines, and loses
/// none of them.
#[test]
fn what_is_in_flight_of_a_truncated_file_is_owed_by_its_copy() {
    for acknowledged in [false, true] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        write(&mut disk, "/l/app.log", 0, 30);
        collector.look(&disk);
        collector.acknowledges = false;
        write(&mut disk, "/l/app.log", 30, 33);
        collector.look(&disk);
        let before = std::mem::take(&mut collector.tickets);
        collector.acknowledges = true;
        disk.copy("/l/app.log", "/l/app.log.1");
        disk.truncate("/l/app.log");
        write(&mut disk, "/l/app.log", 100, 105);
        collector.looks(&disk, 4);
        collector.has_sent(&[lines(0, 33), lines(100, 105)].concat());
        if acknowledged {
            before.into_iter().for_each(|ticket| collector.tail.acknowledge(ticket));
        }
        collector.restart();
        collector.looks(&disk, 4);
        let again = if acknowledged { 33..33 } else { 30..33 };
        let again = lines(again.start, again.end);
        collector.has_sent(&[lines(0, 33), lines(100, 105), again].concat());
    }
}

/// Scenario: a directory can't be read for a while. Guarantee: its files' positions are unchanged.
#[test]
fn an_incomplete_look_forgets_nothing() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    for _ in 0..5000 {
        assert!(collector.tail.apply_scan(&[], &UnlistedPaths::with_everything()).is_empty());
    }
    collector.looks(&disk, 2);
    collector.has_sent(&lines(0, 10));
}

/// Scenario: two files in two directories have a backlog and are deleted; one of the directories,
/// or a file next to it, can't be read from then on. Guarantee: files there stay open, with their
/// positions, and those elsewhere are closed and forgotten, however long it lasts.
#[test]
fn what_can_not_be_listed_keeps_only_its_own_files() {
    for (bad, stays) in [("/l/a", 1), ("/l/a/other.log", 0), ("/l/a/app.log", 1)] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(|path| path.ends_with("app.log"), false);
        write(&mut disk, "/l/a/app.log", 0, 10);
        write(&mut disk, "/l/b/app.log", 10, 20);
        collector.look(&disk);
        assert_eq!(collector.tail.totals().open, 2);
        let kept = disk.names.clone();
        disk.names.clear();
        for _ in 0..100 {
            let mut unlisted = UnlistedPaths::default();
            unlisted.insert(Path::new(bad));
            collector.look_with(&disk, &unlisted);
        }
        assert_eq!((collector.tail.totals().open, collector.tail.totals().files), (stays, stays));
        disk.names = kept;
        disk.delete("/l/b/app.log");
        let again = if stays == 1 { 0 } else { 10 };
        collector.looks(&disk, 2);
        collector.has_sent(&[lines(0, 20), lines(0, again)].concat());
    }
}

/// Scenario: an open file can't be read further: it has its name, or was deleted. Guarantee: the
/// former is opened again where it was left; the latter is given up, and its remainder is lost and
/// counted.
#[test]
fn a_file_that_can_not_be_read_is_opened_again_or_given_up() {
    for is_deleted in [false, true] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        write(&mut disk, "/l/app.log", 0, 10);
        collector.look(&disk);
        write(&mut disk, "/l/app.log", 10, 20);
        if is_deleted {
            collector.look_without_reading(&disk);
            disk.delete("/l/app.log");
            collector.look_without_reading(&disk);
        }
        collector.fail_reads();
        assert_eq!(collector.tail.totals().open, 0);
        collector.looks(&disk, 30);
        let lost: Vec<_> = collector
            .events
            .iter()
            .map(|event| matches!(event, TailEvent::Lost { lost_bytes: 1.., .. }))
            .collect();
        if is_deleted {
            assert_eq!((lost, collector.tail.totals().files), (vec![true], 0));
        } else {
            assert!(lost.is_empty(), "{lost:?}");
            collector.has_sent(&lines(0, 20));
        }
    }
}

/// Scenario: more paths than are remembered can't be read: in one directory, in a directory each,
/// and a few elsewhere; two files are deleted, one next to the many and one elsewhere. Guarantee:
/// the former stays known, the latter is forgotten, and the few elsewhere are remembered
/// individually. A new, listed file next to the many is read.
#[test]
fn beyond_the_limit_of_unlisted_paths_their_directory_counts() {
    let in_one = |number: usize| format!("/l/bad/{number}.log");
    let in_each = |number: usize| format!("/l/bad/pod-{number}/app/0.log");
    for name in [&in_one as &dyn Fn(usize) -> String, &in_each] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(|path| path.ends_with("app.log"), false);
        write(&mut disk, "/l/bad/app.log", 0, 10);
        write(&mut disk, "/l/good/app.log", 10, 20);
        write(&mut disk, "/m/good/app.log", 20, 30);
        collector.look(&disk);
        let names = disk.names.clone();
        disk.names.clear();
        write(&mut disk, "/l/bad/new/app.log", 30, 40);
        let mut unlisted = UnlistedPaths::default();
        unlisted.insert(Path::new("/m/bad/1.log"));
        unlisted.insert(Path::new("/m/bad/2.log"));
        (0..1_000).for_each(|number| unlisted.insert(Path::new(&name(number))));
        assert!(!unlisted.is_everything());
        (0..100).for_each(|_| collector.look_with(&disk, &unlisted));
        assert_eq!((collector.tail.totals().open, collector.tail.totals().files), (2, 2));
        disk.names.extend(names);
        collector.looks(&disk, 2);
        collector.has_sent(&[lines(0, 40), lines(10, 30)].concat());
    }
}

/// Scenario: a listed file that isn't open and has a backlog is in a directory that can't be read
/// from then on; another's text lost its file before. Guarantee: neither is opened, and no scan is
/// needed for them, until the directory is listed again.
#[test]
fn what_can_not_be_listed_needs_no_further_look() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(|path| path.ends_with("app.log"), false);
    write(&mut disk, "/l/a/app.log", 0, 10);
    write(&mut disk, "/l/b/app.log", 10, 20);
    collector.looks(&disk, 4);
    assert!(collector.is_settled());
    collector.fail_reads();
    let names = disk.names.clone();
    disk.names.clear();
    let mut unlisted = UnlistedPaths::default();
    unlisted.insert(Path::new("/l"));
    for _ in 0..3 {
        assert!(collector.tail.apply_scan(&disk.seen(app), &unlisted).is_empty());
        assert!(collector.is_settled());
    }
    disk.names = names;
    write(&mut disk, "/l/a/app.log", 20, 30);
    collector.looks(&disk, 2);
    collector.has_sent(&lines(0, 30));
}

/// Scenario: thirty files, five of which may be open, all written repeatedly. Guarantee: never more
/// are open, and each line is sent once.
#[test]
fn no_more_files_are_open_than_may_be() {
    let mut disk = Disk::default();
    let (recalled, _) = load_positions(None, None);
    let mut collector = Collector::with(any, false, recalled, 5);
    for turn in 0..3 {
        for file in 0..30 {
            write(&mut disk, &format!("/l/app.log.{file}"), turn * 10, turn * 10 + 10);
        }
        collector.looks(&disk, 100);
    }
    assert_eq!(collector.most_open, 5);
    let expected: Vec<String> = (0..30).flat_map(|_| lines(0, 30)).collect();
    collector.has_sent(&expected);
}

/// Scenario: as many files as may be known, and one more; then each known one is rotated,
/// repeatedly, and the former file is deleted. Guarantee: each line of the known names is sent
/// once, the extra file is reported once and isn't read, and the number of known files stays
/// bounded.
#[test]
fn a_known_log_is_read_on_after_its_rotation_without_room_for_more() {
    const KNOWN: usize = 5;
    let mut disk = Disk::default();
    let (recalled, _) = load_positions(None, None);
    let is_log = |path: &str| path.ends_with("app.log");
    let mut collector = Collector::bounded(is_log, false, recalled, (100, KNOWN));
    let name = |file: usize| format!("/l/{file}/app.log");
    (0..KNOWN).for_each(|file| write(&mut disk, &name(file), 0, 10));
    collector.look(&disk);
    write(&mut disk, "/l/more/app.log", 100, 110);
    collector.looks(&disk, 3);
    for turn in 1..4 {
        for file in 0..KNOWN {
            disk.rename(&name(file), &format!("{}.1", name(file)));
            write(&mut disk, &name(file), turn * 10, turn * 10 + 10);
            collector.look(&disk);
            disk.delete(&format!("{}.1", name(file)));
        }
        collector.looks(&disk, 30);
    }
    let expected: Vec<String> = (0..KNOWN).flat_map(|_| lines(0, 40)).collect();
    collector.has_sent(&expected);
    let too_many = |event: &&TailEvent| matches!(event, TailEvent::TooMany { .. });
    assert_eq!(collector.events.iter().filter(too_many).count(), 1);
    assert_eq!(collector.tail.totals().files, KNOWN as u64);
}
