//! An eye on the gateways' group while faults happen: what is committed, whether a commit ever
//! went back, how long a partition stood still. It asks the broker directly, past every proxy.
//!
//! Two things are told apart. A commit went back if Kafka's topic of commits says so (`commits`).
//! An answer about what is committed may lie below one before without that: it is old, and comes
//! forward again by itself; one that stays back breaks the promise too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::wait;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::commits::{Commit, Commits, Falls};

/// Between two looks; short against the time between two commits.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A broker that doesn't answer in this is down, which is a fault's business.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest that one look reads commits: they are some dozens a second.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// An answer that stays below an earlier one for this long isn't just old. Gateways commit every
/// second, and may need all of the time in which they have to be ready again.
const STALE_LIMIT: Duration = Duration::from_secs(60);

/// What was seen since the last [`Watch::reset`].
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Commits that named a lower offset than one before, and answers that stayed below one.
    pub went_back: Vec<String>,
    /// Answers that lay below one before: how many, and the longest until they came forward again.
    pub stale: (u32, Duration),
    /// The longest time that a partition with uncommitted messages had no new commit.
    pub longest_stand: Duration,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    /// By partition.
    last: Vec<Last>,
    falls: Falls,
}

/// What was answered last about a partition.
#[derive(Debug, Clone, Copy)]
struct Last {
    committed: i64,
    /// When that changed or nothing was left to do.
    since: Instant,
    /// The most that was ever answered.
    most: i64,
    /// Since when less than that is answered.
    below: Option<Instant>,
}

/// The eye. It closes when this is dropped.
#[derive(Debug)]
pub struct Watch {
    asking: Group,
    state: Arc<Mutex<State>>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look.
    ///
    /// # Errors
    /// When no client or thread can be had.
    pub fn start(bootstrap: &str, name: &str, topic: &str, partitions: i32) -> Result<Self> {
        let group = || Group::new(bootstrap, name, topic, partitions);
        let (asking, looking) = (group()?, group()?);
        let mut commits = Commits::new(bootstrap, name, topic)?;
        let state = Arc::new(Mutex::new(State::default()));
        let closing = Arc::new(AtomicBool::new(false));
        let (noted, closes) = (Arc::clone(&state), Arc::clone(&closing));
        let body = move || {
            while !closes.load(Ordering::Acquire) {
                if let (Ok(committed), Ok(ends)) = (looking.committed(), looking.ends()) {
                    lock(&noted).note(&committed, &ends, Instant::now());
                }
                let read = commits.read(READ_LIMIT);
                lock(&noted).hold(read);
                thread::sleep(LOOK_EVERY);
            }
        };
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(body)?;
        Ok(Self { asking, state, closing, thread: Some(thread) })
    }

    /// Forgets what was seen; what is committed stays known.
    pub fn reset(&self) {
        let mut state = lock(&self.state);
        state.seen = Seen::default();
        let now = Instant::now();
        state.last.iter_mut().for_each(|last| last.since = now);
    }

    /// What was seen.
    pub fn seen(&self) -> Seen {
        lock(&self.state).seen.clone()
    }

    /// Where the partitions end now.
    ///
    /// # Errors
    /// When the broker doesn't answer.
    pub fn ends(&self) -> Result<Vec<i64>> {
        self.asking.ends()
    }

