//! Open ranges as the metadata of a Kafka commit, and what they ask of the next reader.
//!
//! Before a batch is inserted, the commit of its partition names it. After a crash the next
//! owner reads the names back and cuts the same ranges again, so that every insert repeats the
//! rows and the token of the first try and ClickHouse drops what it has.
//!
//! The text is `millrace:1:` and then `<first>+<span>` per range, joined by commas: `first`
//! counted from the end of the range before (from the committed offset at the start), numbers in
//! hexadecimal. Text that isn't ours, is torn, or comes from a later version is an error that the
//! caller answers by reading at least once from the committed offset.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::partition::MAX_OPEN_RANGES;
use crate::range::OffsetRange;

/// The longest metadata a broker takes by default (`offset.metadata.max.bytes`).
pub const MAX_METADATA_BYTES: usize = 4096;

const HEADER: &str = "millrace:1:";

/// Why commit metadata could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// Another program, or another version of this one, wrote it.
    #[error("the commit metadata does not begin with {HEADER:?}")]
    Foreign,
    /// It begins like ours and then isn't.
    #[error("the commit metadata is damaged at byte {at}")]
    Damaged {
        /// Where, counted from its start.
        at: usize,
    },
    /// More ranges than this version ever writes (one over the limit: see `has_room`).
    #[error("the commit metadata names more than {MAX_OPEN_RANGES} ranges")]
    TooMany,
}

/// Writes the ranges that follow `committed`, in order. An empty list gives an empty text.
/// Ranges that don't fit ([`MAX_OPEN_RANGES`]) or lie before `committed` can't come out of a
/// [`crate::Ledger`].
#[must_use]
pub fn encode(committed: i64, open: &[OffsetRange]) -> String {
    if open.is_empty() {
        return String::new();
    }
    let mut text = String::with_capacity(HEADER.len() + open.len() * 12);
    text.push_str(HEADER);
    let mut from = committed;
    for (i, range) in open.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        // Writing to a String can't fail.
        let _ = write!(text, "{:x}+{:x}", range.first() - from, range.span());
        from = range.next();
    }
    text
}

/// Reads what [`encode`] wrote for the same committed offset.
///
/// # Errors
/// When the text isn't ours, is damaged, or names too many ranges.
pub fn decode(committed: i64, text: &str) -> Result<Vec<OffsetRange>, IntentError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let list = text.strip_prefix(HEADER).ok_or(IntentError::Foreign)?;
    let mut ranges = Vec::new();
    let mut from = committed;
    let mut at = HEADER.len();
    for item in list.split(',') {
        if ranges.len() > MAX_OPEN_RANGES {
            return Err(IntentError::TooMany);
        }
        let range = item
            .split_once('+')
            .and_then(|(gap, span)| {
                let first = from.checked_add(digits(gap)?)?;
                OffsetRange::new(first, first.checked_add(digits(span)?)?).ok()
            })
            .ok_or(IntentError::Damaged { at })?;
        from = range.next();
        at += item.len() + 1;
        ranges.push(range);
    }
    Ok(ranges)
}

/// A hexadecimal number as [`encode`] writes it: no sign, no leading zeros.
fn digits(text: &str) -> Option<i64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let canonical = text == "0" || !text.starts_with('0');
    (plain && canonical).then(|| i64::from_str_radix(text, 16).ok()).flatten()
}

/// What the ranges of an earlier try say about the message at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No open range is ahead: cut by rows, bytes and age.
    Free,
    /// The message lies before an open range: cut freely, but no batch may reach `limit`.
    Before {
        /// The first offset of the open range ahead.
        limit: i64,
    },
    /// The message lies inside an open range: its batch is exactly that range.
    Exactly(OffsetRange),
}

/// The ranges a partition has to cut again, in order, after a restart or a rewind.
#[derive(Debug, Default)]
pub(crate) struct CutPlan {
    ranges: VecDeque<OffsetRange>,
}

