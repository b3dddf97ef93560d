//! Reserves the budget of connections, without their requests' bodies.
//!
//! A connection reserves budget before anything is read from it, and a named constant bounds each.
//! All connections together have only a part of the budget, so that idle clients leave capacity for
//! active ones. A connection without a reservation is closed at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use millrace_config::OtlpLimits;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::memory_shares::{CONNECTIONS, MemoryShares};
use millrace_pipeline::mutex::lock;

/// The bytes of any connection, plus twice the longest header list: a read buffer of 32 KiB, an
/// answer, and the task that serves it.
const CONNECTION_BYTES: u64 = 48 * 1024;

/// The additional bytes of TLS: a handshake's message of 64 KiB at most, later records of 16 KiB.
const TLS_BYTES: u64 = 64 * 1024;

/// The bytes of an HTTP/2 connection without open streams, instead of `CONNECTION_BYTES`: its read
/// buffers (24 KiB, a frame and what came with its end) and write buffers (16), the decoder's (4),
/// its state and task (4), and the answers to [`SHORT_STREAMS`] (4).
const IDLE_BYTES: u64 = 52 * 1024;

/// The additional bytes with any open stream, plus four times the longest header list for blocks
/// that are read: what a turn reads of bodies.
const BUSY_BYTES: u64 = 32 * 1024;

/// The streams that may lack budget at a time: each is refused once it is handled. With more the
/// connection is closed.
const SHORT_STREAMS: usize = 4;

/// The bytes of an answer until its client has received it: each stream has at most one.
const RESPONSE_BYTES: u64 = 1024;

/// The bytes that a header block retains by adding to the header table: paths and authorities are
/// slices of the buffer that they were read into, which is a frame of 16 KiB and up to 8 KiB of the
/// next.
const TABLE_BLOCK_BYTES: u64 = 24 * 1024;

/// The maximum number of blocks in a header table of the protocol's 4,096 bytes: 33 for an entry.
const TABLE_BLOCKS: u64 = 4096 / 33;

/// The bytes of a request until it is answered, without its body: its stream and its task.
/// Measured: 4,000 requests without an end took 2.2 KiB each.
const REQUEST_BYTES: u64 = 4 * 1024;

/// The memory of a header list, as a multiple of its length: a header counts its own bytes and 32,
/// so 33 at least, for which the map holds 104, half as much again while it grows, and the name an
/// allocation of 32: six times. The wire's bytes it was read from add two.
const HEAD_FACTOR: u64 = 8;

/// The header blocks that a connection reads in one turn before its requests are handled. One read
/// may contain some more.
pub(crate) const HEADS_PER_POLL: usize = 8;

/// The maximum number of header lists per thread: those of a turn, and as many again read with its
/// last.
const HEADS_PER_THREAD: u64 = 2 * HEADS_PER_POLL as u64;

/// Reserves the budget of connections and requests.
pub(crate) struct ConnectionBudget {
    budget: Budget,
    /// The connections' share of it.
    connections: Budget,
    connection_bytes: u64,
    busy_bytes: u64,
    streams_bytes: u64,
    /// The bytes of header lists that were read and not yet handled. A thread has only those of one
    /// connection at a time: see [`PollQuota`](crate::connections::guard::PollQuota).
    heads_bytes: u64,
    heads: Mutex<Weak<Reservation>>,
}

/// An HTTP/2 connection's reservation, which follows its open streams.
pub(crate) struct Http2Reservation {
    reservation: Reservation,
    idle_bytes: u64,
    busy_bytes: u64,
    /// The number of streams that it covers.
    streams: usize,
    short: StreamShortage,
    _heads: Arc<Reservation>,
}

/// Whether a connection has streams without budget: its requests are then refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamShortage(Arc<AtomicBool>);

impl StreamShortage {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The reservation for what a connection's header table retains.
pub(crate) struct TableReservation {
    reservation: Reservation,
    blocks: u64,
}

impl ConnectionBudget {
    /// Reserves from `budget`, for connections served by `threads` threads.
    pub(crate) fn new(budget: Budget, limits: &OtlpLimits, threads: usize) -> Self {
        let list_bytes = limits.header_list_bytes.get();
        Self {
            connections: budget.new_share(0),
            budget,
            connection_bytes: CONNECTION_BYTES + 2 * list_bytes,
            busy_bytes: BUSY_BYTES + 4 * list_bytes,
            streams_bytes: u64::from(limits.concurrent_streams) * RESPONSE_BYTES,
            heads_bytes: threads as u64 * HEADS_PER_THREAD * list_bytes * HEAD_FACTOR,
            heads: Mutex::default(),
        }
    }

