//! Rotation, truncation, identity and positions, with a directory in memory.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod chance;
mod glances;
mod packed;
mod paused;
mod rig;
mod texts;

use millrace_tail::{Event, recall};
use rig::{Collector, Disk};

fn app(path: &str) -> bool {
    path == "/l/app.log"
}

fn any(path: &str) -> bool {
    path.starts_with("/l/app.log")
}

/// Lines `from..to`, told apart by number and all of them as long as a real one.
fn lines(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("2026-11-25T04:00:00.{n:06}Z INFO a message of its own")).collect()
}

fn write(disk: &mut Disk, path: &str, from: usize, to: usize) {
    for line in lines(from, to) {
        disk.append(path, &format!("{line}\n"));
    }
}

/// Scenario: the file is renamed to a name that isn't read and made anew, once and then three times
/// between two looks, with unread lines in each. Guarantee: each line once.
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

/// Scenario: the collector is away while the file is written to, renamed and made anew, three
/// times; a file that was rotated long before lies beside them. Guarantee: each line once, and
/// nothing of the old one.
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

/// Scenario: copied and truncated, then written to a shorter length and, the second time, past the
/// length that was read; each time the last lines were only in the copy. Guarantee: each line once,
/// since the copy is continued where the original was left.
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
        assert!(matches!(collector.events[..], [Event::BeganAgain { .. }]));
    }
}

/// Scenario: truncated twice while lines in it weren't read, the first time with a copy. Guarantee:
/// what the second took away is said to be lost, and nothing of the first.
#[test]
fn what_no_copy_has_of_a_truncated_file_is_said_to_be_lost() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 30);
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 30, 33);
    collector.tail.look(&disk.seen(app), true);
    disk.copy("/l/app.log", "/l/app.log.1");
    disk.truncate("/l/app.log");
    write(&mut disk, "/l/app.log", 100, 110);
    collector.looks(&disk, 5);
    assert!(matches!(collector.events[..], [Event::BeganAgain { .. }]), "{:?}", collector.events);
    collector.events.clear();
    write(&mut disk, "/l/app.log", 110, 113);
    collector.tail.look(&disk.seen(app), true);
    disk.truncate("/l/app.log");
    collector.looks(&disk, 5);
    let lost_bytes = lines(110, 113).iter().map(|line| line.len() as u64 + 1).sum();
    let path = "/l/app.log".into();
    assert!(collector.events.contains(&Event::Gone { path, lost_bytes }), "{:?}", collector.events);
}

/// Scenario: the copy is seen before the truncation. Guarantee: it is known as a copy, and each
/// line comes once.
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

/// Scenario: truncated, and written to exactly the length it had; also under the same stamp as a
/// look before. Guarantee: the head tells.
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

/// Scenario: a file is deleted while behind, and its writer goes on for a while. Guarantee: read to
/// its end by the open descriptor, with its unfinished line, then forgotten.
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

/// Scenario: a file goes while the collector is off, and its inode is used again by another of the
/// same name. Guarantee: the new one is read whole, and it is said.
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
    assert!(matches!(collector.events[..], [Event::BeganAgain { .. }]));
}

/// Scenario: two files with the same content, shorter than a fingerprint, one of them under two
/// names, and moved. Guarantee: each is read once: inodes tell them apart, and names don't.
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

/// Scenario: a file leaves the names that are read, grows there, and comes back. Guarantee: each
/// line once.
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

/// Scenario: a first start with `startAt: end`; then more is written, and another file appears.
/// Guarantee: of the first file only what is new, of the second all.
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
/// killed before the first. Guarantee: the position doesn't move until the first is, and a restart
/// repeats what wasn't.
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
        assert_eq!(collector.tail.positions()[0].1, 0);
    }
    collector.tail.acknowledge(tickets[0]);
    assert_eq!(collector.tail.positions()[0].1, disk.content[&1].len() as u64);
    collector.acknowledges = false;
    write(&mut disk, "/l/app.log", 30, 35);
    collector.look(&disk);
    collector.restart();
    collector.look(&disk);
    collector.has_sent(&[lines(0, 35), lines(30, 35)].concat());
}

/// Scenario: an acknowledgement comes after the file has begun again. Guarantee: it moves nothing.
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
    assert_eq!(collector.tail.positions()[0].1, 0);
}

/// Scenario: a file's last request isn't acknowledged when it is copied and truncated; its copy is
/// found; the process is killed, or the acknowledgement comes before. Guarantee: the copy's
/// position is what was acknowledged of the original: a kill repeats the rest, and loses none of
/// it.
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

/// Scenario: a directory can't be read for a while. Guarantee: its files' positions stay.
#[test]
fn an_incomplete_look_forgets_nothing() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    for _ in 0..5000 {
        assert!(collector.tail.look(&[], false).is_empty());
    }
    collector.looks(&disk, 2);
    collector.has_sent(&lines(0, 10));
}

/// Scenario: thirty files, five of which may be open, all written to again and again. Guarantee:
/// never more are open, and each line comes once.
#[test]
fn no_more_files_are_open_than_may_be() {
    let mut disk = Disk::default();
    let (recalled, _) = recall(None, None);
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
