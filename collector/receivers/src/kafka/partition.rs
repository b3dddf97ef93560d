//! One partition as its worker sees it: the batch being filled, and what is in flight.

use std::collections::VecDeque;
use std::time::Instant;

use millrace_ledger::{Cut, Intent, OffsetRange};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{DeadLetter, Encoder, TableIndex};
use rdkafka::topic_partition_list::Offset;

/// A partition's name inside a worker: the topic's place in the settings, and its number. Small,
/// because it is compared and copied for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) topic: u16,
    pub(super) partition: i32,
}

/// Largest difference of producers' clocks, in milliseconds. A partition that begins again with
/// messages as new as those read last, within this difference, was made anew; with older ones it is
/// being read again.
const CLOCKS_DIFFER_MILLIS: i64 = 60_000;

/// An assigned partition.
pub(super) struct Partition {
    /// The batch being filled.
    pub(super) open: Option<OpenBatch>,
    /// Batches cut and not yet below the commit point: their offsets and oldest time stamp.
    pub(super) flying: VecDeque<(OffsetRange, i64)>,
    /// The time stamp of the last message taken.
    pub(super) last_timestamp_millis: Option<i64>,
    /// Messages below this were taken already.
    pub(super) next_offset: i64,
    /// Whether that is known, so that a later message shows a gap; it isn't where nothing was ever
    /// committed or taken.
    pub(super) is_placed: bool,
    /// It is being given up: nothing more is taken from it.
    pub(super) leaving: bool,
    /// A table it writes to that takes nothing for now: it isn't read until that is over.
    pub(super) kept_back: Option<TableIndex>,
    /// The batch it repeats didn't fit into the budget beside others': it isn't read until there is
    /// room.
    pub(super) lacks_room: bool,
    /// The target of a seek that hasn't succeeded yet. Nothing is taken meanwhile.
    pub(super) goes_to: Option<Offset>,
    /// The offset that is awaited though retention has deleted it, and since when.
    pub(super) awaits_deleted: Option<(i64, Instant)>,
}

impl Partition {
    pub(super) fn new(next_offset: Option<i64>) -> Self {
        Self {
            open: None,
            flying: VecDeque::new(),
            last_timestamp_millis: None,
            next_offset: next_offset.unwrap_or(0),
            is_placed: next_offset.is_some(),
            leaving: false,
            kept_back: None,
            lacks_room: false,
            goes_to: None,
            awaits_deleted: None,
        }
    }

    /// Whether a message below [`Partition::next_offset`] is another one than the one taken there
    /// before: its time says so, or nothing was taken yet that it could be compared with.
    pub(super) fn is_another(&self, millis: Option<i64>) -> bool {
        match (self.last_timestamp_millis, millis) {
            (Some(last), Some(millis)) => millis >= last - CLOCKS_DIFFER_MILLIS,
            _ => true,
        }
    }

    /// Forgets batches that are done, and returns the age of the oldest other message.
    pub(super) fn oldest_timestamp_millis(&mut self, commit_point: Option<i64>) -> Option<i64> {
        let done = |range: &OffsetRange| commit_point.is_some_and(|point| range.next() <= point);
        while self.flying.front().is_some_and(|(range, _)| done(range)) {
            self.flying.pop_front();
        }
        let flying = self.flying.front().map(|(_, millis)| *millis);
        let open = || self.open.as_ref().map(|open| open.first_timestamp_millis);
        flying.or_else(open).or(self.last_timestamp_millis)
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
    /// Messages of it that can't be stored.
    pub(super) letters: Vec<DeadLetter>,
    pub(super) letter_bytes: usize,
    /// What it held when that was last looked at, as counted in the worker's sum.
    pub(super) bytes: usize,
}

impl OpenBatch {
    /// Whether it repeats an earlier try: its end is fixed, so it can't be cut to make room.
    pub(super) fn is_repeat(&self) -> bool {
        matches!(self.cut, Cut::Exactly(_))
    }

    /// Its range: exactly an earlier attempt's, if it repeats one.
    pub(super) fn intent(&self) -> Option<Intent> {
        match self.cut {
            Cut::Exactly(intent) => Some(intent),
            Cut::Free | Cut::Before { .. } => {
                let range = OffsetRange::new(self.first_offset, self.next_offset).ok()?;
                Some(Intent::new(range, self.first_timestamp_millis))
            }
        }
    }
}
