//! From a line's writing to its arrival at a reader of committed records.
//!
//! A message's time is that of its first line; the others were written evenly until it was sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use millrace_e2e::wait;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::job::Job;
use crate::world::broker::PARTITIONS;

/// Lines of each message that are looked at: the first, the last, and others between.
const SAMPLES: u64 = 20;
/// What is sent in the first second doesn't count: connections are made.
const WARM_MILLIS: i64 = 1_000;
/// How soon the reader notices its end.
const POLL: Duration = Duration::from_millis(50);
/// From the producer's end until all has arrived.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);

/// Reads a topic as it grows.
pub(super) struct Latencies {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    ends: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    messages: u64,
    first_millis: Option<i64>,
    millis: Vec<f64>,
}

impl Latencies {
    /// Begins to read the topic of `job`.
    pub(super) fn follow(job: &Job) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &job.bootstrap)
            .set("group.id", "once-reader")
            .set("isolation.level", "read_committed")
            .create()?;
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(&job.topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let seen = Arc::new(Seen::default());
        let (reading, span_millis) = (Arc::clone(&seen), job.request_millis);
        let read = move || {
            while !reading.ends.load(Ordering::Acquire) {
                if let Some(Ok(message)) = consumer.poll(POLL)
                    && let Some(millis) = message.timestamp().to_millis()
                {
                    reading.add(millis, span_millis);
                }
            }
        };
        let thread = thread::Builder::new().name("reader".to_owned()).spawn(read)?;
        Ok(Self { seen, thread: Some(thread) })
    }

    /// Waits for the `messages` messages: the median and the 99th of 100, in milliseconds.
    pub(super) fn finish(self, messages: u64) -> Result<(f64, f64)> {
        let arrived = || {
            let count = self.seen.lock().messages;
            ensure!(count >= messages, "{count} of {messages} messages arrived");
            Ok(())
        };
        wait::until("the messages to arrive", ARRIVAL_LIMIT, arrived)?;
        let mut millis = std::mem::take(&mut self.seen.lock().millis);
        millis.sort_by(f64::total_cmp);
        let at = |part: f64| millis.get((millis.len() as f64 * part) as usize).copied();
        at(0.5).zip(at(0.99)).context("nothing was sent after the first second")
    }
}

impl Drop for Latencies {
    fn drop(&mut self) {
        self.seen.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, first_line_millis: i64, span_millis: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = now.as_secs_f64() * 1e3 - first_line_millis as f64;
        let mut state = self.lock();
        state.messages += 1;
        let first = *state.first_millis.get_or_insert(first_line_millis);
        if first_line_millis - first >= WARM_MILLIS {
            let step = span_millis as f64 / (SAMPLES - 1) as f64;
            state.millis.extend((0..SAMPLES).map(|sample| age - step * sample as f64));
        }
    }
}
