//! When a batch is cut: a pure function of its size and age.
//!
//! It has no clock: the caller gives the age. It doesn't count either: sizes are the encoder's.

use std::time::Duration;

use millrace_config::Batch;

/// Sizes at which a batch is cut, whichever is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Rows. Few and big inserts are what ClickHouse likes: each makes at least one part.
    pub max_rows: usize,
    /// Bytes of columns before compression.
    pub max_bytes: usize,
    /// Age of the oldest record in it.
    pub max_age: Duration,
}

/// How large and how old a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Rows in it.
    pub rows: usize,
    /// Bytes of columns before compression.
    pub bytes: usize,
    /// Time since its first message was taken.
    pub age: Duration,
}

/// Why a batch was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// It has its rows.
    Rows,
    /// It has its bytes.
    Bytes,
    /// It is old enough.
    Age,
    /// It has to end here: an earlier try cut it at this offset.
    Repeat,
    /// Memory is short.
    Budget,
    /// The partition leaves, or the process ends.
    Drain,
}

impl From<&Batch> for BatchLimits {
    fn from(batch: &Batch) -> Self {
        let Batch { max_rows, max_bytes, max_age_millis } = batch;
        Self {
            max_rows: usize::try_from(*max_rows).unwrap_or(usize::MAX),
            max_bytes: max_bytes.as_usize(),
            max_age: Duration::from_millis((*max_age_millis).into()),
        }
    }
}

impl BatchLimits {
    /// Whether a batch of this size is cut now. One message is never divided, so a batch may be
    /// larger than its limits by one message.
    #[must_use]
    pub fn due(&self, size: BatchSize) -> Option<CutReason> {
        if size.rows >= self.max_rows {
            Some(CutReason::Rows)
        } else if size.bytes >= self.max_bytes {
            Some(CutReason::Bytes)
        } else if size.age >= self.max_age {
            Some(CutReason::Age)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: sizes just under and at each limit. Guarantee: the first limit reached decides.
    #[test]
    fn a_batch_is_cut_at_the_first_limit_it_reaches() {
        let limits =
            BatchLimits { max_rows: 10, max_bytes: 100, max_age: Duration::from_millis(50) };
        let due = |rows, bytes, millis| {
            limits.due(BatchSize { rows, bytes, age: Duration::from_millis(millis) })
        };
        assert_eq!(due(9, 99, 49), None);
        assert_eq!(due(10, 99, 49), Some(CutReason::Rows));
        assert_eq!(due(9, 100, 49), Some(CutReason::Bytes));
        assert_eq!(due(9, 99, 50), Some(CutReason::Age));
        assert_eq!(due(10, 100, 50), Some(CutReason::Rows));
    }
}
