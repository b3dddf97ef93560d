//! Batches with rows that a table refuses, in a world in which nothing else fails: each kind of
//! batch, while the table's circuit breaker opens after every answer and while it doesn't.

use std::collections::BTreeSet;
use std::time::Duration;

use super::driver::Driver;
use super::world::Row;

/// How long the circuit breaker stays open after each answer.
const STALL: Duration = Duration::from_secs(1);
/// The simulated time in which everything must be committed: about 100 answers with a stall each.
const LIMIT: Duration = Duration::from_secs(150);
/// The worlds of each case: they differ in what takes how long.
const SEEDS: u64 = 6;

/// A message: its rows by table and day, and whether each is bad. No rows: it can't be decoded.
type Message = &'static [(u8, u8, bool)];

const GOOD: Message = &[(0, 0, false), (0, 1, false), (1, 0, false), (1, 1, false)];
const BAD: Message = &[(0, 0, true), (1, 1, false)];
const UNREADABLE: Message = &[];

/// A log of `count` good messages, but for some at these offsets.
struct Case {
    name: &'static str,
    count: i64,
    others: &'static [(i64, Message)],
}

const CASES: [Case; 10] = [
    Case { name: "no bad row", count: 40, others: &[] },
    Case { name: "one bad row", count: 40, others: &[(17, BAD)] },
    Case { name: "one message", count: 1, others: &[(0, BAD)] },
    Case { name: "two messages", count: 2, others: &[(1, BAD)] },
    Case { name: "the ends of a batch", count: 40, others: &[(0, BAD), (39, BAD)] },
    Case {
        name: "two tables and two days",
        count: 40,
        others: &[(3, BAD), (20, &[(1, 0, true), (0, 1, true), (0, 0, false)])],
    },
    Case {
        name: "all rows of a message in all parts",
        count: 40,
        others: &[(30, &[(0, 0, true), (0, 1, true), (1, 0, true), (1, 1, true)])],
    },
    Case {
        name: "an unreadable message among them",
        count: 40,
        others: &[(5, UNREADABLE), (6, BAD), (7, UNREADABLE)],
    },
    Case { name: "a batch of three levels", count: 300, others: &[(299, BAD)] },
    Case { name: "neighbours", count: 40, others: &[(8, BAD), (9, BAD), (10, BAD), (11, BAD)] },
];

impl Case {
    fn message(&self, offset: i64) -> Message {
        self.others.iter().find(|(at, _)| *at == offset).map_or(GOOD, |(_, message)| message)
    }

    fn rows(&self, offset: i64) -> Vec<Row> {
        let rows = (0_u64..).zip(self.message(offset));
        rows.map(|(number, (table, day, bad))| Row {
            id: offset as u64 * 100 + number,
            table: *table,
            day: *day,
            bad: *bad,
        })
        .collect()
    }

    fn payload(&self, offset: i64) -> Vec<u8> {
        let rows = self.rows(offset);
        if rows.is_empty() {
            return vec![0xff; 5];
        }
        let mut payload = Vec::new();
        rows.iter().for_each(|row| row.write(&mut payload));
        payload
    }

    /// Returns the offsets of the messages that must become dead letters.
    fn letters(&self) -> BTreeSet<i64> {
        let is_bad = |message: &Message| message.is_empty() || message.iter().any(|row| row.2);
        (0..self.count).filter(|offset| is_bad(&self.message(*offset))).collect()
    }
}

/// Runs one world of a case until everything is committed. Returns the number of its inserts.
fn run(case: &Case, seed: u64, stall: Option<Duration>, once: bool) -> Result<u64, String> {
    let mut driver = driver(seed, once);
    {
        let mut world = driver.world();
        world.stall = stall;
        let log = &mut world.logs[0];
        log.messages = (0..case.count).map(|at| (at, case.payload(at))).collect();
        log.end = case.count;
    }
    committed(&mut driver, case.count)?;
    let world = driver.world();
    for row in (0..case.count).flat_map(|offset| case.rows(offset)) {
        let times = world.stored.rows.get(&row.id).copied().unwrap_or(0);
        let least = u64::from(!case.letters().contains(&(row.id as i64 / 100)));
        if !(least..=1).contains(&times) {
            return Err(format!("row {} is stored {times} times", row.id));
        }
    }
    let letters: BTreeSet<i64> = world.stored.letters.iter().map(|letter| letter.2).collect();
    if letters != case.letters() || world.events.letters != letters.len() as u64 {
        return Err(format!("{} dead letters of {letters:?}", world.events.letters));
    }
    Ok(world.events.inserts)
}

/// Returns a world of one worker and partition in which nothing fails.
fn driver(seed: u64, once: bool) -> Driver {
    let mut driver = Driver::with(seed, |shape| {
        (shape.partitions, shape.processes, shape.workers, shape.parks) = (1, 1, 1, false);
        (shape.budget_bytes, shape.window, shape.effectively_once) = (96 << 20, 8, once);
        (shape.max_rows, shape.max_age) = (2_000, Duration::from_millis(500));
    });
    driver.to_produce = 0;
    driver.world().faults = false;
    driver
}

fn committed(driver: &mut Driver, end: i64) -> Result<(), String> {
    driver.until_within(LIMIT, "everything is committed", |driver| {
        let world = driver.world();
        world.logs[0].committed.as_ref().is_some_and(|(offset, _)| *offset == end)
    })
}

/// Scenario: each kind of batch with refused rows, with both kinds of delivery; the table accepts
/// nothing for a second after each of its answers, or it always does. Guarantee: each good row is
/// stored once, each bad message is one dead letter written once, everything is committed in
/// bounded time, and rewinds multiply the inserts by less than two.
#[test]
fn refused_rows_are_found_however_often_their_table_stalls() {
    let mut failed = Vec::new();
    for case in &CASES {
        for (seed, once) in (0..SEEDS).flat_map(|seed| [(seed, true), (seed, false)]) {
            let calm = run(case, seed, None, once);
            let stalled = run(case, seed, Some(STALL), once);
            let outcome = calm.and_then(|calm| Ok((calm, stalled?)));
            match outcome {
                Ok((calm, stalled)) if stalled <= 2 * calm => {}
                other => failed.push(format!("{}, seed {seed}, once {once}: {other:?}", case.name)),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Scenario: twenty parts of a batch are refused for a row each, and one is stored. Guarantee: each
/// message becomes one dead letter: sixteen parts are named in commits, and of the others it is
/// unknown whether they are stored. No row is stored twice.
#[test]
fn messages_of_parts_that_no_commit_names_become_dead_letters() {
    for (seed, once) in (0..SEEDS).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut driver = driver(seed, once);
        {
            let mut world = driver.world();
            let log = &mut world.logs[0];
            for offset in 0..25_u8 {
                let (day, bad) = if offset < 20 { (offset, true) } else { (50, false) };
                let mut payload = Vec::new();
                Row { id: offset.into(), table: 0, day, bad }.write(&mut payload);
                log.messages.insert(offset.into(), payload);
            }
            log.end = 25;
        }
        committed(&mut driver, 25).unwrap();
        let world = driver.world();
        assert_eq!((world.stored.letters.len(), world.events.letters), (25, 25));
        let stored: Vec<_> = world.stored.rows.iter().map(|(id, times)| (*id, *times)).collect();
        assert_eq!(stored, [(20, 1), (21, 1), (22, 1), (23, 1), (24, 1)]);
    }
}
