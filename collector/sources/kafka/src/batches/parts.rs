//! The parts of batches: rows for a table and messages that can't be stored, before they are
//! accepted, and while they are in flight.

use std::cell::RefCell;
use std::rc::Rc;

use millrace_ledger::{PartName, Ticket};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{Block, BlockSlice, DeadLetter, Insert, TableIndex};

use crate::batches::outcomes::DeadLetterId;
use crate::group::partition_key::PartitionKey;

/// A message that is a separate batch in a divided range, until its rows are stored. Its parts
/// share it, and the first one that is refused takes it.
pub(crate) type LastMessage = RefCell<Option<(Box<DeadLetter>, Reservation)>>;

/// A part of a batch that no sink has accepted yet: rows for a table.
pub(crate) struct PendingInsert {
    pub(crate) ticket: Ticket<PartitionKey>,
    pub(crate) insert: Insert,
    /// Its message, if it can't be divided further.
    pub(crate) message: Option<Rc<LastMessage>>,
}

/// A part in flight.
pub(crate) enum OpenPart {
    /// Rows for a table.
    Insert {
        ticket: Ticket<PartitionKey>,
        part: BlockName,
        records: u64,
        message: Option<Rc<LastMessage>>,
    },
    /// A message for the dead-letter topic. Its reservation is freed when the topic has it.
    DeadLetter {
        ticket: Ticket<PartitionKey>,
        id: DeadLetterId,
        reason: &'static str,
        bytes: u64,
        _cover: Reservation,
    },
}

impl OpenPart {
    /// Returns its partition and the number of its records.
    pub(crate) fn records(&self) -> (PartitionKey, u64) {
        match self {
            Self::Insert { ticket, records, .. } => (ticket.key, *records),
            Self::DeadLetter { ticket, .. } => (ticket.key, 1),
        }
    }
}

/// Identifies a block of a batch.
#[derive(Clone, Copy)]
pub(crate) struct BlockName {
    pub(crate) name: PartName,
    pub(crate) table: TableIndex,
    pub(crate) slice: BlockSlice,
}

impl BlockName {
    pub(crate) fn of(block: &Block) -> Self {
        let Block { table, slice, .. } = block;
        Self { name: name_of(block), table: *table, slice: *slice }
    }
}

/// Returns a part's name in commits. It contains the table's name, because the index in a list may
/// change.
pub(crate) fn name_of(block: &Block) -> PartName {
    /// FNV-1a (Fowler, Noll and Vo): the same on every machine and in every release.
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    let table = block.table_name.bytes().fold(OFFSET_BASIS, mix);
    PartName { table, day: block.slice.day }
}
