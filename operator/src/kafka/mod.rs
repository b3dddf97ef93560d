//! Kafka for the operator: topics, and the lag of consumer groups.
//!
//! One session per cluster and log-in ([`Sessions`]) serves all callers: it keeps clients and
//! batches questions. A session has three independent queues, for lag, for reads of topics and for
//! changes of them, each with a deadline, so that a hanging cluster delays nobody else. Failures
//! are classed by what a person would do about them. Nothing here produces or consumes a record.

mod brokers;
mod connection;
mod failure;
mod lag;
mod lag_age;
pub mod lag_board;
mod lag_queue;
mod native;
mod probe;
mod questions;
mod records;
mod session;
mod sessions;
mod time_marks;
mod topic_queue;
mod topics;

pub use brokers::Brokers;
pub use connection::Settings;
pub use failure::Failure;
pub use records::{Entry, HOLDERS_GROUP, Place};
pub use sessions::{KafkaLag, Pace, Sessions};
pub use topics::{TopicChange, TopicSeen};

use std::time::{Duration, Instant};

/// Longest conversation. A broker that is up answers within a second; a reconcile has 120 s.
const CONVERSATION_MAX: Duration = Duration::from_secs(20);

/// The time a conversation must be over.
#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

impl Deadline {
    fn within(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    fn end(self) -> Instant {
        self.0
    }

    fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// The time left, at most `limit`, and never zero: some librdkafka calls take zero as "do not
    /// wait at all".
    fn at_most(self, limit: Duration) -> Duration {
        self.left().min(limit).max(Duration::from_millis(1))
    }
}
