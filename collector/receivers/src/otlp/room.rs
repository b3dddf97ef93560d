//! What connections take of the byte budget, besides the bodies of their requests.
//!
//! A connection finds room before anything is read from it, and what one holds at most is a named
//! constant. All connections together have a share of the budget only, so that clients who say
//! nothing leave room for those who send records. Whoever finds no room is hung up on at once.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use millrace_config::OtlpLimits;
use millrace_pipeline::budget::{Budget, Reservation};

use super::guard::{HEADS_PER_TURN, TABLE_BLOCKS};

/// The share of the budget for connections, as a divisor: half, so that the default limit of 1 GiB
/// has room for 1,024 connections with HTTP/2, which is the default of `limits.connections`.
const CONNECTIONS_SHARE: u64 = 2;

/// What any connection takes, in bytes, and twice the longest header list: a read buffer of 32 KiB,
/// an answer, and the task that serves it.
const CONNECTION_BYTES: u64 = 48 * 1024;

/// What TLS takes beside it: a handshake's message of 64 KiB at most, later records of 16 KiB.
const TLS_BYTES: u64 = 64 * 1024;

/// What HTTP/2 takes beside it, and twice the longest header list for a block without an end: the
/// buffers it reads into (24 KiB) and writes from (16 KiB), and what a turn reads of bodies (32).
const HTTP2_BYTES: u64 = 72 * 1024;

/// What an answer takes that its client doesn't: each stream has one at most.
const ANSWER_BYTES: u64 = 1024;

/// What a header block that adds to the header table keeps: entries are slices of the buffer that
/// they were read into, which is a frame of 16 KiB and up to 8 KiB of the next.
const TABLE_BLOCK_BYTES: u64 = 24 * 1024;

/// What a request takes until it is answered, without its body, in bytes: its stream and its task.
/// Measured: 4,000 requests without an end took 2.2 KiB each.
const REQUEST_BYTES: u64 = 4 * 1024;

/// What a header list takes in memory, as a multiple of its length: a header counts its own bytes
/// and 32, so 33 at least, for which the map holds 104, half as much again while it grows, and the
/// name an allocation of 32: six times. The wire's bytes it was read from are two times more.
const HEAD_FACTOR: u64 = 8;

/// Header lists that a thread has at once: those of a turn, and as much again of what was read with
/// its last.
const HEADS_PER_THREAD: u64 = 2 * HEADS_PER_TURN as u64;

/// Where connections and requests find room.
pub(crate) struct Rooms {
    budget: Budget,
    connections: Budget,
    connection_bytes: u64,
    http2_bytes: u64,
    /// Header lists that have been read and not yet been looked at. A thread has those of one
    /// connection at a time, and no others: see [`Turn`](super::guard::Turn).
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

/// A connection's room for HTTP/2.
pub(crate) struct Http2Room {
    _connection: Room,
    _heads: Arc<Reservation>,
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
        let answers_bytes = u64::from(limits.concurrent_streams) * ANSWER_BYTES;
        Self {
            budget,
            connections: Budget::new(0),
            connection_bytes: CONNECTION_BYTES + 2 * list_bytes,
            http2_bytes: HTTP2_BYTES + 2 * list_bytes + answers_bytes,
            heads_bytes: threads as u64 * HEADS_PER_THREAD * list_bytes * HEAD_FACTOR,
            heads: Mutex::default(),
        }
    }

