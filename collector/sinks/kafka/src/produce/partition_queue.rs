//! One partition of a topic: its waiting messages, and those with the client library. Pure: time is
//! passed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::produce::message::{Envelope, Message};

#[derive(Default)]
pub(crate) struct PartitionQueue {
    pub(crate) has_leader: bool,
    /// Messages whose traces belong here. The budget bounds them, because every part holds a share
    /// of it.
    pub(crate) waiting: VecDeque<Message>,
    /// The messages with the library, oldest first.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// After a failure nothing is sent before this time, and then only one message.
    pub(crate) retry_at: Option<Instant>,
    /// When the first message was sent that was refused or withdrawn since the topic stored one.
    pub(crate) failed_sent_at: Option<Instant>,
}

/// A message with the client library.
pub(crate) struct InFlight {
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
    pub(crate) envelope: Envelope,
}

impl PartitionQueue {
    /// Returns when the oldest message was sent that waits for its answer, or that failed since the
    /// topic last stored one.
    pub(crate) fn unstored_since(&self, last_stored: Option<Instant>) -> Option<Instant> {
        let failed = self.failed_sent_at.filter(|sent_at| Some(*sent_at) > last_stored);
        failed.or_else(|| self.in_flight.front().map(|oldest| oldest.sent_at))
    }

    pub(crate) fn is_overdue(&self, now: Instant, stall_time: Duration) -> bool {
        self.in_flight.front().is_some_and(|oldest| is_old(oldest.sent_at, now, stall_time))
    }
}

pub(crate) fn is_old(since: Instant, now: Instant, age: Duration) -> bool {
    now.saturating_duration_since(since) >= age
}
