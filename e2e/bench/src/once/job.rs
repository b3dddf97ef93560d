//! What a producer is told to do, and what it says at its end: JSON between two processes.

use serde::{Deserialize, Serialize};

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Load {
    /// Requests of 1 MB, as fast as they are taken.
    Full,
    /// So many lines a second, in requests at regular times.
    Steady,
}

/// What is to be sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) bootstrap: String,
    pub(super) topic: String,
    /// Where positions go with the records of a transaction.
    pub(super) positions: String,
    pub(super) load: Load,
    /// Clients, each with a connection and, where it commits, a transactional id.
    pub(super) producers: u32,
    /// Of all producers together, under a steady load.
    pub(super) lines_per_second: u64,
    /// Between two requests of a producer, likewise.
    pub(super) request_millis: u64,
    /// Between two commits; none where there are no transactions.
    pub(super) commit_millis: Option<u64>,
    pub(super) seconds: u64,
}

/// What was sent, and what it took.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) lines: u64,
    pub(super) messages: u64,
    /// From the first request to the last answer.
    pub(super) seconds: f64,
    /// Of the process, meanwhile.
    pub(super) cpu_seconds: f64,
    pub(super) commits: u64,
    /// How long commits took together.
    pub(super) commit_seconds: f64,
}

impl Job {
    /// Lines of one request under a steady load.
    pub(super) fn request_lines(&self) -> u64 {
        self.lines_per_second * self.request_millis / 1_000 / u64::from(self.producers.max(1))
    }
}
