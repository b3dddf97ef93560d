//! How long a joined message may be: learned from the topic's refusals.
//!
//! A topic's `max.message.bytes` may be less than `maxMessageBytes`, and applies to compressed
//! batches, so the length that fits isn't known before. A message that its topic refuses as too
//! long is cut and sent again ([`super::way`]), and further ones are joined to half of its length.
//! Each message that fits raises that by 1/256, for the topic's limit and the data's compression
//! may change: a doubling takes some 180 messages, of which at most one is cut again.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The share by which a message that fitted raises the length, as a divisor.
const RISE: usize = 256;
/// The least length: joining less saves nothing. Single requests are longer all the same.
const LEAST_BYTES: usize = 1024;

/// The length to which a signal's requests are joined.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    bytes: AtomicUsize,
}

impl Room {
    /// Room for `most` bytes to begin with.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, bytes: AtomicUsize::new(most) }
    }

    /// To how many bytes requests are joined now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The topic refused a message of so many bytes. True when that is news: when it had taken the
    /// longest before.
    pub(crate) fn too_long(&self, bytes: usize) -> bool {
        let half = (bytes / 2).max(LEAST_BYTES.min(self.most));
        let before = self.bytes.fetch_min(half, Ordering::Relaxed);
        before == self.most && half < before
    }

    /// The topic took a message of so many bytes.
    pub(crate) fn fitted(&self, bytes: usize) {
        // Short ones say nothing about longer ones.
        let rise = |known: usize| {
            let near = known < self.most && bytes >= known / 2;
            near.then(|| (known + (known / RISE).max(1)).min(self.most))
        };
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rise);
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    /// Scenario: a topic that takes a third of the usual message, then all of it. Guarantee: the
    /// length falls below what it takes, is seldom too long again, and comes back to what it was.
    #[test]
    fn the_length_follows_what_the_topic_takes() {
        let room = Room::new(1_000_000);
        let (mut refused, mut shipped) = (0, 0);
        for _ in 0..2_000 {
            let bytes = room.bytes();
            if bytes > 333_000 {
                assert_eq!(room.too_long(bytes), refused == 0);
                refused += 1;
            } else {
                room.fitted(bytes);
                shipped += 1;
            }
        }
        assert!(shipped > 1_900 && (3..=20).contains(&refused), "{refused} refused");
        for _ in 0..1_000 {
            room.fitted(10);
        }
        assert!(room.bytes() < 333_000, "short messages say nothing");
        while room.bytes() < 1_000_000 {
            room.fitted(room.bytes());
        }
        assert!(!room.too_long(4_000_000), "of a request longer than what is joined");
        room.too_long(3);
        assert_eq!(room.bytes(), 1024);
    }
}
