//! The newest dead letters that this process stored, without their content, for the console.
//!
//! Memory: [`RECENT_MAX`] entries, of some 300 bytes with the names of both topics.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use millrace_config::TopicName;
use millrace_pipeline::mutex::lock;
use millrace_wire::Signal;

/// Maximum entries: enough to see whether all have one cause. 50 are some 15 kB.
const RECENT_MAX: usize = 50;

/// A dead letter in its topic, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDeadLetter {
    /// The signal of its records.
    pub signal: Signal,
    /// The dead-letter topic.
    pub topic: TopicName,
    /// The partition of that topic.
    pub partition: i32,
    /// The offset in that partition; `None` if the broker only confirmed a duplicate.
    pub offset: Option<i64>,
    /// The topic from which it was read.
    pub source_topic: Arc<str>,
    /// The partition from which it was read.
    pub source_partition: i32,
    /// The offset at which it was read.
    pub source_offset: i64,
    /// Why it can't be stored in a table, one of a small set of words.
    pub reason: &'static str,
    /// The bytes of its payload in the topic.
    pub payload_bytes: usize,
    /// When the broker confirmed it, in seconds since 1970.
    pub stored_at_seconds: u64,
}

/// The newest dead letters of a process, shared by the producer and the admin port.
#[derive(Debug, Default)]
pub struct RecentDeadLetters {
    /// The oldest first.
    entries: Mutex<VecDeque<StoredDeadLetter>>,
}

impl RecentDeadLetters {
    /// Adds a dead letter; the oldest beyond [`RECENT_MAX`] is removed.
    pub fn record_stored(&self, dead_letter: StoredDeadLetter) {
        let mut entries = lock(&self.entries);
        if entries.len() >= RECENT_MAX {
            entries.pop_front();
        }
        entries.push_back(dead_letter);
    }

    /// Returns the entries, the newest first.
    #[must_use]
    pub fn list_newest(&self) -> Vec<StoredDeadLetter> {
        lock(&self.entries).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{RECENT_MAX, RecentDeadLetters, StoredDeadLetter, TopicName};
    use millrace_wire::Signal;

    /// Scenario: one dead letter more than are retained. Guarantee: the oldest is removed, and the
    /// newest comes first.
    #[test]
    fn only_the_newest_dead_letters_are_retained() {
        let recent = RecentDeadLetters::default();
        for source_offset in 0..=RECENT_MAX as i64 {
            recent.record_stored(StoredDeadLetter {
                signal: Signal::Logs,
                topic: TopicName::new("otlp_logs_dead_letter").unwrap(),
                partition: 0,
                offset: Some(source_offset),
                source_topic: "otlp_logs".into(),
                source_partition: 2,
                source_offset,
                reason: "truncated",
                payload_bytes: 7,
                stored_at_seconds: 5,
            });
        }
        let offsets: Vec<_> = recent.list_newest().iter().map(|it| it.source_offset).collect();
        let newest = RECENT_MAX as i64;
        assert_eq!((offsets.len(), offsets[0], offsets.last()), (RECENT_MAX, newest, Some(&1)));
    }
}
