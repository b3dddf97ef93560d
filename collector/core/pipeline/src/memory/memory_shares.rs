//! The division of the byte budget: every share of it, and every constant that bounds a share.
//!
//! A share limits one use, and most shares are not reserved ahead: other uses may have the bytes
//! that one leaves free. Uses that can hold their shares for long, because another system is
//! unavailable, must leave enough for the others; the tests of this file state which those are.

const MIB: u64 = 1 << 20;

/// Of a gateway: the messages that its workers fetch ahead, reserved at the start. The remainder is
/// for batches, which gain more from size.
const FETCH_QUEUES: u64 = 4;
/// The minimum of one worker's client: half of it queued, and one answer of an eighth as sent that
/// unpacks to about five times that while it is parsed.
const MIN_FETCH_QUEUE_BYTES: u64 = 4 * MIB;
/// The limit of all workers' open batches, columns and their compressed blocks. Beyond it the
/// largest batch is sent early, so that memory doesn't grow with the number of partitions.
const OPEN_BATCHES: u64 = 4;
/// The minimum of one worker's open batches: two usual batches of 200,000 lean spans. Batches
/// beyond the budget are cut when it is full.
const MIN_OPEN_BATCHES_BYTES: u64 = 32 * MIB;
/// The limit of one message's columns in memory while it is decoded: a message of 8 MiB is decoded
/// in 32 MiB, which exceeds this in a budget under 128 MiB.
const MESSAGE_COLUMNS: u64 = 4;
/// The limit of one message's written size. A written size of 64 MiB fits into half of 128 MiB, the
/// budget of a process with 256 MiB.
const MESSAGE_WRITTEN: u64 = 2;
/// Dead letters of one signal, waiting and in flight, while their topic is unavailable.
const DEAD_LETTERS_PER_SIGNAL: u64 = 32;
/// The bytes that a worker reserves ahead for its next message: four times the usual broker limit
/// of 1 MB per message, for columns with their identifiers as text.
pub const HEADROOM_BYTES: u64 = 4 * MIB;

/// Of an edge: connections, without the bodies of their requests. With a half, the default limit of
/// 1 GiB, whose budget is a half of it, holds 5,041 idle HTTP/2 connections.
pub const CONNECTIONS: u64 = 2;
/// Bodies that no worker has accepted yet. Workers accept bodies about as fast as sockets are read,
/// so few wait.
const UNREAD_BODIES: u64 = 4;
/// Buffers that workers retain between requests: each has its decompressed body, and protobuf made
/// from JSON. The share is small so that the longest request fits next to the other workers'
/// buffers.
const RETAINED_BUFFERS: u64 = 16;
const BUFFERS_OF_A_WORKER: u64 = 2;
/// The maximum of one worker's buffer: gRPC's usual message limit.
const MAX_RETAINED_BYTES: u64 = 4 * MIB;

/// Of a collector that scrapes: connections and buffers are retained while this part of the budget
/// is free.
const SCRAPES: u64 = 2;

/// The division of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    budget_bytes: u64,
}

impl MemoryShares {
    /// Returns the shares of a budget.
    #[must_use]
    pub fn of_budget(budget_bytes: u64) -> Self {
        Self { budget_bytes }
    }

    /// The bytes that one worker's client may fetch ahead, of the `configured_bytes` requested.
    #[must_use]
    pub fn fetch_queue_bytes(self, workers: u16, configured_bytes: u64) -> u64 {
        let min_bytes = MIN_FETCH_QUEUE_BYTES.min(configured_bytes);
        configured_bytes.min(self.part_of_one(FETCH_QUEUES, workers)).max(min_bytes)
    }

    /// The bytes that one worker's open batches may hold.
    #[must_use]
    pub fn open_batches_bytes(self, workers: u16) -> u64 {
        self.part_of_one(OPEN_BATCHES, workers).max(MIN_OPEN_BATCHES_BYTES)
    }

    /// The most bytes to wait for before a message is decoded, for its columns.
    #[must_use]
    pub fn message_columns_bytes(self) -> u64 {
        self.budget_bytes / MESSAGE_COLUMNS
    }

    /// The same, for its written size.
    #[must_use]
    pub fn message_written_bytes(self) -> u64 {
        self.budget_bytes / MESSAGE_WRITTEN
    }

    /// The bytes of one worker's dead letters of one signal.
    #[must_use]
    pub fn dead_letters_bytes(self, workers: u16) -> u64 {
        self.part_of_one(DEAD_LETTERS_PER_SIGNAL, workers)
    }

    /// The bytes of all client connections.
    #[must_use]
    pub fn connections_bytes(self) -> u64 {
        self.budget_bytes / CONNECTIONS
    }

    /// The bytes of all bodies that no worker has accepted. The longest body always fits.
    #[must_use]
    pub fn unread_bodies_bytes(self, longest_bytes: u64) -> u64 {
        (self.budget_bytes / UNREAD_BODIES).max(longest_bytes)
    }

    /// The bytes of each of the two buffers that one of `threads` threads retains between requests.
    #[must_use]
    pub fn retained_buffer_bytes(self, threads: usize) -> u64 {
        let buffers = BUFFERS_OF_A_WORKER * threads.max(1) as u64;
        (self.budget_bytes / RETAINED_BUFFERS / buffers).min(MAX_RETAINED_BYTES)
    }

    /// The bytes that the other threads retain while one of them works.
    #[must_use]
    pub fn others_buffers_bytes(self, threads: usize) -> u64 {
        let others = threads.saturating_sub(1) as u64;
        self.retained_buffer_bytes(threads) * BUFFERS_OF_A_WORKER * others
    }

    /// The bytes that must be free for scrapes before any are retained for later ones.
    #[must_use]
    pub fn scrapes_bytes(self) -> u64 {
        self.budget_bytes / SCRAPES
    }

    fn part_of_one(self, part: u64, workers: u16) -> u64 {
        self.budget_bytes / part / u64::from(workers.max(1))
    }
}

#[cfg(test)]
mod tests;
