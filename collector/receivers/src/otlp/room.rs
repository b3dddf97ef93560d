//! Bytes of the budget that connections take, besides the bodies of their requests.
//!
//! A connection reserves room before anything is read from it, and a named constant bounds each
//! one. All connections together have only a share of the budget, so that idle clients leave room
//! for those who send records. A connection without room is closed at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use millrace_config::OtlpLimits;
use millrace_pipeline::budget::{Budget, Reservation};

/// The share of the budget for connections, as a divisor: half, so that the default limit of 1 GiB,
/// whose budget is a half of it, has room for 5,041 connections with HTTP/2 that are idle.
const CONNECTIONS_SHARE: u64 = 2;

/// What any connection takes, in bytes, and twice the longest header list: a read buffer of 32 KiB,
/// an answer, and the task that serves it.
const CONNECTION_BYTES: u64 = 48 * 1024;

/// What TLS takes beside it: a handshake's message of 64 KiB at most, later records of 16 KiB.
const TLS_BYTES: u64 = 64 * 1024;

/// What a connection with HTTP/2 takes in place of that while no stream is open, in bytes: the
/// buffers that it reads into (24 KiB, a frame and what came with its end) and writes from (16),
/// the decoder's (4), its state and task (4), and the answers to [`SHORT_STREAMS`] (4).
const IDLE_BYTES: u64 = 52 * 1024;

/// What it takes besides with any stream open, and four times the longest header list for blocks
/// that are read: what a turn reads of bodies.
const BUSY_BYTES: u64 = 32 * 1024;

/// Streams that may lack room at a time: each is refused once it is looked at. With more the
/// connection is closed.
const SHORT_STREAMS: usize = 4;

/// What an answer takes until its client has taken it: each stream has one at most.
const ANSWER_BYTES: u64 = 1024;

/// What a header block that adds to the header table keeps: entries are slices of the buffer that
/// they were read into, which is a frame of 16 KiB and up to 8 KiB of the next.
const TABLE_BLOCK_BYTES: u64 = 24 * 1024;

/// Blocks that may lie in a header table of the protocol's 4,096 bytes: 33 for an entry.
const TABLE_BLOCKS: u64 = 4096 / 33;

/// What a request takes until it is answered, without its body, in bytes: its stream and its task.
/// Measured: 4,000 requests without an end took 2.2 KiB each.
const REQUEST_BYTES: u64 = 4 * 1024;

/// What a header list takes in memory, as a multiple of its length: a header counts its own bytes
/// and 32, so 33 at least, for which the map holds 104, half as much again while it grows, and the
/// name an allocation of 32: six times. The wire's bytes it was read from are two times more.
const HEAD_FACTOR: u64 = 8;

/// Header blocks that are read before the requests there are have been looked at, in a connection's
/// turn on a thread. What is read at once may hold some more.
pub(crate) const HEADS_PER_TURN: usize = 8;

/// Header lists that a thread has at once: those of a turn, and as much again of what was read with
/// its last.
const HEADS_PER_THREAD: u64 = 2 * HEADS_PER_TURN as u64;

/// The room of connections and requests.
pub(crate) struct Rooms {
    budget: Budget,
    connections: Budget,
    connection_bytes: u64,
    busy_bytes: u64,
    streams_bytes: u64,
    /// Header lists that have been read and not yet handled. A thread has only those of one
    /// connection at a time: see [`Turn`](super::guard::Turn).
    heads_bytes: u64,
    heads: Mutex<Weak<Reservation>>,
}

/// Bytes of the budget and of the connections' share of it.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Reservation,
    share: Reservation,
}

impl Room {
    fn try_resize(&mut self, bytes: u64) -> bool {
        let before = self.share.bytes();
        if !self.share.try_resize(bytes) {
            return false;
        }
        self.budget.try_resize(bytes) || {
            // Shrinking can't fail.
            let _ = self.share.try_resize(before);
            false
        }
    }
}

/// A connection's room for HTTP/2, which follows its open streams.
pub(crate) struct Http2Room {
    room: Room,
    idle_bytes: u64,
    busy_bytes: u64,
    /// The streams that it covers.
    streams: usize,
    short: Short,
    _heads: Arc<Reservation>,
}

/// Whether a connection has streams that lack room: requests are refused then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Short(Arc<AtomicBool>);

