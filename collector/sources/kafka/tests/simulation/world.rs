//! The state that all parts of a simulated world share: its clock, its random choices, what was
//! produced, and what the sink has of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{Completion, DeadLetter, DeliveryOutcome, Insert, Rejection};

use super::cluster::Group;
use millrace_seeds::Random;

/// The only topic.
pub(super) const TOPIC: &str = "otlp_traces";

/// The time of the world's start, in milliseconds since 1970.
const EPOCH_MILLIS: i64 = 1_700_000_000_000;
/// The distance between the first messages of a topic and of the next one.
const TOPIC_MILLIS: i64 = 1_000_000_000;

/// Returns a message's time. It depends only on the message: a second reader gets the same.
pub(super) fn millis(topic: i64, offset: i64) -> i64 {
    EPOCH_MILLIS + topic * TOPIC_MILLIS + offset * 1000
}

/// How long after the topic was recreated a process may still send messages of the old one: a
/// freeze, and a drain.
const TOPIC_SETTLES: Duration = Duration::from_secs(120);

/// A row, as it is written in a message: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) table: u8,
    pub(super) day: u8,
    /// The sink refuses every insert that contains it.
    pub(super) bad: bool,
}

impl Row {
    pub(super) const BYTES: usize = 12;

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.extend([self.table, self.day, u8::from(self.bad), 0]);
    }

    /// Returns the rows of a message or a block; `None` for other bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Vec<Self>> {
        let row = |chunk: &[u8]| {
            let id = u64::from_le_bytes(chunk.get(..8)?.try_into().ok()?);
            Some(Self { id, table: *chunk.get(8)?, day: *chunk.get(9)?, bad: *chunk.get(10)? == 1 })
        };
        if !bytes.len().is_multiple_of(Self::BYTES) {
            return None;
        }
        bytes.chunks(Self::BYTES).map(row).collect()
    }
}

/// A partition as the broker has it. Offsets have gaps, as transactions and compaction leave them.
#[derive(Default)]
pub(super) struct Log {
    pub(super) messages: BTreeMap<i64, Vec<u8>>,
    /// Its beginning: retention has deleted earlier messages.
    pub(super) low: i64,
    /// The offset of the next message.
    pub(super) end: i64,
    /// The group's commit.
    pub(super) committed: Option<(i64, String)>,
    /// The previous commit.
    pub(super) before: Option<(i64, String)>,
    /// The commit is of the previous topic, by a member that didn't know of the new one.
    pub(super) is_stale: bool,
}

/// An insert or a dead letter in flight.
pub(super) struct Flight {
    pub(super) process: usize,
    pub(super) sent: Duration,
    /// The offsets of its batch.
    pub(super) messages: i64,
    /// When the server processes it: more than once, if answers are lost.
    pub(super) lands: Vec<Duration>,
    pub(super) answered: Duration,
    pub(super) what: Cargo,
    /// The server's first answer, if there was one: a stored insert isn't refused when it is
    /// repeated.
    pub(super) refused: Option<bool>,
    /// `None` once its process is gone.
    pub(super) completion: Option<Completion>,
}

pub(super) enum Cargo {
    Rows { token: String, rows: Vec<Row>, _insert: Option<Box<Insert>> },
    Letter(Box<DeadLetter>),
}

/// The sink's content.
#[derive(Default)]
pub(super) struct Stored {
    /// The rows by id, and how often.
    pub(super) rows: BTreeMap<u64, u64>,
    /// When rows were refused, by token. Inserts sent before that, by a process that is gone or
    /// frozen, don't land after it: nothing could distinguish them from refused ones, a known
    /// limit.
    refused: BTreeMap<String, Duration>,
    /// The rows of every token.
    tokens: BTreeMap<String, Vec<Row>>,
    /// The messages in the dead-letter topic, by topic, partition and offset.
    pub(super) letters: BTreeSet<(i64, i32, i64)>,
}

/// The shape of one seed's world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) partitions: i32,
    pub(super) processes: usize,
    pub(super) workers: u16,
    pub(super) eager: bool,
    /// A member that has requested to join again waits until every member has, and its other
    /// requests wait behind that.
    pub(super) parks: bool,
    pub(super) effectively_once: bool,
    pub(super) budget_bytes: u64,
    pub(super) max_rows: usize,
    pub(super) max_age: Duration,
    /// The inserts that a process may have in flight.
    pub(super) window: usize,
    /// Some rows are refused by their table.
    pub(super) has_bad_rows: bool,
    /// Messages of a recreated topic have the times of those that had their offsets before, as if
    /// they were copied back. Not with at-least-once delivery, which may read a topic's messages for
    /// another's and send them once more.
    pub(super) has_same_times: bool,
}

