//! Kafka for the operator: topics, and the lag of consumer groups.
//!
//! One session per cluster and credentials ([`Sessions`]) serves all callers: it caches clients and
//! batches queries. A session has three independent queues, for lag, for reads of topics and for
//! changes of them, each with a deadline, so that a hanging cluster delays no other work. Failures
//! are classified by what a person would do about them. Nothing here produces or consumes a record.

mod brokers;
mod connection;
mod failure;
mod lag;
mod lag_age;
pub mod lag_cache;
mod lag_queue;
mod native;
mod probe;
mod records;
mod requests;
mod resolved;
mod rotation;
mod session;
mod sessions;
mod time_marks;
mod topic_job;
mod topic_queue;
mod topics;

pub use brokers::Brokers;
pub use connection::ConnectionSettings;
pub use failure::Failure;
pub use lag_queue::Pace;
pub use records::HOLDERS_GROUP;
pub use sessions::{KafkaLag, SESSIONS_BYTES_MAX, Sessions};
pub use topic_job::{HolderRecord, KafkaResource, TopicChange, TopicObservation};

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