impl Short {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Room for what a connection's header table keeps.
pub(crate) struct TableRoom {
    room: Room,
    blocks: u64,
}

impl Rooms {
    /// Room in a budget, for connections served by so many threads.
    pub(crate) fn new(budget: Budget, limits: &OtlpLimits, threads: usize) -> Self {
        let list_bytes = limits.header_list_bytes.get();
        Self {
            budget,
            connections: Budget::new(0),
            connection_bytes: CONNECTION_BYTES + 2 * list_bytes,
            busy_bytes: BUSY_BYTES + 4 * list_bytes,
            streams_bytes: u64::from(limits.concurrent_streams) * ANSWER_BYTES,
            heads_bytes: threads as u64 * HEADS_PER_THREAD * list_bytes * HEAD_FACTOR,
            heads: Mutex::default(),
        }
    }

    /// Checks that one connection, with TLS and HTTP/2, has room.
    ///
    /// # Errors
    /// The smallest budget that suffices, if this one is smaller.
    pub(crate) fn suffice(&self) -> Result<(), u64> {
        let http2_bytes = IDLE_BYTES + self.busy_bytes + self.streams_bytes;
        let connection_bytes = TLS_BYTES + http2_bytes.max(self.connection_bytes);
        let needed_bytes =
            (connection_bytes * CONNECTIONS_SHARE).max(self.heads_bytes + connection_bytes);
        if self.budget.limit_bytes() < needed_bytes { Err(needed_bytes) } else { Ok(()) }
    }

    /// Room for a request, until it is answered.
    pub(crate) fn request(&self) -> Option<Reservation> {
        self.budget.try_reserve(REQUEST_BYTES)
    }

    /// Room for a connection, from its beginning on.
    pub(crate) fn connection(&self, tls: bool) -> Option<Room> {
        self.room(self.connection_bytes + if tls { TLS_BYTES } else { 0 })
    }

    fn room(&self, bytes: u64) -> Option<Room> {
        // The budget follows the process's memory limit, which may change.
        self.connections.set_limit(self.budget.limit_bytes() / CONNECTIONS_SHARE);
        let mut room = self.nothing();
        room.try_resize(bytes).then_some(room)
    }

    /// The room of a connection that speaks HTTP/2, made of what it had from its beginning on.
    pub(crate) fn http2(&self, mut room: Room, tls: bool, short: Short) -> Option<Http2Room> {
        let idle_bytes = IDLE_BYTES + if tls { TLS_BYTES } else { 0 };
        if !room.try_resize(idle_bytes) {
            return None;
        }
        let mut shared = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let heads = match shared.upgrade() {
            Some(heads) => heads,
            None => Arc::new(self.budget.try_reserve(self.heads_bytes)?),
        };
        *shared = Arc::downgrade(&heads);
        let busy_bytes = self.busy_bytes;
        Some(Http2Room { room, idle_bytes, busy_bytes, streams: 0, short, _heads: heads })
    }

    /// Room for a header table that is still empty.
    pub(crate) fn table(&self) -> TableRoom {
        TableRoom { room: self.nothing(), blocks: 0 }
    }

    fn nothing(&self) -> Room {
        Room { budget: self.budget.nothing(), share: self.connections.nothing() }
    }
}

impl Http2Room {
    /// Reserves room for this many open streams; false when there is not enough for all.
    pub(crate) fn follow(&mut self, streams: usize) -> bool {
        if streams != self.streams {
            let busy_bytes = if streams > 0 { self.busy_bytes } else { 0 };
            let bytes = self.idle_bytes + busy_bytes + streams as u64 * ANSWER_BYTES;
            if self.room.try_resize(bytes) {
                self.streams = streams;
            }
        }
        let is_short = streams > self.streams;
        self.short.0.store(is_short, Ordering::Relaxed);
        !is_short
    }

    /// Whether this many streams can be refused one by one.
    pub(crate) fn bears(&self, streams: usize) -> bool {
        streams <= self.streams + SHORT_STREAMS
    }
}

impl TableRoom {
    /// Makes room for one more block that added to the table; false when there is none.
    #[must_use]
    pub(crate) fn grow(&mut self) -> bool {
        // Each adds an entry at least, and that many entries push the oldest out.
        self.blocks = (self.blocks + 1).min(TABLE_BLOCKS);
        self.room.try_resize(self.blocks * TABLE_BLOCK_BYTES)
    }

    /// The table was emptied.
    pub(crate) fn empty(&mut self) {
        self.blocks = 0;
        let _ = self.room.try_resize(0);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/room.rs"]
mod tests;
