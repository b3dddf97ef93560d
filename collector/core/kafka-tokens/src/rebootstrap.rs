//! Gives a client its bootstrap servers again after it lost all of its brokers.
//!
//! librdkafka removes each broker that a metadata answer doesn't list, and a broker of KRaft that
//! has just started lists none until its controller lets it in. A client whose request comes in
//! this moment removes all it knows. It then adds its bootstrap servers again, but an answer that
//! is handled completely calls that off: if the last broker's thread ends before, the client knows
//! no broker and never connects again (librdkafka 2.10 and later, its issue 5301).
//!
//! A client reports that it reaches no broker, and its servers are added again a few times after
//! that. Servers that it knows are not added twice.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;

use crate::native::{KafkaClient, add_bootstrap_servers};

/// When the servers are added after a report. A removed broker's name is taken until its thread has
/// ended, which a name server that doesn't answer delays. The library retains each list that it
/// was given: in a day without brokers 3 a minute, some 100 bytes each, are 0.4 MB.
const DELAYS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];

/// The bootstrap servers of a client, and when to add them again.
#[derive(Debug)]
pub struct Rebootstrap {
    servers: String,
    due: Mutex<VecDeque<Instant>>,
}

impl Rebootstrap {
    /// Creates a plan without times, for a client with these settings.
    #[must_use]
    pub fn of_client(config: &ClientConfig) -> Self {
        let servers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
        Self { servers, due: Mutex::default() }
    }

    /// Records that the client reaches no broker. While a former report has times left, nothing
    /// changes.
    pub fn report_unreachable(&self, now: Instant) {
        let mut due = self.lock_due();
        if due.is_empty() {
            due.extend(DELAYS.iter().map(|delay| now + *delay));
        }
    }

    /// Adds the servers if that is due. Returns whether it was.
    pub fn run_due(&self, client: &dyn KafkaClient, now: Instant) -> bool {
        let is_due = {
            let mut due = self.lock_due();
            due.front().is_some_and(|at| *at <= now) && due.pop_front().is_some()
        };
        if is_due {
            let added = add_bootstrap_servers(client, &self.servers);
            if added > 0 {
                tracing::warn!(added, "the Kafka client knew no broker; it got its servers again");
            }
        }
        is_due
    }

    fn lock_due(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        // A queue of complete times stays valid even if a holder panicked.
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
