//! What all parts of a simulated world share: its clock, its chances, what was produced, and what
//! the sink has of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{Completion, DeadLetter, Insert, Outcome, Rejection};

use super::cluster::Group;
use crate::by_seed::Random;

/// The one topic there is.
pub(super) const TOPIC: &str = "otlp_traces";

/// Time of the world's start, in milliseconds since 1970.
const EPOCH_MILLIS: i64 = 1_700_000_000_000;
/// The first messages of a topic and of the next one are this far apart.
const TOPIC_MILLIS: i64 = 1_000_000_000;

/// A message's time. Decided by the message alone: a second reader sees the same.
pub(super) fn millis(topic: i64, offset: i64) -> i64 {
    EPOCH_MILLIS + topic * TOPIC_MILLIS + offset * 1000
}

/// The topic that a message with this time is of.
pub(super) fn topic_at(millis: i64) -> i64 {
    (millis - EPOCH_MILLIS) / TOPIC_MILLIS
}

/// How long after the topic was made again somebody may still send what was read of the old one: a
/// freeze, and a drain.
const TOPIC_SETTLES: Duration = Duration::from_secs(120);

/// A row, as it is written in a message: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) table: u8,
    pub(super) day: u8,
    /// The sink refuses every insert that holds it.
    pub(super) bad: bool,
}

impl Row {
    pub(super) const BYTES: usize = 12;

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.extend([self.table, self.day, u8::from(self.bad), 0]);
    }

    /// The rows of a message or a block; `None` for what isn't one.
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
    /// Where it begins: retention has deleted what lay before.
    pub(super) low: i64,
    /// The offset of the next message.
    pub(super) end: i64,
    /// The group's commit.
    pub(super) committed: Option<(i64, String)>,
    /// The one before.
    pub(super) before: Option<(i64, String)>,
    /// The commit is of the topic that was here before, by somebody who didn't know.
    pub(super) is_stale: bool,
}

/// An insert, or a letter, on its way.
pub(super) struct Flight {
    pub(super) process: usize,
    pub(super) sent: Duration,
    /// When the server works on it: more than once, if answers are lost on the way.
    pub(super) lands: Vec<Duration>,
    pub(super) answered: Duration,
    pub(super) what: Cargo,
    /// What the server said when it was there first, if it was: one that was stored isn't refused
    /// when it comes again.
    pub(super) refused: Option<bool>,
    /// None once its process is gone.
    pub(super) completion: Option<Completion>,
}

pub(super) enum Cargo {
    Rows { token: String, rows: Vec<Row>, _insert: Option<Box<Insert>> },
    Letter(Box<DeadLetter>),
}

/// What the sink has.
#[derive(Default)]
pub(super) struct Stored {
    /// Rows by id, and how often.
    pub(super) rows: BTreeMap<u64, u64>,
    /// When rows were refused, by token. What was sent before that, by somebody who is gone or
    /// frozen, doesn't land after it: nothing could tell it from what was refused, a known limit.
    refused: BTreeMap<String, Duration>,
    /// What every token stood for.
    tokens: BTreeMap<String, Vec<Row>>,
    /// Messages in the dead-letter topic, by topic, partition and offset.
    pub(super) letters: BTreeSet<(i64, i32, i64)>,
}

/// How one seed's world is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) partitions: i32,
    pub(super) processes: usize,
    pub(super) workers: u16,
    pub(super) eager: bool,
    /// Whoever has asked to join again waits until every member has asked, and what it asks for
    /// meanwhile waits behind that.
    pub(super) parks: bool,
    pub(super) effectively_once: bool,
    pub(super) budget_bytes: u64,
    pub(super) max_rows: usize,
    pub(super) max_age: Duration,
    /// Inserts that a process may have in flight.
    pub(super) window: usize,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events {
    pub(super) evictions: u64,
    pub(super) repeats: u64,
    pub(super) letters: u64,
    pub(super) commits: u64,
    /// Commits that waited behind a request to join.
    pub(super) parked: u64,
    /// Answers with what was committed before.
    pub(super) stale: u64,
    /// Topics deleted and made again.
    pub(super) remade: u64,
    /// Messages deleted by retention.
    pub(super) deleted: u64,
    /// Inserts that were given back because their table was blocked.
    pub(super) given_back: u64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) shape: Shape,
    pub(super) start: Instant,
    /// Since the start.
    pub(super) now: Duration,
    /// Whether anything still goes wrong.
    pub(super) faults: bool,
    /// How often the topic was made again.
    pub(super) topic: i64,
    pub(super) logs: Vec<Log>,
    /// Messages of the topics before it.
    pub(super) gone: Vec<Vec<u8>>,
    pub(super) group: Group,
    /// Until when the broker may answer with what was committed before.
    pub(super) stale_until: Option<Duration>,
    pub(super) stored: Stored,
    pub(super) flights: Vec<Flight>,
    /// What was sent by processes that drain: by process and partition, the offset after it.
    pub(super) sent_draining: Vec<(usize, i32, i64)>,
    /// When the topic was last made again.
    pub(super) remade_at: Option<Duration>,
    /// Until when a table takes no inserts.
    pub(super) blocked: [Duration; 2],
    /// Until when a table refuses every row, good or bad: then it is mended.
    pub(super) refusing: [Duration; 2],
    pub(super) events: Events,
    /// Promises that were broken.
    pub(super) broken: Vec<String>,
}

