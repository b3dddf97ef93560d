//! The queue's values: limits, records, sums, errors. No rules.

use std::io;

/// The approximate maximum number of segments of a queue.
const MAX_SEGMENTS: u64 = 1024;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// The limit of all files together.
    pub max_bytes: u64,
    /// The length from which a segment is followed by a new one. Space is freed one segment at a
    /// time, so this should be an eighth of the limit or less.
    pub segment_bytes: u64,
}

impl QueueLimits {
    /// Returns the segment size for a limit: an eighth of it, from 64 KiB to 16 MiB, but no more
    /// than 1,024 segments, since each takes some 60 bytes in memory.
    #[must_use]
    pub fn from_max_bytes(max_bytes: u64) -> Self {
        let segment_bytes = (max_bytes / 8).clamp(64 << 10, 16 << 20);
        Self { max_bytes, segment_bytes: segment_bytes.max(max_bytes / MAX_SEGMENTS) }
    }
}

/// The reason why a record was not appended. The queue returns none of it.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The queue is at its limit; it has space again once records are acknowledged.
    #[error("the buffer is full: {used_bytes} of {max_bytes} bytes are in use")]
    Full {
        /// Bytes of all files.
        used_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The record would not fit even into an empty queue.
    #[error("a record of {bytes} bytes is too long for a buffer of {max_bytes} bytes")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max_bytes: u64,
    },
    /// The disk failed.
    #[error("cannot write to the buffer's disk: {0}")]
    Disk(#[from] io::Error),
}

/// A record read from the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRecord {
    /// Its number: greater than that of each earlier record, by one or more.
    pub number: u64,
    /// When it was appended, in milliseconds since 1970.
    pub at_millis: u64,
    /// The number of items in it, as the appending caller reported.
    pub count: u32,
    /// The appending caller's own value.
    pub tag: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The findings at the opening of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records to be returned, except those that turn out to be damaged.
    pub records: u64,
    /// Bytes that are no frames, at the ends of the segments that were read through or behind a bad
    /// header: mostly what a crash cut off before it was confirmed.
    pub unreadable_bytes: u64,
}

/// The queue's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records that aren't acknowledged.
    pub records: u64,
    /// The sum of their counts.
    pub count: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
}

/// Records and the sum of their counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Records.
    pub records: u64,
    /// The sum of their counts.
    pub count: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.count += other.count;
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.records = self.records.saturating_sub(other.records);
        self.count = self.count.saturating_sub(other.count);
    }

    pub(crate) fn one_record(count: u32) -> Self {
        Self { records: 1, count: u64::from(count) }
    }
}