    /// Waits until the group has committed up to `ends`.
    ///
    /// # Errors
    /// When it hasn't within `limit`.
    pub fn committed_up_to(&self, ends: &[i64], limit: Duration) -> Result<()> {
        wait::until("the lag to be gone", limit, || {
            let committed = self.asking.committed()?;
            let behind: i64 =
                ends.iter().zip(&committed).map(|(end, done)| (end - done).max(0)).sum();
            if behind > 0 {
                bail!("{behind} messages are not committed");
            }
            Ok(())
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    /// Takes note of answers.
    fn note(&mut self, committed: &[i64], ends: &[i64], now: Instant) {
        if self.last.len() != committed.len() {
            let last = |committed| Last { committed, since: now, most: committed, below: None };
            self.last = committed.iter().copied().map(last).collect();
        }
        let Self { seen, last, .. } = self;
        for (partition, ((offset, end), last)) in committed.iter().zip(ends).zip(last).enumerate() {
            if *offset < last.most {
                if last.below.is_none() {
                    seen.stale.0 += 1;
                }
                let since = *last.below.get_or_insert(now);
                if now - since > STALE_LIMIT {
                    let most = last.most;
                    seen.went_back.push(format!(
                        "partition {partition}: {most} was committed, and then for long {offset}"
                    ));
                    (last.most, last.below) = (*offset, None);
                }
            } else {
                if let Some(since) = last.below.take() {
                    seen.stale.1 = seen.stale.1.max(now - since);
                }
                last.most = *offset;
            }
            if *offset != last.committed || offset >= end {
                last.since = now;
            }
            last.committed = *offset;
            seen.longest_stand = seen.longest_stand.max(now - last.since);
        }
    }

    /// Holds commits as they were written against the promise.
    fn hold(&mut self, commits: Result<Vec<Commit>>) {
        match commits {
            Ok(commits) => self.seen.went_back.extend(self.falls.among(&commits)),
            Err(error) => self.seen.went_back.push(format!("{error:#}")),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Each note is whole even if a holder panicked.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that asks about a group without being in it.
struct Group {
    consumer: BaseConsumer,
    topic: String,
    partitions: i32,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Group {
    fn new(bootstrap: &str, group: &str, topic: &str, partitions: i32) -> Result<Self> {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", group)
            .set("reconnect.backoff.max.ms", "500")
            .create()?;
        Ok(Self { consumer, topic: topic.to_owned(), partitions })
    }

    /// By partition; 0 where nothing was committed yet.
    fn committed(&self) -> Result<Vec<i64>> {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.topic, 0, self.partitions - 1);
        let answer = self.consumer.committed_offsets(list, TIMEOUT);
        let answer = answer.context("the broker doesn't say what is committed")?;
        let mut offsets = vec![0; usize::try_from(self.partitions)?];
        for element in answer.elements() {
            element.error().context("the broker doesn't say what is committed")?;
            if let Offset::Offset(offset) = element.offset() {
                offsets[usize::try_from(element.partition())?] = offset;
            }
        }
        Ok(offsets)
    }

    fn ends(&self) -> Result<Vec<i64>> {
        let end = |partition| self.consumer.fetch_watermarks(&self.topic, partition, TIMEOUT);
        let ends = (0..self.partitions).map(|partition| end(partition).map(|(_, high)| high));
        ends.collect::<Result<_, _>>().context("the broker doesn't say where partitions end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Scenario: answers that grow; one that falls and comes forward again after three seconds; one
    /// that falls and stays. Guarantee: the first is counted as old, only the second is named.
    #[test]
    fn an_old_answer_is_counted_and_one_that_stays_back_is_named() {
        let (mut state, start) = (State::default(), Instant::now());
        state.note(&[5, 7], &[9, 9], start);
        state.note(&[3, 2], &[9, 9], start + SECOND);
        state.note(&[4, 3], &[9, 9], start + 2 * SECOND);
        state.note(&[5, 4], &[9, 9], start + 4 * SECOND);
        assert_eq!(state.seen.stale, (2, 3 * SECOND));
        assert!(state.seen.went_back.is_empty());
        state.note(&[6, 4], &[9, 9], start + STALE_LIMIT + 2 * SECOND);
        let named = "partition 1: 7 was committed, and then for long 4";
        assert_eq!(state.seen.went_back, [named]);
    }

    /// Scenario: a commit that is written below the one before; a topic of commits that was cut.
    /// Guarantee: both are named.
    #[test]
    fn a_commit_that_goes_back_is_seen() {
        let mut state = State::default();
        let commit = |offset| Commit { partition: 2, offset };
        state.hold(Ok(vec![commit(3), commit(4)]));
        state.hold(Ok(vec![commit(2)]));
        state.hold(Err(anyhow::anyhow!("cut")));
        assert_eq!(state.seen.went_back, ["partition 2: 4 was committed, then 2", "cut"]);
    }

    /// Scenario: a partition that has work and stands, one that has none. Guarantee: only standing
    /// with work left counts.
    #[test]
    fn standing_still_with_work_left_is_seen() {
        let start = Instant::now();
        let later = start + Duration::from_secs(40);
        let (mut busy, mut idle) = (State::default(), State::default());
        busy.note(&[6], &[9], start);
        busy.note(&[6], &[9], later);
        assert_eq!(busy.seen.longest_stand, later - start);
        idle.note(&[7], &[7], start);
        idle.note(&[7], &[7], later);
        assert_eq!(idle.seen.longest_stand, Duration::ZERO);
    }
}
