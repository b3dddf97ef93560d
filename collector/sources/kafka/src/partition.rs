//! A partition's state in its worker, with its open batch.

use std::time::Instant;

use millrace_ledger::{Cut, Intent, OffsetRange};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{DeadLetter, Encoder, TableIndex};
use rdkafka::topic_partition_list::Offset;

use super::outcomes::Outcomes;

/// The largest difference of producers' clocks, in milliseconds. A partition that begins again with
/// messages as new as those read last, within this difference, was recreated; with older ones it is
/// being read again.
const CLOCKS_DIFFER_MILLIS: i64 = 60_000;

/// An assigned partition.
pub(super) struct AssignedPartition {
    /// The batch being filled.
    pub(super) open: Option<OpenBatch>,
    /// The timestamp of the last accepted message.
    pub(super) last_timestamp_millis: Option<i64>,
    /// Messages below this were already accepted.
    pub(super) next_offset: i64,
    /// Whether that is known, so that a later message shows a gap; it isn't if nothing was ever
    /// committed or accepted.
    pub(super) has_position: bool,
    /// The partition is being released: no more messages are accepted from it.
    pub(super) leaving: bool,
    /// One of its tables that currently accepts nothing: the partition isn't read until that ends.
    pub(super) stalled_table: Option<TableIndex>,
    /// The batch it repeats didn't fit into the budget alongside others': it isn't read until it
    /// fits.
    pub(super) lacks_memory: bool,
    /// Whether the client reads it. `None` at first: the client remembers a pause across
    /// assignments.
    pub(super) is_read: Option<bool>,
    /// The target of a seek that hasn't succeeded yet. No messages are accepted until then.
    pub(super) pending_seek: Option<Offset>,
    /// What is known of the parts of batches that may be read again.
    pub(super) outcomes: Outcomes,
    /// Since when a divided batch waits for the answers to the others.
    pub(super) divided_since: Option<Instant>,
    /// The offset that is awaited though retention has deleted it, and since when.
    pub(super) awaits_deleted: Option<(i64, Instant)>,
}

impl AssignedPartition {
    pub(super) fn new(next_offset: Option<i64>) -> Self {
        Self {
            open: None,
            last_timestamp_millis: None,
            next_offset: next_offset.unwrap_or(0),
            has_position: next_offset.is_some(),
            leaving: false,
            stalled_table: None,
            lacks_memory: false,
            is_read: None,
            pending_seek: None,
            outcomes: Outcomes::default(),
            divided_since: None,
            awaits_deleted: None,
        }
    }

    /// Returns where to read on: behind the last accepted message.
    pub(super) fn position(&self) -> Offset {
        if self.has_position { Offset::Offset(self.next_offset) } else { Offset::Beginning }
    }

    /// Returns whether a message below [`AssignedPartition::next_offset`] differs from the one
    /// accepted there before: its time shows that, or no accepted message can be compared with it.
    pub(super) fn is_another(&self, millis: Option<i64>) -> bool {
        match (self.last_timestamp_millis, millis) {
            (Some(last), Some(millis)) => millis >= last - CLOCKS_DIFFER_MILLIS,
            _ => true,
        }
    }

    /// Returns the time of the oldest message that isn't cut, or else of the last accepted one.
    pub(super) fn open_timestamp_millis(&self) -> Option<i64> {
        let open = self.open.as_ref().map(|open| open.first_timestamp_millis);
        open.or(self.last_timestamp_millis)
    }
}

/// A batch being filled.
pub(super) struct OpenBatch {
    pub(super) encoder: Box<dyn Encoder>,
    /// Covers the encoder's memory and the bodies it will be cut into.
    pub(super) reservation: Reservation,
    pub(super) first_offset: i64,
    pub(super) next_offset: i64,
    pub(super) first_timestamp_millis: i64,
    pub(super) opened: Instant,
    /// How its end is decided.
    pub(super) cut: Cut,
    pub(super) records: u64,
    /// Its messages that can't be stored.
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) dead_letter_bytes: usize,
    /// Its only message, if it is the last piece of a divided range.
    pub(super) message: Option<Box<DeadLetter>>,
    /// Its bytes at the last check, as counted in the worker's sum.
    pub(super) bytes: usize,
}

impl OpenBatch {
    /// Returns whether its end is fixed, so that it can't be cut to free memory: it repeats an
    /// earlier attempt, or is a piece of a divided batch.
    pub(super) fn has_fixed_end(&self) -> bool {
        self.cut.range().is_some()
    }

    /// Returns whether it repeats an earlier attempt.
    pub(super) fn is_repeat(&self) -> bool {
        matches!(self.cut, Cut::Exactly(_))
    }

    /// Returns its range: exactly an earlier attempt's, if it repeats one.
    pub(super) fn to_intent(&self) -> Option<Intent> {
        match self.cut {
            Cut::Exactly(intent) => Some(intent),
            Cut::Piece(range) => Some(Intent::new(range, self.first_timestamp_millis)),
            Cut::Free | Cut::Before { .. } => {
                let range = OffsetRange::new(self.first_offset, self.next_offset).ok()?;
                Some(Intent::new(range, self.first_timestamp_millis))
            }
        }
    }
}