/// How often each event happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events {
    pub(super) evictions: u64,
    pub(super) repeats: u64,
    pub(super) letters: u64,
    pub(super) commits: u64,
    /// Commits that waited behind a request to join.
    pub(super) parked: u64,
    /// Answers with earlier commits.
    pub(super) stale: u64,
    /// Topics deleted and recreated.
    pub(super) remade: u64,
    /// Messages deleted by retention.
    pub(super) deleted: u64,
    /// Inserts that were returned because their table was blocked.
    pub(super) given_back: u64,
    /// Inserts of several messages that were refused.
    pub(super) divided: u64,
    /// Inserts that the sink accepted.
    pub(super) inserts: u64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) shape: Shape,
    pub(super) start: Instant,
    /// The time since the start.
    pub(super) now: Duration,
    /// Whether faults still happen.
    pub(super) faults: bool,
    /// How often the topic was recreated.
    pub(super) topic: i64,
    pub(super) logs: Vec<Log>,
    /// Messages of the topics before it.
    pub(super) gone: Vec<Vec<u8>>,
    pub(super) group: Group,
    /// Until when the broker may answer with earlier commits.
    pub(super) stale_until: Option<Duration>,
    pub(super) stored: Stored,
    pub(super) flights: Vec<Flight>,
    /// What processes that drain have sent: by process and partition, the offset after it.
    pub(super) sent_draining: Vec<(usize, i32, i64)>,
    /// When the topic was last recreated.
    pub(super) remade_at: Option<Duration>,
    /// Until when a table accepts no inserts.
    pub(super) blocked: [Duration; 2],
    /// How long a table accepts no inserts after each of its answers.
    pub(super) stall: Option<Duration>,
    /// Until when a table refuses every row, good or bad: then it is fixed.
    pub(super) refusing: [Duration; 2],
    pub(super) events: Events,
    /// The guarantees that were broken.
    pub(super) broken: Vec<String>,
}

impl World {
    pub(super) fn instant(&self) -> Instant {
        self.start + self.now
    }

    /// Returns true once in `times`, while faults happen.
    pub(super) fn fault_in(&mut self, times: u64) -> bool {
        let drawn = self.random.once_in(times);
        self.faults && drawn
    }

    pub(super) fn log(&mut self, partition: i32) -> Option<&mut Log> {
        self.logs.get_mut(usize::try_from(partition).ok()?)
    }

    /// Returns whether the server refuses these rows now. It accepts again what it has: a table
    /// that begins to refuse between an insert and its repetition is a known limit, not modelled.
    pub(super) fn refuses(&self, token: &str, rows: &[Row]) -> bool {
        if self.stored.tokens.contains_key(token) {
            return false;
        }
        let refusing = |row: &Row| {
            let until = self.refusing.get(usize::from(row.table));
            until.is_some_and(|until| *until > self.now)
        };
        rows.iter().any(|row| row.bad || refusing(row))
    }

    /// Delivers rows to the server under a token, for the first time or again.
    pub(super) fn store(&mut self, token: &str, rows: &[Row]) {
        let known = self.stored.tokens.get(token);
        // Messages of a batch that is cut again may have been deleted: others never appear.
        let inside = |one: &[Row], other: &[Row]| one.iter().all(|row| other.contains(row));
        if known.is_some_and(|known| !inside(known, rows) && !inside(rows, known)) {
            self.broken.push(format!("{token} stands for different rows"));
        }
        let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
        tracing::debug!(token, repeated = known.is_some(), ?ids, "stored");
        if known.is_some() {
            self.events.repeats += 1;
            if self.shape.effectively_once {
                return;
            }
        }
        self.stored.tokens.insert(token.to_owned(), rows.to_vec());
        for row in rows {
            *self.stored.rows.entry(row.id).or_default() += 1;
        }
    }

    pub(super) fn bury(&mut self, topic: i64, partition: i32, offset: i64) {
        self.events.letters += 1;
        self.stored.letters.insert((topic, partition, offset));
    }

    /// Deletes and recreates the topic. Readers stay at their positions, with their fetched
    /// messages: the client library continues in the new one, unless its offsets don't reach as
    /// far.
    pub(super) fn make_topic_again(&mut self) {
        self.topic += 1;
        self.remade_at = Some(self.now);
        self.events.remade += 1;
        for log in &mut self.logs {
            let Log { messages, .. } = std::mem::take(log);
            self.gone.extend(messages.into_values());
        }
        // Its commits are deleted with it.
        self.group.members.values_mut().for_each(|place| place.confirmed.clear());
        tracing::info!(topic = self.topic, now = ?self.now, "the topic is made again");
    }

    /// Deletes the first messages of a partition, possibly all, as retention does.
    pub(super) fn delete_some(&mut self) {
        let partition = self.random.below(self.logs.len() as u64) as usize;
        let log = &self.logs[partition];
        let all = self.random.once_in(3);
        let low =
            if all { log.end as u64 } else { self.random.between(log.low as u64, log.end as u64) };
        let log = &mut self.logs[partition];
        log.low = low as i64;
        let kept = log.messages.split_off(&log.low);
        let deleted = std::mem::replace(&mut log.messages, kept);
        self.events.deleted += deleted.len() as u64;
        self.gone.extend(deleted.into_values());
        tracing::info!(partition, low, now = ?self.now, "retention");
    }