impl CutPlan {
    /// A plan from ranges in order, as [`decode`] and [`crate::Rewound`] give them.
    pub(crate) fn new(ranges: Vec<OffsetRange>) -> Self {
        Self { ranges: ranges.into() }
    }

    /// How the message at `offset` may be cut.
    pub(crate) fn at(&self, offset: i64) -> Cut {
        match self.ranges.iter().find(|range| range.next() > offset) {
            None => Cut::Free,
            Some(range) if range.contains(offset) => Cut::Exactly(*range),
            Some(range) => Cut::Before { limit: range.first() },
        }
    }

    /// Forgets the ranges that begin before `offset`: they were cut again, or were passed.
    pub(crate) fn forget_before(&mut self, offset: i64) {
        while self.ranges.front().is_some_and(|range| range.first() < offset) {
            self.ranges.pop_front();
        }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = OffsetRange> + '_ {
        self.ranges.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, next: i64) -> OffsetRange {
        OffsetRange::new(first, next).unwrap()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let open = vec![range(100, 200), range(200, 4_000), range(4_005, 4_006)];
        let text = encode(100, &open);
        assert_eq!(text, "millrace:1:0+64,0+ed8,5+1");
        assert_eq!(decode(100, &text).unwrap(), open);
    }

    #[test]
    fn the_longest_list_fits_into_a_commit() {
        let span = i64::MAX / (2 * MAX_OPEN_RANGES as i64);
        let open: Vec<_> = (0..MAX_OPEN_RANGES as i64)
            .map(|i| range(2 * i * span + span, 2 * (i + 1) * span))
            .collect();
        let text = encode(0, &open);
        assert!(text.len() <= MAX_METADATA_BYTES, "{} bytes", text.len());
        assert_eq!(decode(0, &text).unwrap(), open);
    }

    #[test]
    fn metadata_of_others_and_of_later_versions_is_foreign() {
        for text in ["hello", "millrace:2:0+64", "NO_METADATA", "millrace"] {
            assert_eq!(decode(0, text), Err(IntentError::Foreign), "{text}");
        }
    }

    #[test]
    fn torn_metadata_is_damaged_or_a_shorter_list_that_was_written_so() {
        let text = encode(7, &[range(7, 50), range(60, 90)]);
        for cut in HEADER.len()..text.len() {
            match decode(7, &text[..cut]) {
                Ok(ranges) => assert_eq!(encode(7, &ranges), text[..cut]),
                Err(error) => assert!(matches!(error, IntentError::Damaged { .. }), "{error}"),
            }
        }
        for bad in ["0+0", "+1", "1+", "-1+2", "0+1,,0+1", "00+1", "0+fffffffffffffffff", "0+A"] {
            let text = format!("{HEADER}{bad}");
            assert!(matches!(decode(7, &text), Err(IntentError::Damaged { .. })), "{bad}");
        }
    }

    #[test]
    fn more_ranges_than_we_write_are_refused() {
        let list = vec!["0+1"; MAX_OPEN_RANGES + 2].join(",");
        assert_eq!(decode(0, &format!("{HEADER}{list}")), Err(IntentError::TooMany));
    }

    #[test]
    fn a_plan_repeats_ranges_and_stops_free_batches_before_them() {
        let mut plan = CutPlan::new(vec![range(10, 20), range(30, 40)]);
        assert_eq!(plan.at(5), Cut::Before { limit: 10 });
        assert_eq!(plan.at(10), Cut::Exactly(range(10, 20)));
        assert_eq!(plan.at(19), Cut::Exactly(range(10, 20)));
        assert_eq!(plan.at(20), Cut::Before { limit: 30 });
        assert_eq!(plan.at(35), Cut::Exactly(range(30, 40)));
        assert_eq!(plan.at(40), Cut::Free);
        plan.forget_before(20);
        assert_eq!(plan.at(5), Cut::Before { limit: 30 });
        plan.forget_before(40);
        assert_eq!(plan.len(), 0);
    }
}
