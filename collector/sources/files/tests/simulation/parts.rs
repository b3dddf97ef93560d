//! Tests a container's two streams in parts, with a kill after every line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use super::super::find::finder::FinderSettings;
use super::book::{Book, Id, line_of};
use super::process::{Process, Publisher};
use super::walk::sources;

/// Lines of the file: the streams' records overlap in all combinations.
fn lines() -> Vec<String> {
    let part = |stream: usize, number: usize, piece: usize, of: usize| {
        let line = line_of(Id { text: 0, stream, number });
        let (from, to) = (line.len() * piece / of, line.len() * (piece + 1) / of);
        let (name, tag) = (["stdout", "stderr"][stream], if piece + 1 == of { "F" } else { "P" });
        format!("2026-01-01T00:00:00.1Z {name} {tag} {}\n", &line[from..to])
    };
    vec![
        part(0, 0, 0, 3),
        part(1, 0, 0, 2),
        part(0, 0, 1, 3),
        part(1, 0, 1, 2),
        part(1, 1, 0, 1),
        part(0, 0, 2, 3),
        part(1, 2, 0, 2),
        part(0, 1, 0, 1),
        part(0, 2, 0, 2),
        part(1, 2, 1, 2),
        part(0, 2, 1, 2),
    ]
}

/// Scenario: lines of standard output and error, in interleaved parts; after each line of the file,
/// everything that can be sent is confirmed and on record; the process is killed and another reads
/// on, with more lines after it. Guarantee: every record is sent once, complete, in its stream's
/// order.
#[test]
fn a_kill_between_any_two_parts_of_two_streams_repeats_and_alters_nothing() {
    let lines = lines();
    for kill_behind in 0..=lines.len() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("logs/shop_cart_uid/app");
        fs::create_dir_all(&place).unwrap();
        let mut file =
            OpenOptions::new().append(true).create(true).open(place.join("0.log")).unwrap();
        let publisher = Publisher::new();
        let mut now = Instant::now();
        for part in [&lines[..kill_behind], &lines[kill_behind..]] {
            let (settings, positions) = (sources(&folder, true), folder.path().join("positions"));
            let mut process =
                Process::start(&settings, &positions, &publisher, FinderSettings::default());
            for line in part {
                file.write_all(line.as_bytes()).unwrap();
                turn(&mut process, &mut now);
            }
            turn(&mut process, &mut now);
            process.keep_positions(now);
            process.kill();
            publisher.with_book(Book::kill);
        }
        publisher.verdict().unwrap_or_else(|why| panic!("killed behind {kill_behind}: {why}"));
        let came = |book: &mut Book| (book.has(0, 0, 3) && book.has(0, 1, 3), book.lines);
        assert_eq!(publisher.with_book(came), (true, 6), "killed behind {kill_behind}");
    }
}

fn turn(process: &mut Process, now: &mut Instant) {
    *now += Duration::from_millis(300);
    process.look(*now);
    while process.read(*now) {}
    *now += Duration::from_millis(300);
    process.send(*now, false);
    process.send(*now, false);
}
