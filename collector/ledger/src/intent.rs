//! Open ranges as the metadata of a Kafka commit, and what they ask of the next reader.
//!
//! Before a batch is inserted, the commit of its partition names it. After a crash the next
//! owner reads the names back and cuts the same ranges again, so that every insert repeats the
//! rows and the token of the first try and ClickHouse drops what it has.
//!
//! The text is `millrace:2:` and then `<first>+<span>@<time>` per batch, joined by commas: `first`
//! counted from the end of the batch before (from the committed offset at the start), `time` that
//! of its first message, which is part of its tokens; numbers in hexadecimal. A batch with a
//! refused part also has `!<table>.<day>.<first>.<span>`: the part that is being salvaged and the
//! piece it has come to, `first` counted from the batch's. Text that isn't ours, is torn, or comes
//! from another version is an error that the caller answers by reading at least once from the
//! committed offset.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::range::OffsetRange;

/// Ranges of one partition that may be open at once. Their list must fit into the metadata of a
/// Kafka commit (see [`crate::MAX_METADATA_BYTES`]): each takes at most 51 bytes there (three
/// numbers of 16 hexadecimal digits and three separators), and one more than these may be named:
/// 11 + 65 x 51 = 3,326. The rest, 770, is for ranges that are salvaged.
pub const MAX_OPEN_RANGES: usize = 64;

/// The longest metadata a broker takes by default (`offset.metadata.max.bytes`).
pub const MAX_METADATA_BYTES: usize = 4096;

const HEADER: &str = "millrace:2:";

/// A part of a batch: its rows for one table and day. Parts are salvaged in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartName {
    /// The table, by a number made of its name.
    pub table: u32,
    /// Days since 1970.
    pub day: i32,
}

/// How far a batch with refused parts has come. Parts before this one are done and must not be sent
/// as wholes again: pieces of them may be stored under tokens of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The part that was refused.
    pub part: PartName,
    /// The piece of it to continue with. No larger one around it may be sent.
    pub piece: OffsetRange,
}

/// A batch as a commit names it: all that decides its inserts, whoever cuts it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its offsets.
    pub range: OffsetRange,
    /// The time of its first message when it was first cut, in milliseconds: that message may be
    /// deleted by the time it is cut again.
    pub first_millis: i64,
    /// How far its refused parts are salvaged, if it has any.
    pub apart: Option<Apart>,
}

impl Intent {
    /// A batch of which nothing was refused.
    #[must_use]
    pub fn new(range: OffsetRange, first_millis: i64) -> Self {
        Self { range, first_millis, apart: None }
    }
}

/// Why commit metadata could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// Another program, or another version of this one, wrote it.
    #[error("the commit metadata does not begin with {HEADER:?}")]
    Foreign,
    /// It begins like ours and is damaged.
    #[error("the commit metadata is damaged at byte {at}")]
    Damaged {
        /// Where, counted from its start.
        at: usize,
    },
    /// More ranges than this version ever writes (one over the limit: see `has_room`).
    #[error("the commit metadata names more than {MAX_OPEN_RANGES} ranges")]
    TooMany,
}

/// Writes the batches that follow `committed`, in order. An empty list gives an empty text.
/// Batches that don't fit ([`MAX_OPEN_RANGES`]) or lie before `committed` can't come out of a
/// [`crate::Ledger`].
#[must_use]
pub fn encode(committed: i64, open: &[Intent]) -> String {
    if open.is_empty() {
        return String::new();
    }
    let mut text = String::with_capacity(HEADER.len() + open.len() * 24);
    text.push_str(HEADER);
    let mut from = committed;
    for (i, Intent { range, first_millis, apart }) in open.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        // Writing to a String can't fail. Negative numbers are written as two's complement.
        let _ = write!(text, "{:x}+{:x}@{first_millis:x}", range.first() - from, range.span());
        if let Some(Apart { part: PartName { table, day }, piece }) = apart {
            let first = piece.first() - range.first();
            let _ = write!(text, "!{table:x}.{day:x}.{first:x}.{:x}", piece.span());
        }
        from = range.next();
    }
    text
}

/// Reads what [`encode`] wrote for the same committed offset.
///
/// # Errors
/// When the text isn't ours, is damaged, or names too many batches.
pub fn decode(committed: i64, text: &str) -> Result<Vec<Intent>, IntentError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let list = text.strip_prefix(HEADER).ok_or(IntentError::Foreign)?;
    let mut batches = Vec::new();
    let mut from = committed;
    let mut at = HEADER.len();
    for item in list.split(',') {
        if batches.len() > MAX_OPEN_RANGES {
            return Err(IntentError::TooMany);
        }
        let batch = intent(from, item).ok_or(IntentError::Damaged { at })?;
        from = batch.range.next();
        at += item.len() + 1;
        batches.push(batch);
    }
    Ok(batches)
}

/// One batch as [`encode`] writes it, counted from the end of the one before.
fn intent(from: i64, item: &str) -> Option<Intent> {
    let (batch, apart) = match item.split_once('!') {
        Some((batch, apart)) => (batch, Some(apart)),
        None => (item, None),
    };
    let (gap, rest) = batch.split_once('+')?;
    let (span, millis) = rest.split_once('@')?;
    let range = range(from, gap, span)?;
    let first_millis = digits(millis)?.cast_signed();
    let apart = match apart {
        Some(text) => Some(self::apart(range, text)?),
        None => None,
    };
    Some(Intent { range, first_millis, apart })
}

fn apart(range: OffsetRange, text: &str) -> Option<Apart> {
    let mut numbers = text.splitn(4, '.');
    let mut next = || numbers.next();
    let table = u32::try_from(digits(next()?)?).ok()?;
    let day = u32::try_from(digits(next()?)?).ok()?.cast_signed();
    let piece = self::range(range.first(), next()?, next()?)?;
    range.has_piece(piece).then_some(Apart { part: PartName { table, day }, piece })
}

fn range(from: i64, gap: &str, span: &str) -> Option<OffsetRange> {
    let number = |text| i64::try_from(digits(text)?).ok();
    let first = from.checked_add(number(gap)?)?;
    OffsetRange::new(first, first.checked_add(number(span)?)?).ok()
}

/// A hexadecimal number as [`encode`] writes it: no sign, no leading zeros.
fn digits(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let canonical = text == "0" || !text.starts_with('0');
    (plain && canonical).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// What the ranges of an earlier try say about the message at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No open range is ahead: cut by rows, bytes and age.
    Free,
    /// The message is before an open range: cut freely, but no batch may reach `limit`.
    Before {
        /// The first offset of the open range ahead.
        limit: i64,
    },
    /// The message is inside an open range: its batch is exactly that one.
    Exactly(Intent),
}

/// The batches a partition has to cut again, in order, after a restart or a rewind.
#[derive(Debug, Default)]
pub(crate) struct CutPlan {
    batches: VecDeque<Intent>,
}

impl CutPlan {
    /// A plan from batches in order, as [`decode`] and [`crate::Rewound`] give them.
    pub(crate) fn new(batches: Vec<Intent>) -> Self {
        Self { batches: batches.into() }
    }

    /// How the message at `offset` may be cut.
    pub(crate) fn at(&self, offset: i64) -> Cut {
        match self.batches.iter().find(|batch| batch.range.next() > offset) {
            None => Cut::Free,
            Some(batch) if batch.range.contains(offset) => Cut::Exactly(*batch),
            Some(batch) => Cut::Before { limit: batch.range.first() },
        }
    }

    /// Forgets the batches that begin before `offset`: they were cut again, or were passed.
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
#[path = "../tests/unit/intent.rs"]
mod tests;
