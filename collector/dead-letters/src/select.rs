//! Selects dead letters by position, reason, time and signal. Pure.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use millrace_pipeline::dead_letter::DeadLetterHeaders;
use millrace_wire::Signal;

/// A dead letter's position in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionOffset {
    /// The partition, 0 or more.
    pub partition: i32,
    /// The offset, 0 or more.
    pub offset: i64,
}

/// Successive dead letters of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRange {
    /// The partition, 0 or more.
    pub partition: i32,
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
}

/// Why a selection can't be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Not a position.
    #[error("`{0}` is not a position: use PARTITION:OFFSET, as in 0:12")]
    Offset(String),
    /// Not a range of positions.
    #[error("`{0}` is not a range of positions: use PARTITION:OFFSET or PARTITION:FIRST-LAST")]
    Range(String),
    /// Not a time.
    #[error("`{0}` is not a time: use one as in 2026-01-31T12:00:00Z, or an age, as in 90m or 2d")]
    Since(String),
}

/// Selects the dead letters that meet all of its conditions.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only those at these positions; all if empty.
    pub ranges: Vec<PartitionRange>,
    /// Only those with one of these reasons; all if empty.
    pub reasons: Vec<String>,
    /// Only those whose record came at this time or later, in milliseconds since 1970.
    pub since_millis: Option<i64>,
    /// Only those of this signal.
    pub signal: Option<Signal>,
}

impl Selection {
    /// Returns whether a dead letter is selected. `signal` is that of its records, if known.
    pub(crate) fn selects(
        &self,
        position: PartitionOffset,
        at_millis: Option<i64>,
        signal: Option<Signal>,
        headers: &DeadLetterHeaders,
    ) -> bool {
        let Self { ranges, reasons, since_millis, signal: selected_signal } = self;
        let reason = headers.reason.as_deref();
        (ranges.is_empty() || ranges.iter().any(|range| range.contains(position)))
            && (reasons.is_empty()
                || reasons.iter().any(|selected| Some(selected.as_str()) == reason))
            && since_millis.is_none_or(|since| at_millis.is_none_or(|at| at >= since))
            && selected_signal.is_none_or(|selected| signal == Some(selected))
    }
}

impl PartitionRange {
    fn contains(&self, position: PartitionOffset) -> bool {
        position.partition == self.partition && (self.first..=self.last).contains(&position.offset)
    }
}

impl From<PartitionOffset> for PartitionRange {
    fn from(position: PartitionOffset) -> Self {
        Self { partition: position.partition, first: position.offset, last: position.offset }
    }
}

impl fmt::Display for PartitionOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

impl FromStr for PartitionOffset {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        match text.parse() {
            Ok(PartitionRange { partition, first, last })
                if first == last && !text.contains('-') =>
            {
                Ok(Self { partition, offset: first })
            }
            _ => Err(SelectError::Offset(text.to_owned())),
        }
    }
}

impl FromStr for PartitionRange {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let parse = || {
            let (partition, offsets) = text.split_once(':')?;
            let (first, last) = offsets.split_once('-').unwrap_or((offsets, offsets));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if ![partition, first, last].into_iter().all(digits) {
                return None;
            }
            let range = Self {
                partition: partition.parse().ok()?,
                first: first.parse().ok()?,
                last: last.parse().ok()?,
            };
            (range.first <= range.last).then_some(range)
        };
        parse().ok_or_else(|| SelectError::Range(text.to_owned()))
    }
}

/// Parses a time, or a duration before `now`, as milliseconds since 1970.
///
/// # Errors
/// When the text is neither.
pub fn parse_since(text: &str, now: Timestamp) -> Result<i64, SelectError> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let ago = || {
        let (at, unit) = text.char_indices().next_back()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        let number: u32 = text[..at].parse().ok()?;
        let ago = SignedDuration::from_secs(i64::from(number).checked_mul(seconds)?);
        now.checked_sub(ago).ok()
    };
    ago().map(Timestamp::as_millisecond).ok_or_else(|| SelectError::Since(text.to_owned()))
}

#[cfg(test)]
mod tests;
