//! Writes open ranges into the metadata of a Kafka commit, and reads them back for the partition's
//! next owner.
//!
//! The commit of a partition names each batch before its insert. After a crash, the next owner
//! reads the names and cuts the same ranges again: each insert repeats the rows and the token of
//! the first attempt, and ClickHouse drops those it has.
//!
//! The text is `millrace:4:`, the topic's number in 8 digits (nothing if it is unknown), `:`, and
//! then `<first>+<span>@<time>` per batch, joined by commas. The number shows that a topic was
//! deleted and recreated since the commit. `first` is counted from the end of the batch before (at
//! the start, from the committed offset); `time` is that of the batch's first message, which is
//! part of its tokens. Numbers are hexadecimal. Behind that, each [division](crate::division) is
//! written as `;<next>-<span>`, its end counted from the committed offset; then each refused part
//! as `!<table>.<day>`, and `+` if there are more; then each divided piece as `~<path>.<parts>`:
//! the number of the piece, of the piece in that one and so on, and the bits of its refused parts.
//! Text that is foreign, damaged or of another version is an error; the caller then reads at least
//! once from the committed offset.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::division::{self, Division, Divisions, MAX_DIVISIONS_BYTES};
use crate::range::OffsetRange;

/// The most ranges of one partition that may be open at once. Their list must fit into the metadata
/// of a Kafka commit (see [`crate::MAX_METADATA_BYTES`]). Each takes at most 51 bytes there (three
/// numbers of 16 hexadecimal digits and three separators), and one more than this limit may be
/// named: 20 + 65 x 51 = 3,335. The other 761 bytes are for divisions.
pub const MAX_OPEN_RANGES: usize = 64;

/// The longest metadata that a broker accepts by default (`offset.metadata.max.bytes`).
pub const MAX_METADATA_BYTES: usize = 4096;

const HEADER: &str = "millrace:4:";

/// A batch as a commit names it: everything that determines its inserts, whichever worker cuts it
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The batch's offsets.
    pub range: OffsetRange,
    /// The time of its first message when it was first cut, in milliseconds. Kafka may have deleted
    /// that message before the batch is cut again.
    pub first_millis: i64,
}

impl Intent {
    /// Returns a batch.
    #[must_use]
    pub fn new(range: OffsetRange, first_millis: i64) -> Self {
        Self { range, first_millis }
    }
}

/// The content of a commit's metadata: what the partition's next owner must do exactly as this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// A number derived from the topic's id, if it is known: commits of another topic that had the
    /// same name have another one.
    pub topic: Option<u32>,
    /// The batches that were already cut, in order. Those inside a division are pieces of it.
    pub ranges: Vec<Intent>,
    /// The divided ranges, in order.
    pub divisions: Vec<Division>,
}

impl Promises {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topic.is_none() && self.ranges.is_empty() && self.divisions.is_empty()
    }
}

impl Promises {
    /// Whether each range that overlaps a division is one of its pieces.
    fn has_only_pieces(&self) -> bool {
        let divisions = Divisions::new(self.divisions.clone());
        self.ranges.iter().all(|Intent { range, .. }| match divisions.piece_at(range.first()) {
            Some(piece) => piece == *range,
            None => divisions.first_after(range.first()).is_none_or(|at| at >= range.next()),
        })
    }
}

impl From<Vec<Intent>> for Promises {
    fn from(ranges: Vec<Intent>) -> Self {
        Self { ranges, ..Self::default() }
    }
}

/// Why commit metadata could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// Another program or another version of this one wrote it.
    #[error("the commit metadata does not begin with {HEADER:?}")]
    Foreign,
    /// It has our header and is damaged.
    #[error("the commit metadata is damaged at byte {at}")]
    Damaged {
        /// The position of the damage, in bytes from the start.
        at: usize,
    },
    /// It names more ranges than this version ever writes (one over the limit: see `has_room`).
    #[error("the commit metadata names more than {MAX_OPEN_RANGES} ranges")]
    TooMany,
}

/// Writes what is promised after `committed`. Without promises the text is empty. A
/// [`crate::Ledger`] never returns more promises than fit ([`MAX_OPEN_RANGES`]) or promises before
/// `committed`.
#[must_use]
pub fn encode_metadata(committed: i64, promises: &Promises) -> String {
    if promises.is_empty() {
        return String::new();
    }
    let Promises { topic, ranges, divisions } = promises;
    let mut text = String::with_capacity(HEADER.len() + ranges.len() * 24);
    text.push_str(HEADER);
    // Writing to a String can't fail.
    let _ = topic.map_or(Ok(()), |topic| write!(text, "{topic:08x}"));
    text.push(':');
    let mut from = committed;
    for (i, Intent { range, first_millis }) in ranges.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        // Negative numbers are written as two's complement.
        let _ = write!(text, "{:x}+{:x}@{first_millis:x}", range.first() - from, range.span());
        from = range.next();
    }
    division::write(divisions, committed, &mut text);
    text
}

