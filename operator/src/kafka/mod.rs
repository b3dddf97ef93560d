//! Kafka as the operator sees it: topics, and the lag of consumer groups.
//!
//! One session per cluster and log-in ([`Sessions`]) serves everybody who asks for it: clients are
//! kept, questions gathered. A session has three queues, for lag, for looks at topics and for
//! changes of them, and works on each by itself, under a deadline, so that a cluster that hangs
//! keeps nobody else waiting. A failure is classed by what a person would do about it. Nothing here
//! produces or consumes a record.

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

    /// The time left, but no more than `limit`, and never zero: librdkafka takes zero for
    /// "do not wait at all" in some calls.
    fn at_most(self, limit: Duration) -> Duration {
        self.left().min(limit).max(Duration::from_millis(1))
    }
}
