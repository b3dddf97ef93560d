//! Kafka for the operator: topics, and the lag of consumer groups.
//!
//! One session per cluster and credentials ([`Sessions`]) serves all callers: it caches clients and
//! batches queries. A session has three independent queues, for lag, for reads of topics and for
//! changes of them, each with a deadline, so that a hanging cluster delays no other work. Failures
//! are classified by what a person would do about them. Nothing here produces or consumes a record.

mod brokers;
mod client;
mod failure;
mod lag;
mod sessions;
mod topics;

pub use lag::lag_cache;

pub use brokers::Brokers;
pub use client::connection::ConnectionSettings;
pub use failure::Failure;
pub use lag::queue::Pace;
pub use sessions::{KafkaLag, SESSIONS_BYTES_MAX, Sessions};
pub use topics::job::{HolderRecord, KafkaResource, TopicChange, TopicObservation};
pub use topics::records::HOLDERS_GROUP;

use std::time::{Duration, Instant};

/// Longest time for one call. A broker that is up answers within a second; a reconcile has 120 s.
const CONVERSATION_MAX: Duration = Duration::from_secs(20);

/// The time at which a call must end.
#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

impl Deadline {
    fn from_now(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    fn as_instant(self) -> Instant {
        self.0
    }

    fn remaining_time(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns the time left, at most `limit`, and never zero: some librdkafka calls interpret zero
    /// as "do not wait at all".
    fn at_most(self, limit: Duration) -> Duration {
        self.remaining_time().min(limit).max(Duration::from_millis(1))
    }
}