/// Reads the text that [`encode_metadata`] wrote for the same committed offset.
///
/// # Errors
/// If the text is foreign, damaged, or names too many ranges.
pub fn decode_metadata(committed: i64, text: &str) -> Result<Promises, IntentError> {
    if text.is_empty() {
        return Ok(Promises::default());
    }
    let list = text.strip_prefix(HEADER).ok_or(IntentError::Foreign)?;
    let damaged = IntentError::Damaged { at: HEADER.len() };
    let (topic, list) = list.split_once(':').ok_or_else(|| damaged.clone())?;
    let mut at = HEADER.len() + topic.len() + 1;
    let (list, divided) = list.split_once(';').map_or((list, None), |(a, b)| (a, Some(b)));
    let mut promises = Promises::default();
    if !topic.is_empty() {
        let topic = u32::from_str_radix(topic, 16).map_err(|_| damaged.clone())?;
        promises.topic = Some(topic);
    }
    let mut from = committed;
    for item in list.split(',').filter(|_| !list.is_empty()) {
        if promises.ranges.len() > MAX_OPEN_RANGES {
            return Err(IntentError::TooMany);
        }
        let batch = parse_intent(from, item).ok_or(IntentError::Damaged { at })?;
        from = batch.range.next();
        at += item.len() + 1;
        promises.ranges.push(batch);
    }
    if let Some(divided) = divided {
        if divided.len() >= MAX_DIVISIONS_BYTES {
            return Err(IntentError::TooMany);
        }
        let divisions = division::read(committed, divided).ok_or(IntentError::Damaged { at })?;
        promises.divisions = divisions;
    }
    // Whatever has another form than ours is damaged, also pieces that no division has.
    let is_ours = promises.has_only_pieces() && encode_metadata(committed, &promises) == text;
    if is_ours { Ok(promises) } else { Err(damaged) }
}

/// Reads one batch as [`encode_metadata`] writes it, counted from the end of the one before.
fn parse_intent(from: i64, item: &str) -> Option<Intent> {
    let (gap, rest) = item.split_once('+')?;
    let (span, millis) = rest.split_once('@')?;
    let first_millis = u64::from_str_radix(millis, 16).ok()?.cast_signed();
    Some(Intent::new(range(from, gap, span)?, first_millis))
}

fn range(from: i64, gap: &str, span: &str) -> Option<OffsetRange> {
    let number = |text| i64::from_str_radix(text, 16).ok();
    let first = from.checked_add(number(gap)?)?;
    OffsetRange::new(first, first.checked_add(number(span)?)?).ok()
}

/// How the ranges of an earlier attempt restrict the batch of the message at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No open range is ahead: the batch may be cut by rows, bytes and age.
    Free,
    /// The message is before an open range: the batch may be cut freely up to `limit`.
    Before {
        /// The first offset of the open range ahead.
        limit: i64,
    },
    /// The message is inside an open range: its batch is exactly that range.
    Exactly(Intent),
    /// The message is inside a divided range: its batch is exactly this piece, whose refused parts
    /// [`crate::Ledger::refused_parts`] returns.
    Piece(OffsetRange),
}

impl Cut {
    /// The exact range of the batch, if it is fixed.
    #[must_use]
    pub fn range(self) -> Option<OffsetRange> {
        match self {
            Self::Exactly(intent) => Some(intent.range),
            Self::Piece(range) => Some(range),
            Self::Free | Self::Before { .. } => None,
        }
    }

    /// Returns the cut that also ends before `first`.
    pub(crate) fn before(self, first: i64) -> Self {
        match self {
            Self::Free => Self::Before { limit: first },
            Self::Before { limit } => Self::Before { limit: limit.min(first) },
            exact => exact,
        }
    }
}

/// The batches that a partition must cut again, in order, after a restart or a rewind.
#[derive(Debug, Default)]
pub(crate) struct CutPlan {
    batches: VecDeque<Intent>,
}

impl CutPlan {
    /// Returns a plan of batches in order, as commits name them.
    pub(crate) fn new(batches: Vec<Intent>) -> Self {
        Self { batches: batches.into() }
    }

    /// Returns how the message at `offset` may be cut.
    pub(crate) fn cut_at(&self, offset: i64) -> Cut {
        match self.batches.iter().find(|batch| batch.range.next() > offset) {
            None => Cut::Free,
            Some(batch) if batch.range.contains(offset) => Cut::Exactly(*batch),
            Some(batch) => Cut::Before { limit: batch.range.first() },
        }
    }

    /// Adds a batch before all others.
    pub(crate) fn push_front(&mut self, batch: Intent) {
        self.batches.push_front(batch);
    }

    /// Removes the batches that begin before `offset`: they were cut again or passed.
    pub(crate) fn forget_before(&mut self, offset: i64) {
        while self.batches.front().is_some_and(|batch| batch.range.first() < offset) {
            self.batches.pop_front();
        }
    }

    pub(crate) fn batches(&self) -> impl Iterator<Item = Intent> + '_ {
        self.batches.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }
}

#[cfg(test)]
mod tests;
