//! The parts of batches: rows for a table and messages that can't be stored, before they are taken,
//! while they are in work, and once they were refused.

use millrace_ledger::{PartName, Ticket};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{Block, DeadLetter, Insert, Origin, Rejection, TableIndex};
use millrace_wire::Signal;

use super::partition::Key;

/// A part of a batch that nobody has taken yet.
pub(super) enum Work {
    /// Rows for a table.
    Insert(Ticket<Key>, Insert),
    /// A message that can't be stored, and what covers it.
    Letter(Ticket<Key>, Box<DeadLetter>, Reservation),
}

impl Work {
    pub(super) fn ticket(&self) -> &Ticket<Key> {
        match self {
            Self::Insert(ticket, _) | Self::Letter(ticket, ..) => ticket,
        }
    }

    pub(super) fn signal_and_records(&self) -> (Signal, u64) {
        match self {
            Self::Insert(_, insert) => (insert.origin.signal, insert.block.records),
            Self::Letter(_, letter, _) => (letter.signal, 1),
        }
    }
}

/// A part in work.
pub(super) enum OpenPart {
    /// Rows for a table, and what is needed to find the bad ones among them.
    Insert { ticket: Ticket<Key>, part: Part, records: u64 },
    /// A message on its way to the dead-letter topic, which keeps it until it is there: what covers
    /// it is given back then.
    Letter { ticket: Ticket<Key>, signal: Signal, reason: &'static str, _cover: Reservation },
    /// Rows that were refused as a whole and are being salvaged.
    Salvage { ticket: Ticket<Key>, signal: Signal, records: u64 },
}

/// What is needed to find the bad rows of a part.
pub(super) struct Part {
    pub(super) origin: Origin,
    pub(super) name: PartName,
    pub(super) table: TableIndex,
    pub(super) day: i32,
}

impl Part {
    pub(super) fn of(block: &Block, origin: Origin) -> Self {
        let Block { table, slice, .. } = block;
        Self { origin, name: name_of(block), table: *table, day: slice.day }
    }
}

/// A part that waits for its salvage.
pub(super) struct Refused {
    pub(super) ticket: Ticket<Key>,
    pub(super) part: Part,
    pub(super) records: u64,
    pub(super) rejection: Rejection,
}

/// A part's name in commits: by the table's name, which outlives its place in a list.
pub(super) fn name_of(block: &Block) -> PartName {
    /// FNV-1a (Fowler, Noll and Vo): the same on every machine and in every release.
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    let table = block.table_name.bytes().fold(OFFSET_BASIS, mix);
    PartName { table, day: block.slice.day }
}