    /// Checks that the budget holds one connection with TLS and HTTP/2.
    ///
    /// # Errors
    /// The smallest budget that suffices, if this one is smaller.
    pub(crate) fn check_budget(&self) -> Result<(), u64> {
        let needed_bytes = (self.one_connection_bytes() * CONNECTIONS).max(self.one_client_bytes());
        if self.budget.limit_bytes() < needed_bytes { Err(needed_bytes) } else { Ok(()) }
    }

    /// Returns the bytes of one client's connection, its request and all header lists, with TLS and
    /// HTTP/2.
    pub(crate) fn one_client_bytes(&self) -> u64 {
        self.heads_bytes + self.one_connection_bytes() + REQUEST_BYTES
    }

    fn one_connection_bytes(&self) -> u64 {
        let http2_bytes = IDLE_BYTES + self.busy_bytes + self.streams_bytes;
        TLS_BYTES + http2_bytes.max(self.connection_bytes)
    }

    /// Reserves budget for a request, until it is answered.
    pub(crate) fn reserve_request(&self) -> Option<Reservation> {
        self.budget.try_reserve(REQUEST_BYTES)
    }

    /// Reserves budget for a connection, from its beginning on.
    pub(crate) fn reserve_connection(&self, tls: bool) -> Option<Reservation> {
        // The budget follows the process's memory limit, which may change.
        let shares = MemoryShares::of_budget(self.budget.limit_bytes());
        self.connections.set_limit(shares.connections_bytes());
        self.connections.try_reserve(self.connection_bytes + if tls { TLS_BYTES } else { 0 })
    }

    /// Turns a connection's first reservation into one for HTTP/2.
    pub(crate) fn reserve_http2(
        &self,
        mut room: Reservation,
        tls: bool,
        short: StreamShortage,
    ) -> Option<Http2Reservation> {
        let idle_bytes = IDLE_BYTES + if tls { TLS_BYTES } else { 0 };
        if !room.try_resize(idle_bytes) {
            return None;
        }
        let mut shared = lock(&self.heads);
        let heads = match shared.upgrade() {
            Some(heads) => heads,
            None => Arc::new(self.budget.try_reserve(self.heads_bytes)?),
        };
        *shared = Arc::downgrade(&heads);
        let busy_bytes = self.busy_bytes;
        Some(Http2Reservation {
            reservation: room,
            idle_bytes,
            busy_bytes,
            streams: 0,
            short,
            _heads: heads,
        })
    }

    /// Returns the reservation of an empty header table.
    pub(crate) fn empty_table(&self) -> TableReservation {
        TableReservation { reservation: self.connections.empty_reservation(), blocks: 0 }
    }
}

impl Http2Reservation {
    /// Reserves budget for this many open streams; false if it doesn't cover all.
    pub(crate) fn cover_streams(&mut self, streams: usize) -> bool {
        if streams != self.streams {
            let busy_bytes = if streams > 0 { self.busy_bytes } else { 0 };
            let bytes = self.idle_bytes + busy_bytes + streams as u64 * RESPONSE_BYTES;
            if self.reservation.try_resize(bytes) {
                self.streams = streams;
            }
        }
        let is_short = streams > self.streams;
        self.short.0.store(is_short, Ordering::Relaxed);
        !is_short
    }

    /// Returns whether this many streams can be refused one by one.
    pub(crate) fn can_refuse(&self, streams: usize) -> bool {
        streams <= self.streams + SHORT_STREAMS
    }
}

impl TableReservation {
    /// Reserves budget for one more block that added to the table; false if there is none.
    #[must_use]
    pub(crate) fn add_block(&mut self) -> bool {
        // Each block adds at least one entry, and that many entries evict the oldest.
        self.blocks = (self.blocks + 1).min(TABLE_BLOCKS);
        self.reservation.try_resize(self.blocks * TABLE_BLOCK_BYTES)
    }

    /// Frees the reservation of a table that was emptied.
    pub(crate) fn release_all(&mut self) {
        self.blocks = 0;
        let _ = self.reservation.try_resize(0);
    }
}

#[cfg(test)]
mod tests;
