//! Limits the length of joined messages, learned from the topic's refusals.
//!
//! A topic's `max.message.bytes` may be less than `maxMessageBytes`, and applies to compressed
//! batches, so the length that fits isn't known before. A message that its topic refuses as too
//! long is cut and sent again ([`topic`](crate::topics::topic)), and further ones are joined to
//! half of its length. Each message that fits raises that by 1/256, because the topic's limit and
//! the data's compression may change: a doubling takes some 180 messages, of which at most one is
//! cut again.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The share by which a message that fits raises the length, as a divisor.
const RISE: usize = 256;
/// The minimum length: joining less saves nothing. Single requests may still be longer.
const LEAST_BYTES: usize = 1024;

/// The length to which a signal's requests are joined.
#[derive(Debug)]
pub(crate) struct JoinLimit {
    most: usize,
    bytes: AtomicUsize,
}

impl JoinLimit {
    /// Starts with joining to `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, bytes: AtomicUsize::new(most) }
    }

    /// Returns the current length for joining, in bytes.
    pub(crate) fn limit_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records that the topic refused a message of this many bytes. Returns true for the first
    /// refusal since it accepted the longest.
    pub(crate) fn too_long(&self, bytes: usize) -> bool {
        let half = (bytes / 2).max(LEAST_BYTES.min(self.most));
        let before = self.bytes.fetch_min(half, Ordering::Relaxed);
        before == self.most && half < before
    }

    /// Records that the topic accepted a message of this many bytes.
    pub(crate) fn record_fitted(&self, bytes: usize) {
        // A short message is no evidence for longer ones.
        let rise = |known: usize| {
            let near = known < self.most && bytes >= known / 2;
            near.then(|| (known + (known / RISE).max(1)).min(self.most))
        };
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rise);
    }
}

#[cfg(test)]
mod tests {
    use super::JoinLimit;

    /// Scenario: a topic that accepts a third of the usual message, then all of it. Guarantee: the
    /// length falls below what it accepts, is seldom too long again, and returns to its first
    /// value.
    #[test]
    fn the_length_follows_what_the_topic_takes() {
        let limit = JoinLimit::new(1_000_000);
        let (mut refused, mut shipped) = (0, 0);
        for _ in 0..2_000 {
            let bytes = limit.limit_bytes();
            if bytes > 333_000 {
                assert_eq!(limit.too_long(bytes), refused == 0);
                refused += 1;
            } else {
                limit.record_fitted(bytes);
                shipped += 1;
            }
        }
        assert!(shipped > 1_900 && (3..=20).contains(&refused), "{refused} refused");
        for _ in 0..1_000 {
            limit.record_fitted(10);
        }
        assert!(limit.limit_bytes() < 333_000, "short messages say nothing");
        while limit.limit_bytes() < 1_000_000 {
            limit.record_fitted(limit.limit_bytes());
        }
        assert!(!limit.too_long(4_000_000), "of a request longer than what is joined");
        limit.too_long(3);
        assert_eq!(limit.limit_bytes(), 1024);
    }
}