    /// What there must be for one connection, with TLS and HTTP/2.
    ///
    /// # Errors
    /// The least that the budget would have to have, where it has less.
    pub(crate) fn suffice(&self) -> Result<(), u64> {
        let connection_bytes = self.connection_bytes + TLS_BYTES + self.http2_bytes;
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

    /// What a connection takes beside that when it speaks HTTP/2.
    pub(crate) fn http2(&self) -> Option<Http2Room> {
        let connection = self.room(self.http2_bytes)?;
        let mut shared = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let heads = match shared.upgrade() {
            Some(heads) => heads,
            None => Arc::new(self.budget.try_reserve(self.heads_bytes)?),
        };
        *shared = Arc::downgrade(&heads);
        Some(Http2Room { _connection: connection, _heads: heads })
    }

    /// Room for a header table that is still empty.
    pub(crate) fn table(&self) -> TableRoom {
        TableRoom { room: self.nothing(), blocks: 0 }
    }

    fn nothing(&self) -> Room {
        Room { budget: self.budget.nothing(), share: self.connections.nothing() }
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
mod tests {
    use super::{CONNECTIONS_SHARE, Rooms, TABLE_BLOCK_BYTES};
    use crate::otlp::guard::TABLE_BLOCKS;
    use millrace_config::{ByteSize, OtlpLimits};
    use millrace_pipeline::budget::Budget;

    fn rooms(budget: &Budget) -> Rooms {
        Rooms::new(budget.clone(), &OtlpLimits::default(), 2)
    }

    /// Scenario: connections until there is no more room, of both kinds. Guarantee: they have a
    /// half of the budget, and what is refused takes nothing; all of it returns.
    #[test]
    fn connections_have_a_share_of_the_budget() {
        let budget = Budget::new(64 << 20);
        let rooms = rooms(&budget);
        let share = budget.limit_bytes() / CONNECTIONS_SHARE;
        let plain: Vec<_> = std::iter::from_fn(|| rooms.connection(false)).collect();
        assert_eq!(plain.len() as u64, share / (64 << 10));
        assert!(budget.used_bytes() <= share && rooms.http2().is_none());
        drop(plain);
        assert_eq!(budget.used_bytes(), 0);
        let both = || Some((rooms.connection(true)?, rooms.http2()?));
        let http2: Vec<_> = std::iter::from_fn(both).collect();
        // 64 KiB, as much for TLS, and 188 KiB.
        assert_eq!(http2.len() as u64, share / (316 << 10));
        // Lists that are being read are beside the share, once for all connections: 2 MiB.
        assert!(budget.used_bytes() <= share + (2 << 20));
        drop(http2);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: budgets at the least for one connection and a byte less, with lists of the usual
    /// length and of the longest. Guarantee: told apart, and at the least a connection has room.
    #[test]
    fn a_budget_too_small_for_one_connection_is_told() {
        let long = ByteSize::mib(1);
        for header_list_bytes in [OtlpLimits::default().header_list_bytes, long] {
            let limits = OtlpLimits { header_list_bytes, ..OtlpLimits::default() };
            let least = Rooms::new(Budget::new(0), &limits, 2).suffice().unwrap_err();
            let one_less = Rooms::new(Budget::new(least - 1), &limits, 2);
            assert_eq!(one_less.suffice(), Err(least));
            let rooms = Rooms::new(Budget::new(least), &limits, 2);
            assert_eq!(rooms.suffice(), Ok(()));
            assert!(rooms.connection(true).is_some_and(|_held| rooms.http2().is_some()));
        }
    }

    /// Scenario: a budget that requests have filled. Guarantee: no connection and no request is let
    /// in, until there is room again.
    #[test]
    fn a_full_budget_lets_nobody_in() {
        let budget = Budget::new(1 << 20);
        let rooms = rooms(&budget);
        let held = budget.try_reserve((1 << 20) - 1000);
        assert!(rooms.connection(false).is_none() && rooms.request().is_none());
        drop(held);
        assert!(rooms.connection(false).is_some() && rooms.request().is_some());
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: a header table that is added to, block by block, and emptied. Guarantee: it has
    /// room for each, for as many as can be in it, and none when it is empty.
    #[test]
    fn a_header_table_has_room_for_what_it_can_keep() {
        let budget = Budget::new(64 << 20);
        let rooms = rooms(&budget);
        let _connection = rooms.connection(false);
        let before = budget.used_bytes();
        let mut table = rooms.table();
        assert!((0..1000).all(|_| table.grow()));
        assert_eq!(budget.used_bytes() - before, TABLE_BLOCKS * TABLE_BLOCK_BYTES);
        table.empty();
        assert_eq!(budget.used_bytes(), before);
        let mut tables: Vec<_> = (0..20).map(|_| rooms.table()).collect();
        assert!(!tables.iter_mut().all(|table| (0..1000).all(|_| table.grow())));
        drop(tables);
        assert_eq!(budget.used_bytes(), before);
    }
}
