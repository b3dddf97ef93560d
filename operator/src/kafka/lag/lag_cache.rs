//! Consumer lag as brokers report it: the basis of a gateway pool's sizing.
//!
//! [`LagSource`] queries a broker and may take seconds. [`LagCache`] queries in the background and
//! returns the newest result at once, so that a hanging broker never delays a pool's reconcile. A
//! failed observation is an error with a stable reason, never a lag of zero.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::KafkaConnection;
use millrace_observe::otlp::request_span;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

use crate::error::{Category, ReconcileStep, StepError};
pub use crate::kafka::KafkaLag;

/// A query for a group's lag on some topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagQuery {
    /// The namespace in which the connection's secret references are resolved.
    pub namespace: String,
    /// The connection to the brokers.
    pub kafka: KafkaConnection,
    /// The consumer group.
    pub group: String,
    /// The topics it reads.
    pub topics: Vec<String>,
    /// The bound for the lag in seconds.
    pub bound: Duration,
}

/// The lag over all partitions of the requested topics.
#[derive(Clone, Debug, PartialEq)]
pub struct LagObservation {
    /// The number of partitions over all topics.
    pub partitions: u32,
    /// The number of partitions of the largest topic: the ceiling for useful pods.
    pub partitions_max: u32,
    /// Messages not yet committed, over all partitions.
    pub messages: u64,
    /// The age of the oldest message not yet committed, in seconds, if known.
    pub seconds: Option<f64>,
    /// Whether every partition's committed offset is at or past the offset of `now - bound`.
    pub within_bound: bool,
    /// The offsets of each partition, in a fixed order.
    pub offsets: Vec<PartitionOffsets>,
    /// When this was observed.
    pub observed_at: Timestamp,
}

/// One partition's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The first uncommitted offset: the committed one, or the first that retention left.
    pub committed: i64,
    /// The offset after the last message.
    pub end: i64,
}

/// A source of consumer lag.
pub trait LagSource: Send + Sync {
    /// Observes the lag once; bounded by the implementation's own time limit.
    fn observe_lag<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>>;
}

/// A result younger than this is not requested again. Just under the pools' interval, so that every
/// reconcile gets a new one.
const FRESH: Duration = Duration::from_secs(8);
/// A pool without any result waits this long for the first one.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(2);
/// Results unused for this long are dropped: the pool was deleted or reads other topics.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// A source that takes longer is abandoned and counts as not answering.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Caches the newest result of a slow source for each query, refreshed in the background.
pub struct LagCache {
    source: Arc<dyn LagSource>,
    entries: Mutex<HashMap<String, LagEntry>>,
}

type LagResult = Result<LagObservation, StepError>;

/// The state of one query.
struct LagEntry {
    query: Arc<LagQuery>,
    /// The newest result; `None` until the first.
    latest: watch::Receiver<Option<LagResult>>,
    answered: watch::Sender<Option<LagResult>>,
    requested_at: Option<Instant>,
    /// Whether a request is in flight.
    is_querying: Arc<AtomicBool>,
    last_used: Instant,
}

impl LagCache {
    /// Creates a board in front of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn LagSource>) -> Self {
        Self { source, entries: Mutex::default() }
    }

    /// Returns the channel with the results of `query`, and queries the source if the newest is
    /// old.
    fn request_lag(&self, query: &LagQuery) -> watch::Receiver<Option<LagResult>> {
        let now = Instant::now();
        let key = format!("{}/{}", query.namespace, query.group);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| now.duration_since(entry.last_used) < FORGOTTEN_AFTER);
        let entry = entries.entry(key).or_insert_with(|| LagEntry::new(query, now));
        if *entry.query != *query {
            *entry = LagEntry::new(query, now);
        }
        entry.last_used = now;
        let old = entry.requested_at.is_none_or(|requested| now.duration_since(requested) >= FRESH);
        // At most one request at a time per query. The source batches those of all pools.
        if old && !entry.is_querying.swap(true, Ordering::AcqRel) {
            entry.requested_at = Some(now);
            let (source, answered) = (self.source.clone(), entry.answered.clone());
            let (query, asking) = (entry.query.clone(), entry.is_querying.clone());
            tokio::spawn(async move {
                let outcome = tokio::time::timeout(ANSWER_MAX, source.observe_lag(&query)).await;
                let late = format!("no Kafka broker reported the lag within {ANSWER_MAX:?}");
                let late = || Err(unknown_lag(Reason::KafkaUnreachable, late));
                let outcome = outcome.unwrap_or_else(|_elapsed| late());
                answered.send_replace(Some(outcome));
                asking.store(false, Ordering::Release);
            });
        }
        entry.latest.clone()
    }
}

impl LagEntry {
    fn new(query: &LagQuery, now: Instant) -> Self {
        let (answered, latest) = watch::channel(None);
        let asking = Arc::default();
        Self {
            query: Arc::new(query.clone()),
            latest,
            answered,
            requested_at: None,
            is_querying: asking,
            last_used: now,
        }
    }
}

impl LagSource for LagCache {
    fn observe_lag<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        let mut latest = self.request_lag(query);
        async move {
            let first = latest.wait_for(Option::is_some);
            let answer = tokio::time::timeout(FIRST_ANSWER_MAX, first).await;
            let answer = answer.ok().and_then(Result::ok).and_then(|answer| answer.clone());
            let awaited = "the broker has not reported the lag yet";
            answer.unwrap_or_else(|| Err(unknown_lag(Reason::LagUnknown, awaited)))
        }
        .instrument(request_span("kafka lag"))
        .boxed()
    }
}

fn unknown_lag(reason: Reason, cause: impl Into<String>) -> StepError {
    StepError::new(ReconcileStep::Observe, Category::External, reason, cause.into())
}

#[cfg(test)]
mod tests;
