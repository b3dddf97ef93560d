//! Tests random rotations, compressions and restarts.

use std::collections::HashSet;

use crate::rotation::rig::{Collector, Disk};
use crate::rotation::{app, lines, write};

/// Knuth's MMIX generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const SEEDS: u64 = 200;
const ACTIONS: usize = 60;

fn walk(seed: u64) -> Result<(), String> {
    let mut chance = Chance(seed);
    let (mut disk, mut next) = (Disk::default(), 0);
    let mut old: Vec<String> = Vec::new();
    write(&mut disk, "/l/app.log", 0, 5);
    next += 5;
    let mut collector = Collector::start(app, false);
    collector.looks(&disk, 2);
    collector.keep();
    let mut is_there = true;
    let mut listed = None;
    let mut log = Vec::new();
    for number in 0..ACTIONS {
        let action = chance.below(16);
        log.push(action);
        match action {
            0..4 => {
                write(&mut disk, "/l/app.log", next, next + 3);
                (next, is_there) = (next + 3, true);
            }
            4 if is_there => {
                let to = format!("/l/app.log.at-{number}");
                disk.rename("/l/app.log", &to);
                old.push(to);
                is_there = false;
            }
            5 if is_there => {
                let to = format!("/l/app.log.at-{number}");
                disk.copy("/l/app.log", &to);
                old.push(to);
                disk.truncate("/l/app.log");
                write(&mut disk, "/l/app.log", next, next + 3);
                next += 3;
            }
            6 | 7 => {
                let at = chance.below(old.len().max(1) as u64) as usize;
                if let Some(path) = old.get_mut(at) {
                    pack(&mut disk, path);
                }
            }
            8 => {
                collector.tickets.clear();
                collector.kill();
                collector.looks(&disk, 1);
                collector.keep();
            }
            9 => collector.acknowledges = !collector.acknowledges,
            10 => {
                for ticket in std::mem::take(&mut collector.tickets) {
                    collector.tail.acknowledge(ticket);
                }
                collector.looks(&disk, 1);
            }
            11 => collector.keep(),
            // A scan that lists names now and reaches their files some actions later.
            12 => listed = Some(disk.names.keys().cloned().collect::<Vec<_>>()),
            13 => {
                if let Some(listed) = listed.take() {
                    collector.look_long(&listed, &disk);
                }
            }
            14 if is_there => {
                for _ in 0..chance.below(4) {
                    shift(&mut disk, &mut old);
                    write(&mut disk, "/l/app.log", next, next + 3);
                    next += 3;
                }
            }
            _ => collector.looks(&disk, 1),
        }
    }
    judge(&disk, &mut collector, next).map_err(|why| format!("seed {seed}: {why}; {log:?}"))
}

fn pack(disk: &mut Disk, path: &mut String) {
    if !path.ends_with("gz") {
        disk.pack(path);
        disk.delete(path);
        path.push_str(".gz");
    }
}

/// Increments each rotated file's number, and compresses all but the newest.
fn shift(disk: &mut Disk, old: &mut Vec<String>) {
    for path in &mut *old {
        let ending = if path.ends_with("gz") { ".gz" } else { "" };
        let to = format!("{}.1{ending}", path.trim_end_matches(".gz"));
        disk.rename(path, &to);
        *path = to;
        pack(disk, path);
    }
    disk.rename("/l/app.log", "/l/app.log.1");
    old.push("/l/app.log.1".to_owned());
}

/// Lets everything arrive, then restarts.
fn judge(disk: &Disk, collector: &mut Collector, next: usize) -> Result<(), String> {
    collector.acknowledges = true;
    for ticket in std::mem::take(&mut collector.tickets) {
        collector.tail.acknowledge(ticket);
    }
    collector.looks(disk, 30);
    let came: HashSet<String> = collector.lines.iter().cloned().collect();
    let missing: Vec<_> = lines(0, next).into_iter().filter(|line| !came.contains(line)).collect();
    if !missing.is_empty() {
        return Err(format!("{} missing, {:?}", missing.len(), missing[0]));
    }
    let before = collector.lines.len();
    collector.restart();
    collector.looks(disk, 30);
    if collector.lines.len() != before {
        let again = collector.lines.len() - before;
        return Err(format!("{again} again"));
    }
    Ok(())
}

/// Scenario: a file is written, renamed, copied and truncated, compressed, and its rotated files
/// are renamed, also during a scan; acknowledgements are late; the process is killed, long after
/// positions were stored. Guarantee: each line is sent, and once all are acknowledged a restart
/// repeats none. Slow: 200 seeds of 60 actions run.
#[test]
fn no_chance_loses_a_line_or_repeats_what_is_on_record() {
    let failed: Vec<String> = (0..SEEDS).filter_map(|seed| walk(seed).err()).collect();
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join("\n"));
}
