//! A partition's state in its worker, with its open batch.

use std::time::Instant;

use millrace_ledger::{Cut, Intent, OffsetRange};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{DeadLetter, Encoder, TableIndex};
use rdkafka::topic_partition_list::Offset;

use crate::batches::outcomes::Outcomes;

/// The largest difference of producers' clocks, in milliseconds. A partition that begins again with
/// messages as new as those read last, within this difference, was recreated; with older ones it is
/// being read again.
const CLOCKS_DIFFER_MILLIS: i64 = 60_000;

/// An assigned partition.
pub(crate) struct AssignedPartition {
    /// The batch being filled.
    pub(crate) open: Option<OpenBatch>,
    /// The timestamp of the last accepted message.
    pub(crate) last_timestamp_millis: Option<i64>,
    /// Messages below this were already accepted.
    pub(crate) next_offset: i64,
    /// Whether that is known, so that a later message shows a gap; it isn't if nothing was ever
    /// committed or accepted.
    pub(crate) has_position: bool,
    /// The partition is being released: no more messages are accepted from it.
    pub(crate) leaving: bool,
    /// One of its tables that currently accepts nothing: the partition isn't read until that ends.
    pub(crate) stalled_table: Option<TableIndex>,
    /// The batch it repeats didn't fit into the budget alongside others': it isn't read until it
    /// fits.
    pub(crate) lacks_memory: bool,
    /// Whether the client reads it. `None` at first: the client remembers a pause across
    /// assignments.
    pub(crate) is_read: Option<bool>,
    /// The target of a seek that hasn't succeeded yet. No messages are accepted until then.
    pub(crate) pending_seek: Option<Offset>,
    /// What is known of the parts of batches that may be read again.
    pub(crate) outcomes: Outcomes,
    /// Since when a divided batch waits for the answers to the others.
    pub(crate) divided_since: Option<Instant>,
    /// The offset that is awaited though retention has deleted it, and since when.
    pub(crate) awaits_deleted: Option<(i64, Instant)>,
}

impl AssignedPartition {
    pub(crate) fn new(next_offset: Option<i64>) -> Self {
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
    pub(crate) fn position(&self) -> Offset {
        if self.has_position { Offset::Offset(self.next_offset) } else { Offset::Beginning }
    }

    /// Returns whether a message below [`AssignedPartition::next_offset`] differs from the one
    /// accepted there before: its time shows that, or no accepted message can be compared with it.
    pub(crate) fn is_another(&self, millis: Option<i64>) -> bool {
        match (self.last_timestamp_millis, millis) {
            (Some(last), Some(millis)) => millis >= last - CLOCKS_DIFFER_MILLIS,
            _ => true,
        }
    }

    /// Returns the time of the oldest message that isn't cut, or else of the last accepted one.
    pub(crate) fn open_timestamp_millis(&self) -> Option<i64> {
        let open = self.open.as_ref().map(|open| open.first_timestamp_millis);
        open.or(self.last_timestamp_millis)
    }
}

/// A batch being filled.
pub(crate) struct OpenBatch {
    pub(crate) encoder: Box<dyn Encoder>,
    /// Covers the encoder's memory and the bodies it will be cut into.
    pub(crate) reservation: Reservation,
    pub(crate) first_offset: i64,
    pub(crate) next_offset: i64,
    pub(crate) first_timestamp_millis: i64,
    pub(crate) opened: Instant,
    /// How its end is decided.
    pub(crate) cut: Cut,
    pub(crate) records: u64,
    /// Its messages that can't be stored.
    pub(crate) dead_letters: Vec<DeadLetter>,
    pub(crate) dead_letter_bytes: usize,
    /// Its only message, if it is the last piece of a divided range.
    pub(crate) message: Option<Box<DeadLetter>>,
    /// Its bytes at the last check, as counted in the worker's sum.
    pub(crate) bytes: usize,
}

impl OpenBatch {
    /// Returns whether its end is fixed, so that it can't be cut to free memory: it repeats an
    /// earlier attempt, or is a piece of a divided batch.
    pub(crate) fn has_fixed_end(&self) -> bool {
        self.cut.range().is_some()
    }

    /// Returns whether it repeats an earlier attempt.
    pub(crate) fn is_repeat(&self) -> bool {
        matches!(self.cut, Cut::Exactly(_))
    }

    /// Returns its range: exactly an earlier attempt's, if it repeats one.
    pub(crate) fn to_intent(&self) -> Option<Intent> {
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
