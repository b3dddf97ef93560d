//! Test records and the checked names that select their rows. Pure. A sender (`kubectl millrace
//! send`, `verify`) writes:
//!
//! - all: `service.name` is [`TEST_SERVICE`], a record's time is not before the run's start;
//! - spans and log records: the trace id's first half is the run, the span id the record's number;
//! - metrics: points of a gauge whose scope's version is the run and whose value is the number.
//!
//! Limits: numbers from 1 to [`TEST_RECORDS_MAX`].

use std::fmt;
use std::str::FromStr;

use millrace_schema::TableKind;

/// The service name of all test records. The plugin writes the same word.
pub const TEST_SERVICE: &str = "kubectl-millrace";

/// The maximum number of a run's records: the answer to one query stays below half a mebibyte (40
/// bytes for each).
pub const TEST_RECORDS_MAX: u32 = 10_000;

/// The hex digits of a run's id.
const RUN_DIGITS: usize = 16;

/// The id of a run: the first half of a trace id, as 16 lower-case hex digits, not all zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunId(String);

/// A text that is not a [`RunId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {0:?} is not usable: write 16 lower-case hex digits, not all zero")]
pub struct RunIdError(String);

impl RunId {
    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = text.len() == RUN_DIGITS && text.bytes().all(is_digit);
        match fits && text.bytes().any(|byte| byte != b'0') {
            true => Ok(Self(text.to_owned())),
            false => Err(RunIdError(text.to_owned())),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A run that selects rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The run's id.
    pub id: RunId,
    /// The lower bound of the records' time, in seconds since 1970. It spares the server older
    /// parts of the table.
    pub since_seconds: u32,
}

/// The tables of test records: one for each signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestTable {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Points of a gauge; this one table represents all metrics.
    Gauge,
}

impl TestTable {
    /// Returns the table's kind.
    #[must_use]
    pub const fn kind(self) -> TableKind {
        match self {
            Self::Traces => TableKind::Traces,
            Self::Logs => TableKind::Logs,
            Self::Gauge => TableKind::MetricsGauge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunId;

    /// Scenario: generated ids, and other texts. Guarantee: only the first are accepted.
    #[test]
    fn only_sixteen_hex_digits_are_a_run() {
        assert!("00000000000000a1".parse::<RunId>().is_ok());
        for bad in [
            "",
            "0000000000000000",
            "00000000000000A1",
            "a1",
            "00000000000000a'",
            "0x0000000000000a1",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
