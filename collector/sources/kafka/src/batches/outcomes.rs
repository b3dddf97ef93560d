//! What is known of the parts of batches that a partition may read again.
//!
//! A rewind makes the ledger forget all answers to batches that aren't committed. Without this
//! record, parts that were answered would be sent again after each rewind, and a partition that
//! rewinds often would never finish a batch of several parts.

use std::collections::{HashMap, HashSet};

use millrace_ledger::{Generation, OffsetRange, Ticket};
use millrace_pipeline::sink::{BlockSlice, Rejection, TableIndex};

use crate::group::partition_key::PartitionKey;

/// The most parts that a partition records: of 64 open batches two tables and four days. Each takes
/// about 50 bytes; the text of a rejection, at most 300 more. A part beyond that is only sent
/// again, and counts as possibly stored.
const MAX_PARTS: usize = 512;
/// The most dead letters that a partition records, 16 bytes each. One beyond that is only written
/// again.
const MAX_DEAD_LETTERS: usize = 1024;

/// What is known of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartStatus {
    /// It is stored.
    Stored,
    /// Nothing of it is stored: its next attempt counts as the first one.
    Unstored,
    /// It was refused for its rows.
    Refused(Rejection),
}

/// A dead letter: of a message as it was read, or of one whose rows were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeadLetterId {
    pub(crate) offset: i64,
    pub(crate) is_refused: bool,
}

type PartId = (OffsetRange, TableIndex, BlockSlice);

/// The record of one partition during one assignment.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    parts: HashMap<PartId, PartStatus>,
    dead_letters: HashSet<DeadLetterId>,
    /// The assignments or rewinds in which batches were cut first and last.
    first_cut_in: Option<Generation>,
    last_cut_in: Option<Generation>,
}

impl Outcomes {
    /// Records that a batch was cut.
    pub(crate) fn record_cut(&mut self, ticket: &Ticket<PartitionKey>) {
        self.first_cut_in.get_or_insert(ticket.generation);
        self.last_cut_in = Some(ticket.generation);
    }

    /// Records the answer to a part of a batch, which may be read again. What is stored stays
    /// stored. Any other answer after batches were cut again is ignored: it says nothing about the
    /// part's next attempt, which may be stored.
    pub(crate) fn record(
        &mut self,
        ticket: &Ticket<PartitionKey>,
        table: TableIndex,
        slice: BlockSlice,
        outcome: PartStatus,
    ) {
        let is_latest = self.last_cut_in == Some(ticket.generation);
        let is_ours = self.first_cut_in.is_some_and(|first| first <= ticket.generation);
        let counts = is_latest || (is_ours && outcome == PartStatus::Stored);
        let part = (ticket.range, table, slice);
        if counts && (self.parts.len() < MAX_PARTS || self.parts.contains_key(&part)) {
            self.parts.insert(part, outcome);
        }
    }

    /// Returns what is known of a part that is cut again.
    pub(crate) fn of_part(
        &self,
        range: OffsetRange,
        table: TableIndex,
        slice: BlockSlice,
    ) -> Option<&PartStatus> {
        self.parts.get(&(range, table, slice))
    }

    /// Returns whether a part of a batch is stored.
    pub(crate) fn has_stored(&self, range: OffsetRange) -> bool {
        let is_stored = |status: &PartStatus| *status == PartStatus::Stored;
        self.parts.iter().any(|((of, ..), status)| *of == range && is_stored(status))
    }

    /// Forgets a part that is sent again.
    pub(crate) fn forget_part(&mut self, range: OffsetRange, table: TableIndex, slice: BlockSlice) {
        self.parts.remove(&(range, table, slice));
    }

    /// Records that the dead-letter topic has a dead letter.
    pub(crate) fn record_dead_letter(
        &mut self,
        ticket: &Ticket<PartitionKey>,
        dead_letter: DeadLetterId,
    ) {
        let is_ours = self.first_cut_in.is_some_and(|first| first <= ticket.generation);
        if is_ours && self.dead_letters.len() < MAX_DEAD_LETTERS {
            self.dead_letters.insert(dead_letter);
        }
    }

    /// Returns whether the dead-letter topic has a dead letter.
    pub(crate) fn has_dead_letter(&self, dead_letter: DeadLetterId) -> bool {
        self.dead_letters.contains(&dead_letter)
    }

    /// Forgets everything before the commit point.
    pub(crate) fn forget_before(&mut self, commit_point: i64) {
        self.parts.retain(|(range, ..), _| range.next() > commit_point);
        self.dead_letters.retain(|dead_letter| dead_letter.offset >= commit_point);
    }

    /// Forgets everything: the messages at these offsets are others now.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.dead_letters.clear();
    }
}

#[cfg(test)]
mod tests;
