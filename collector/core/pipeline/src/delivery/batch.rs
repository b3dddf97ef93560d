//! Decides when a batch is cut, as a pure function of its size and age.
//!
//! It has no clock: the caller passes the age. It doesn't count: the encoder gives the sizes.

use std::time::Duration;

use millrace_config::Batch;

/// The limits at which a batch is cut, whichever is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Rows. ClickHouse prefers few large inserts, since each makes at least one part.
    pub max_rows: usize,
    /// Bytes of columns before compression.
    pub max_bytes: usize,
    /// The age of its oldest record.
    pub max_age: Duration,
}

/// The size and age of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Rows.
    pub rows: usize,
    /// Bytes of columns before compression.
    pub bytes: usize,
    /// Time since its first message was received.
    pub age: Duration,
}

/// The reason why a batch was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// It reached its maximum of rows.
    Rows,
    /// It reached its maximum of bytes.
    Bytes,
    /// It reached its maximum age.
    Age,
    /// An earlier attempt cut it at this offset.
    Repeat,
    /// Memory is short.
    Budget,
    /// The partition is revoked, or the process ends.
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
    /// Returns the reason if a batch of this size must be cut now. A message is never divided, so a
    /// batch may exceed its limits by one message.
    #[must_use]
    pub fn cut_reason(&self, size: BatchSize) -> Option<CutReason> {
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
            limits.cut_reason(BatchSize { rows, bytes, age: Duration::from_millis(millis) })
        };
        assert_eq!(due(9, 99, 49), None);
        assert_eq!(due(10, 99, 49), Some(CutReason::Rows));
        assert_eq!(due(9, 100, 49), Some(CutReason::Bytes));
        assert_eq!(due(9, 99, 50), Some(CutReason::Age));
        assert_eq!(due(10, 100, 50), Some(CutReason::Rows));
    }
}
