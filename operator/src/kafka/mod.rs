//! Kafka as the operator sees it: topics, and the lag of consumer groups.
//!
//! librdkafka's calls block, so each conversation runs on the blocking pool, under a deadline, and
//! few at a time. A failure is classed by what a person would do about it. Nothing here produces or
//! consumes a record.

mod admin;
mod connection;
mod failure;
mod lag;
mod probe;

pub use admin::{TopicChange, TopicSeen, change_topic, delete_topic, observe_topic};
pub use connection::Settings;
pub use failure::Failure;
pub use lag::{KafkaLag, observe_lag};

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Conversations with Kafka at once. A librdkafka client takes about 1 MiB and four threads, so
/// eight stay under 8 MiB of the operator's 40.
const CONVERSATIONS_MAX: usize = 8;

/// Longest conversation. A broker that is up answers within a second; a reconcile has 120 s.
const CONVERSATION_MAX: Duration = Duration::from_secs(20);

static CONVERSATIONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(CONVERSATIONS_MAX));

/// The time a conversation must be over.
#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

impl Deadline {
    fn within(limit: Duration) -> Self {
        Self(Instant::now() + limit)
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

/// Runs a blocking conversation on the blocking pool, a bounded number at a time.
async fn converse<T: Send + 'static>(
    talk: impl FnOnce(Deadline) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let _turn = CONVERSATIONS.acquire().await.map_err(|_| Failure::interrupted())?;
    tokio::task::spawn_blocking(move || talk(Deadline::within(CONVERSATION_MAX)))
        .await
        .map_err(|_| Failure::interrupted())?
}
