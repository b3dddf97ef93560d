//! Files that aren't read for a while although they are there.

use std::collections::BTreeSet;

use millrace_tail::{Paused, Recalled};

use crate::rig::{Collector, Disk};
use crate::{any, app, lines, write};

/// Scenario: a file is read, then paused with lines behind, written, and read again; the process
/// ends in between, or doesn't. Guarantee: each line once, from where it was left; while it is
/// paused nothing is behind or in doubt.
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
        // Far longer than what was lost is waited for.
        (0..5_000).for_each(|_| collector.look_paused(&disk));
        collector.has_sent(&lines(0, 10));
        assert!(collector.is_settled());
        assert_eq!(collector.tail.totals().behind_bytes, 0);
        collector.look(&disk);
        collector.has_sent(&lines(0, 30));
        assert_eq!(collector.events, []);
    }
}

/// Scenario: a paused file with lines behind is deleted. Guarantee: nobody asked for them: nothing
/// is said to be lost, and nothing is known of it in the end.
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

/// Scenario: nobody knows at first what a source reads, whose unknown files are begun at their end;
/// files are there, one of them on record. Guarantee: the first look that it takes part in counts
/// as its first, however late, and what was on record goes on where it was.
#[test]
fn the_first_look_is_the_first_that_a_source_takes_part_in() {
    let mut disk = Disk::default();
    let mut collector = Collector::with(any, true, Recalled::nothing(), 100);
    write(&mut disk, "/l/app.log", 0, 10);
    let paused = Paused { sources: BTreeSet::from([0]), ..Paused::default() };
    for _ in 0..5_000 {
        collector.tail.pause(paused.clone());
        assert_eq!(collector.tail.look(&[], true), []);
    }
    collector.look(&disk);
    write(&mut disk, "/l/app.log", 10, 20);
    collector.look(&disk);
    collector.has_sent(&lines(10, 20));
    write(&mut disk, "/l/app.log", 20, 30);
    collector.restart();
    for _ in 0..5_000 {
        collector.tail.pause(paused.clone());
        assert_eq!(collector.tail.look(&[], true), []);
    }
    collector.look(&disk);
    collector.has_sent(&lines(10, 30));
}

/// Scenario: a file is written, rotated, paused, read again, and the process ends, at random.
/// Guarantee: each line once in the end, and none that is read while it is paused.
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
