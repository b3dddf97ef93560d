//! The queue's values: limits, records, sums, refusals. No rules.

use std::io;

/// Sizes. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What all files together may take.
    pub max_bytes: u64,
    /// A segment that is longer is followed by a new one. Space comes back a segment at a time, so
    /// an eighth of the limit or less.
    pub segment_bytes: u64,
}

impl Limits {
    /// Segments for a limit: an eighth of it, and from 64 KiB to 16 MiB.
    #[must_use]
    pub fn of(max_bytes: u64) -> Self {
        Self { max_bytes, segment_bytes: (max_bytes / 8).clamp(64 << 10, 16 << 20) }
    }
}

/// Why a record was not appended. Nothing of it will be given out.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// No room under the limit: there will be once records are acknowledged.
    #[error("the buffer is full: {used_bytes} of {max_bytes} bytes are taken")]
    Full {
        /// Bytes of all files.
        used_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// It would not even fit into an empty queue.
    #[error("a record of {bytes} bytes is too long for a buffer of {max_bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max_bytes: u64,
    },
    /// The disk.
    #[error("the buffer's disk took no record: {0}")]
    Disk(#[from] io::Error),
}

/// A record given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number: one more than that of an earlier record, or more.
    pub number: u64,
    /// When it was appended, in milliseconds since 1970.
    pub at_millis: u64,
    /// How many things are in it, as its appender said.
    pub count: u32,
    /// Its appender's own.
    pub tag: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// What was found when the queue was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records that will be given out.
    pub records: u64,
    /// Bytes at ends of segments, or behind a bad header, that are no frames: mostly what a crash
    /// cut off before it was confirmed.
    pub unreadable_bytes: u64,
    /// Records whose bytes went bad.
    pub damaged_records: u64,
}

/// What the queue holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records not acknowledged.
    pub records: u64,
    /// Sum of their counts.
    pub count: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Records left out because their bytes went bad since the queue was opened.
    pub damaged_records: u64,
}