    /// Delivers everything that is due.
    pub(super) fn step(&mut self) {
        let now = self.now;
        for mut flight in std::mem::take(&mut self.flights) {
            let landed = flight.lands.iter().filter(|at| **at <= now).count();
            flight.lands.retain(|at| *at > now);
            for _ in 0..landed {
                match &flight.what {
                    Cargo::Rows { token, rows, .. } => {
                        let earlier = self.stored.refused.get(token);
                        let is_late = earlier.is_some_and(|at| *at > flight.sent);
                        let refused = self.refuses(token, rows) || is_late;
                        if *flight.refused.get_or_insert(refused) {
                            tracing::debug!(token, process = flight.process, "refused");
                            self.events.divided += u64::from(flight.messages > 1);
                            self.stored.refused.insert(token.clone(), now);
                        } else {
                            self.store(token, rows);
                        }
                    }
                    Cargo::Letter(letter) => {
                        let key = letter.key.as_ref().and_then(|key| key[..].try_into().ok());
                        let topic = i64::from_le_bytes(key.unwrap_or_default());
                        self.bury(topic, letter.partition, letter.offset);
                    }
                }
            }
            if self.is_given_back(&flight)
                && let Some(completion) = flight.completion.take()
            {
                self.events.given_back += 1;
                // A sent insert may still be stored, or still land.
                if self.random.once_in(2) {
                    flight.lands.clear();
                }
                if let Cargo::Rows { _insert: insert, .. } = &mut flight.what {
                    *insert = None;
                }
                completion.finish_with(DeliveryOutcome::Abandoned);
            }
            if flight.answered <= now
                && let Some(completion) = flight.completion.take()
            {
                self.stall_after(&flight);
                completion.finish_with(answer(&flight));
                continue;
            }
            if flight.completion.is_some() || !flight.lands.is_empty() {
                self.flights.push(flight);
            }
        }
        self.serve_group();
    }

    /// Opens the circuit breaker of the table that answers.
    fn stall_after(&mut self, flight: &Flight) {
        let Cargo::Rows { rows, .. } = &flight.what else { return };
        let table = rows.first().and_then(|row| self.blocked.get_mut(usize::from(row.table)));
        if let (Some(until), Some(stall)) = (table, self.stall) {
            *until = self.now + stall;
        }
    }

    /// Returns whether the sink returns an insert whose table is blocked before it is answered.
    fn is_given_back(&mut self, flight: &Flight) -> bool {
        let Cargo::Rows { rows, .. } = &flight.what else { return false };
        let until = rows.first().and_then(|row| self.blocked.get(usize::from(row.table)));
        until.is_some_and(|until| *until > self.now) && self.fault_in(10)
    }

    /// Checks a process that has drained: if it reports that everything is safe, all of it must be
    /// committed.
    pub(super) fn hold_to_its_word(&mut self, process: usize, is_safe: bool) {
        let (own, others) =
            std::mem::take(&mut self.sent_draining).into_iter().partition(|sent| sent.0 == process);
        self.sent_draining = others;
        let own: Vec<(usize, i32, i64)> = own;
        let now = self.now;
        let is_settled = self.remade_at.is_none_or(|at| now > at + TOPIC_SETTLES);
        for (_, partition, next) in own.into_iter().filter(|_| is_safe && is_settled) {
            let log = self.log(partition);
            let committed = log.and_then(|log| log.committed.as_ref().map(|(offset, _)| *offset));
            if committed.is_none_or(|offset| offset < next) {
                let text = format!("{process} says that {next} of {partition} is committed");
                self.broken.push(text);
            }
        }
    }

    /// Removes a process: what it had sent may still land, and its answers are lost.
    pub(super) fn forget_process(&mut self, process: usize) {
        self.sent_draining.retain(|sent| sent.0 != process);
        for mut flight in std::mem::take(&mut self.flights) {
            if flight.process == process {
                flight.completion = None;
                if let Cargo::Rows { _insert: insert, .. } = &mut flight.what {
                    *insert = None;
                }
                if self.random.once_in(2) {
                    continue;
                }
            }
            self.flights.push(flight);
        }
    }

    /// Checks whether every message of a partition from `from` up to `to` is stored or
    /// dead-lettered. Returns the first that isn't.
    pub(super) fn missing(&self, partition: i32, from: i64, to: i64) -> Option<String> {
        let log = self.logs.get(usize::try_from(partition).ok()?)?;
        let is_there = |offset: i64, payload: &[u8]| {
            let lettered = self.stored.letters.contains(&(self.topic, partition, offset));
            let stored = |row: &Row| self.stored.rows.contains_key(&row.id);
            lettered || Row::read(payload).is_some_and(|rows| rows.iter().all(stored))
        };
        let missing = log.messages.range(from..to).find(|(at, bytes)| !is_there(**at, bytes));
        missing.map(|(offset, _)| format!("message {offset} of partition {partition}"))
    }
}

fn answer(flight: &Flight) -> DeliveryOutcome {
    match flight.refused {
        Some(true) => DeliveryOutcome::Rejected(Rejection {
            reason: "bad_row",
            detail: "simulated".to_owned(),
        }),
        Some(false) | None => DeliveryOutcome::Stored,
    }
}
