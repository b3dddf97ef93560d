//! Tests files that aren't read for a while although they exist.

use std::collections::BTreeSet;

use millrace_tail::{PauseSet, RecordedPositions, UnlistedPaths};

use crate::rotation::rig::{Collector, Disk};
use crate::rotation::{any, app, lines, write};

/// Scenario: a file is read, then paused with a backlog, written, and read again; the process ends
/// in between, or doesn't. Guarantee: each line once, from the position where it was left; while it
/// is paused it has no backlog and isn't uncertain.
#[test]
fn a_paused_file_goes_on_where_it_was_left() {
    for restarts in [false, true] {
        let mut disk = Disk::default();
        let mut collector = Collector::start(app, false);
        write(&mut disk, "/l/app.log", 0, 10);
        collector.look(&disk);
        write(&mut disk, "/l/app.log", 10, 20);
        collector.look_paused(&disk);
        if restarts {
            collector.restart();
        }
        write(&mut disk, "/l/app.log", 20, 30);
        // Far longer than the wait for a lost file.
        (0..5_000).for_each(|_| collector.look_paused(&disk));
        collector.has_sent(&lines(0, 10));
        assert!(collector.is_settled());
        assert_eq!(collector.tail.totals().backlog_bytes, 0);
        collector.look(&disk);
        collector.has_sent(&lines(0, 30));
        assert_eq!(collector.events, []);
    }
}

/// Scenario: a paused file with a backlog is deleted. Guarantee: its lines weren't requested:
/// nothing is reported as lost, and the file is forgotten in the end.
#[test]
fn what_goes_while_it_is_paused_is_not_lost() {
    let mut disk = Disk::default();
    let mut collector = Collector::start(app, false);
    write(&mut disk, "/l/app.log", 0, 10);
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 10, 20);
    collector.look_paused(&disk);
    disk.delete("/l/app.log");
    (0..5_000).for_each(|_| collector.look_paused(&disk));
    collector.has_sent(&lines(0, 10));
    assert_eq!((collector.tail.totals().files, collector.events), (0, vec![]));
}

/// Scenario: the selection of a source isn't known at first, whose unknown files are read from
/// their end; files exist, one of them on record. Guarantee: the first scan that includes the
/// source counts as its first, however late, and the recorded file continues at its position.
#[test]
fn the_first_look_is_the_first_that_a_source_takes_part_in() {
    let mut disk = Disk::default();
    let mut collector = Collector::with(any, true, RecordedPositions::for_first_start(), 100);
    write(&mut disk, "/l/app.log", 0, 10);
    let paused = PauseSet { sources: BTreeSet::from([0]), ..PauseSet::default() };
    for _ in 0..5_000 {
        collector.tail.set_paused(paused.clone());
        assert_eq!(collector.tail.apply_scan(&[], &UnlistedPaths::default()), []);
    }
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 10, 20);
    collector.look(&disk);
    collector.has_sent(&lines(10, 20));
    write(&mut disk, "/l/app.log", 20, 30);
    collector.restart();
    for _ in 0..5_000 {
        collector.tail.set_paused(paused.clone());
        assert_eq!(collector.tail.apply_scan(&[], &UnlistedPaths::default()), []);
    }
    collector.look(&disk);
    collector.has_sent(&lines(10, 30));
}

/// Scenario: a file is written, rotated, paused, read again, and the process ends, at random.
/// Guarantee: each line once in the end, and none is read during a pause.
#[test]
fn pauses_at_any_time_lose_and_repeat_nothing() {
    for seed in 0..300_u64 {
        let mut chance = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |bound: u64| {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance % bound
        };
        let (mut disk, mut next, mut rotated) = (Disk::default(), 5, 0);
        write(&mut disk, "/l/app.log", 0, 5);
        let mut collector = Collector::start(any, false);
        collector.look(&disk);
        for _ in 0..60 {
            match below(8) {
                0..3 => {
                    write(&mut disk, "/l/app.log", next, next + 3);
                    next += 3;
                }
                3 => {
                    disk.rename("/l/app.log", &format!("/l/app.log.{rotated}"));
                    write(&mut disk, "/l/app.log", next, next + 3);
                    (next, rotated) = (next + 3, rotated + 1);
                }
                4 => collector.look(&disk),
                5 | 6 => {
                    let before = collector.lines.len();
                    collector.look_paused(&disk);
                    assert_eq!(collector.lines.len(), before, "seed {seed}");
                }
                _ => collector.restart(),
            }
        }
        collector.looks(&disk, 3);
        let mut came = collector.lines.clone();
        came.sort();
        let mut expected = lines(0, next);
        expected.sort();
        assert!(came == expected, "seed {seed}: {} of {next} lines", came.len());
    }
}