impl World {
    pub(super) fn instant(&self) -> Instant {
        self.start + self.now
    }

    /// True once in `times`, while things go wrong.
    pub(super) fn fault_in(&mut self, times: u64) -> bool {
        let drawn = self.random.once_in(times);
        self.faults && drawn
    }

    pub(super) fn log(&mut self, partition: i32) -> Option<&mut Log> {
        self.logs.get_mut(usize::try_from(partition).ok()?)
    }

    /// Whether the server refuses these rows now. It takes again what it has: that a table begins
    /// to refuse between an insert and its repetition is a known limit, not modelled.
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

    /// Rows reach the server under a token, for the first time or again.
    pub(super) fn store(&mut self, token: &str, rows: &[Row]) {
        let known = self.stored.tokens.get(token);
        // Of what is cut again, messages may have been deleted: never others come.
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

    /// The topic is deleted and made again. Readers stay where they were, with what they fetched:
    /// the client library goes on in the new one, unless its offsets don't reach as far.
    pub(super) fn make_topic_again(&mut self) {
        self.topic += 1;
        self.remade_at = Some(self.now);
        self.events.remade += 1;
        for log in &mut self.logs {
            let Log { messages, .. } = std::mem::take(log);
            self.gone.extend(messages.into_values());
        }
        // What was committed is deleted with it.
        self.group.members.values_mut().for_each(|place| place.confirmed.clear());
        tracing::info!(topic = self.topic, now = ?self.now, "the topic is made again");
    }

    /// Retention deletes the first messages of a partition, perhaps all.
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

    /// Everything whose time has come.
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
                            self.stored.refused.insert(token.clone(), now);
                        } else {
                            self.store(token, rows);
                        }
                    }
                    Cargo::Letter(letter) => {
                        let topic = topic_at(letter.timestamp_millis.unwrap_or(0));
                        self.bury(topic, letter.partition, letter.offset);
                    }
                }
            }
            if self.is_given_back(&flight)
                && let Some(completion) = flight.completion.take()
            {
                self.events.given_back += 1;
                // What was sent may be stored all the same, or still land.
                if self.random.once_in(2) {
                    flight.lands.clear();
                }
                if let Cargo::Rows { _insert: insert, .. } = &mut flight.what {
                    *insert = None;
                }
                completion.finish(Outcome::Abandoned);
            }
            if flight.answered <= now
                && let Some(completion) = flight.completion.take()
            {
                completion.finish(answer(&flight));
                continue;
            }
            if flight.completion.is_some() || !flight.lands.is_empty() {
                self.flights.push(flight);
            }
        }
        self.serve_group();
    }

    /// Whether the sink gives an insert back, whose table is blocked, before it is answered.
    fn is_given_back(&mut self, flight: &Flight) -> bool {
        let Cargo::Rows { rows, .. } = &flight.what else { return false };
        let until = rows.first().and_then(|row| self.blocked.get(usize::from(row.table)));
        until.is_some_and(|until| *until > self.now) && self.fault_in(10)
    }

    /// A process has drained. If it says that everything is safe, then it is committed.
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

    /// The process is gone: what it had sent may land all the same, nobody hears of it.
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

    /// Whether every message of a partition from `from` up to `to` is stored or dead-lettered.
    /// Names the first that isn't.
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

fn answer(flight: &Flight) -> Outcome {
    match flight.refused {
        Some(true) => {
            Outcome::Rejected(Rejection { reason: "bad_row", detail: "simulated".to_owned() })
        }
        Some(false) | None => Outcome::Stored,
    }
}
