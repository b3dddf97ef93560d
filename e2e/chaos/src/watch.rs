//! An eye on the gateways' group while faults happen: what is committed, whether a commit ever
//! went back, how long a partition stood still. It asks the broker directly, past every proxy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::wait;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// Between two looks; short against the time between two commits.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A broker that doesn't answer in this is down, which is a fault's business.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What was seen since the last [`Watch::reset`].
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Commits that named a lower offset than one before.
    pub went_back: Vec<String>,
    /// The longest time that a partition with uncommitted messages had no new commit.
    pub longest_stand: Duration,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    /// By partition: what was committed last, and when that changed or nothing was left.
    last: Vec<(i64, Instant)>,
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
    pub fn start(bootstrap: &str, group: &str, topic: &str, partitions: i32) -> Result<Self> {
        let group = || Group::new(bootstrap, group, topic, partitions);
        let (asking, looking) = (group()?, group()?);
        let state = Arc::new(Mutex::new(State::default()));
        let closing = Arc::new(AtomicBool::new(false));
        let (noted, closes) = (Arc::clone(&state), Arc::clone(&closing));
        let body = move || {
            while !closes.load(Ordering::Acquire) {
                if let (Ok(committed), Ok(ends)) = (looking.committed(), looking.ends()) {
                    lock(&noted).note(&committed, &ends);
                }
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
        state.last.iter_mut().for_each(|(_, since)| *since = now);
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
    fn note(&mut self, committed: &[i64], ends: &[i64]) {
        let now = Instant::now();
        if self.last.len() != committed.len() {
            self.last = committed.iter().map(|offset| (*offset, now)).collect();
        }
        for (partition, (offset, end)) in committed.iter().zip(ends).enumerate() {
            let (last, since) = &mut self.last[partition];
            if offset < last {
                let what = format!("partition {partition}: {last} was committed, then {offset}");
                self.seen.went_back.push(what);
            }
            if offset != last || offset >= end {
                *since = now;
            }
            *last = *offset;
            self.seen.longest_stand = self.seen.longest_stand.max(now - *since);
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

    /// Scenario: commits that grow, one that falls, a partition that stands still and one that has
    /// nothing to do. Guarantee: the fall is named; only standing with work left counts.
    #[test]
    fn a_commit_that_goes_back_is_seen_and_so_is_standing_still() {
        let mut state = State::default();
        state.note(&[5, 7, 3], &[9, 7, 9]);
        state.note(&[6, 7, 2], &[9, 7, 9]);
        assert_eq!(state.seen.went_back, ["partition 2: 3 was committed, then 2"]);
        let before = Instant::now() - Duration::from_secs(40);
        state.last[0].1 = before;
        state.last[1].1 = before;
        state.note(&[6, 7, 2], &[9, 7, 9]);
        assert!(state.seen.longest_stand >= Duration::from_secs(40));
        let mut idle = State { last: vec![(7, before)], seen: Seen::default() };
        idle.note(&[7], &[7]);
        assert!(idle.seen.longest_stand < Duration::from_secs(1));
    }
}
