//! The dead letters of a partition that were sent again: ranges of offsets, and their text in
//! marks.
//!
//! A mark is a message without a value after the dead letters it names, in the same partition, with
//! the header [`HEADER`]. So marks live as long as their dead letters, unlike the offsets of a
//! consumer group: Kafka forgets those of an idle group after seven days. The text is `5-9,12`:
//! first and last offset of each range, in decimal, in order.

use std::fmt;
use std::str::FromStr;

/// The header of a mark. Its value is the text of [`SentOffsets`].
pub(crate) const HEADER: &str = "millrace-sent";

/// Offsets of dead letters that were sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentOffsets {
    /// First and last offset of each range; in order, separated by at least one offset.
    ranges: Vec<(i64, i64)>,
}

/// A text that is not a mark's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected ranges of offsets such as 5-9,12")]
pub struct SentOffsetsError;

impl SentOffsets {
    /// Returns whether the dead letter at `offset` is a member.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= offset);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|r| r.1 >= offset)
    }

    /// Adds one dead letter.
    pub fn insert(&mut self, offset: i64) {
        self.insert_range(offset, offset);
    }

    /// Adds all dead letters of another set.
    pub fn merge(&mut self, other: &Self) {
        other.ranges.iter().for_each(|(first, last)| self.insert_range(*first, *last));
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn insert_range(&mut self, first: i64, last: i64) {
        // Ranges that overlap the new one, or touch it.
        let from = self.ranges.partition_point(|range| range.1 < first.saturating_sub(1));
        let to = self.ranges.partition_point(|range| range.0 <= last.saturating_add(1));
        let merged = self.ranges[from..to]
            .iter()
            .fold((first, last), |sum, range| (sum.0.min(range.0), sum.1.max(range.1)));
        self.ranges.splice(from..to, [merged]);
    }
}

impl fmt::Display for SentOffsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for SentOffsets {
    type Err = SentOffsetsError;

    fn from_str(text: &str) -> Result<Self, SentOffsetsError> {
        let number = |text: &str| {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i64>().ok().filter(|_| plain).ok_or(SentOffsetsError)
        };
        let mut sent = Self::default();
        for item in text.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(SentOffsetsError);
            }
            sent.insert_range(first, last);
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests;
