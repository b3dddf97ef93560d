//! Consumer lag as brokers report it: the basis of a gateway pool's sizing.
//!
//! [`LagSource`] asks a broker and may take seconds. [`LagBoard`] asks in the background and
//! returns the newest answer at once, so that a hanging broker never delays a pool's reconcile. A
//! failed observation is an error with a stable reason, never a lag of zero.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::KafkaConnection;
use millrace_observe::otlp::asking;
use tokio::sync::watch;
use tracing::Instrument;

use crate::error::{Category, Step, StepError};
pub use crate::kafka::KafkaLag;

/// Which group's lag on which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagQuery {
    /// Namespace in which the connection's secret references are resolved.
    pub namespace: String,
    /// How to reach the broker.
    pub kafka: KafkaConnection,
    /// The consumer group.
    pub group: String,
    /// The topics it reads.
    pub topics: Vec<String>,
    /// The bound the lag in seconds is held against.
    pub bound: Duration,
}

/// Lag over all partitions of the topics asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct LagObservation {
    /// Partitions over all topics.
    pub partitions: u32,
    /// Partitions of the largest topic; the ceiling for useful pods.
    pub partitions_max: u32,
    /// Messages not yet committed, over all partitions.
    pub messages: u64,
    /// Age of the oldest message not yet committed, in seconds, where known.
    pub seconds: Option<f64>,
    /// Whether every partition's committed offset is at or past the offset of `now - bound`.
    pub within_bound: bool,
    /// Offsets of each partition, in a fixed order.
    pub offsets: Vec<PartitionOffsets>,
    /// When this was asked.
    pub observed_at: Timestamp,
}

/// One partition's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// The first offset that still waits: the committed one, or the first that retention left.
    pub committed: i64,
    /// The offset after the last message.
    pub end: i64,
}

/// A source of consumer lag.
pub trait LagSource: Send + Sync {
    /// Observes the lag once; bounded by the implementation's own time limit.
    fn observe<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>>;
}

/// An answer younger than this is not asked for again. Just under the pools' interval, so that
/// every reconcile gets a new one.
const FRESH: Duration = Duration::from_secs(8);
/// A pool without any answer waits this long for the first one.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(2);
/// Answers unused for this long are dropped: the pool is gone or reads something else.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// A source that takes longer is abandoned; it counts as not answering.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Keeps the newest answer of a slow source for each query, in the background.
pub struct LagBoard {
    source: Arc<dyn LagSource>,
    entries: Mutex<HashMap<String, Entry>>,
}

/// The state of one query.
struct Entry {
    query: LagQuery,
    /// The newest answer; `None` until the first.
    latest: watch::Receiver<Option<Answer>>,
    answered: watch::Sender<Option<Answer>>,
    asked_at: Option<Instant>,
    /// A question is under way.
    asking: Arc<AtomicBool>,
    wanted_at: Instant,
}

/// An answer that can be given more than once.
#[derive(Clone, Debug)]
enum Answer {
    Seen(LagObservation),
    Failed { category: Category, reason: Reason, message: String },
}

impl Answer {
    fn of(outcome: Result<LagObservation, StepError>) -> Self {
        match outcome {
            Ok(seen) => Self::Seen(seen),
            Err(error) => Self::Failed {
                category: error.category,
                reason: error.reason,
                message: error.cause(),
            },
        }
    }

    fn give(self) -> Result<LagObservation, StepError> {
        match self {
            Self::Seen(seen) => Ok(seen),
            Self::Failed { category, reason, message } => {
                Err(StepError::new(Step::Observe, category, reason, message))
            }
        }
    }
}

impl LagBoard {
    /// A board in front of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn LagSource>) -> Self {
        Self { source, entries: Mutex::default() }
    }

    /// The channel with the answers to `query`; asks the source if the newest is old.
    fn ask(&self, query: &LagQuery) -> watch::Receiver<Option<Answer>> {
        let now = Instant::now();
        let key = format!("{}/{}", query.namespace, query.group);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| now.duration_since(entry.wanted_at) < FORGOTTEN_AFTER);
        let entry = entries.entry(key).or_insert_with(|| Entry::new(query, now));
        if entry.query != *query {
            *entry = Entry::new(query, now);
        }
        entry.wanted_at = now;
        let old = entry.asked_at.is_none_or(|asked| now.duration_since(asked) >= FRESH);
        // One question at a time per query. The source batches those of all pools.
        if old && !entry.asking.swap(true, Ordering::AcqRel) {
            entry.asked_at = Some(now);
            let (source, answered) = (self.source.clone(), entry.answered.clone());
            let (query, asking) = (query.clone(), entry.asking.clone());
            tokio::spawn(async move {
                let outcome = match tokio::time::timeout(ANSWER_MAX, source.observe(&query)).await {
                    Ok(outcome) => outcome,
                    Err(_elapsed) => Err(StepError::new(
                        Step::Observe,
                        Category::External,
                        Reason::LagUnknown,
                        format!("the broker did not tell the lag within {ANSWER_MAX:?}"),
                    )),
                };
                answered.send_replace(Some(Answer::of(outcome)));
                asking.store(false, Ordering::Release);
            });
        }
        entry.latest.clone()
    }
}

impl Entry {
    fn new(query: &LagQuery, now: Instant) -> Self {
        let (answered, latest) = watch::channel(None);
        let asking = Arc::default();
        Self { query: query.clone(), latest, answered, asked_at: None, asking, wanted_at: now }
    }
}

impl LagSource for LagBoard {
    fn observe<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        let mut latest = self.ask(query);
        async move {
            let first = latest.wait_for(Option::is_some);
            let answer = tokio::time::timeout(FIRST_ANSWER_MAX, first).await;
            let answer = answer.ok().and_then(Result::ok).and_then(|answer| answer.clone());
            answer.map_or_else(
                || {
                    Err(StepError::new(
                        Step::Observe,
                        Category::External,
                        Reason::LagUnknown,
                        "the broker has not told the lag yet",
                    ))
                },
                Answer::give,
            )
        }
        .instrument(asking("kafka lag"))
        .boxed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/lag_board.rs"]
mod tests;
