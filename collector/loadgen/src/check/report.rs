//! The result of a check, in figures and text.

use std::fmt;

/// The result of comparing a table with the acknowledged records. All figures are records, except
/// `rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Acknowledged.
    pub sent: u64,
    /// Acknowledged and found.
    pub stored: u64,
    /// Acknowledged and not found.
    pub missing: u64,
    /// Copies that the client did not cause: found again although the client got its one answer, or
    /// the server reported that it had not accepted the request.
    pub duplicated: u64,
    /// Found with a column that differs from what was sent.
    pub altered: u64,
    /// Found under this run's name and never sent.
    pub invented: u64,
    /// Found although not acknowledged: the answer was lost, or the client gave up. Allowed.
    pub unacknowledged: u64,
    /// Copies that the client caused by sending again after a lost or unclear answer. Allowed by
    /// OTLP.
    pub resent: u64,
    /// Rows read.
    pub rows: u64,
    /// Examples of faults.
    pub examples: Vec<String>,
}

impl CheckReport {
    /// Returns whether everything acknowledged is stored, once and as sent, and nothing else is.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let Self { missing, duplicated, altered, invented, sent: _, stored: _, .. } = self;
        (*missing, *duplicated, *altered, *invented) == (0, 0, 0, 0)
    }
}

impl fmt::Display for CheckReport {
    /// Writes the verdict in one line: `verified: ...` only if it is clean.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_clean() { "verified" } else { "shortfall" };
        let Self { sent, stored, missing, duplicated, altered, invented, .. } = self;
        write!(
            f,
            "{verdict}: sent={sent} stored={stored} missing={missing} duplicated={duplicated} \
             altered={altered}"
        )?;
        if *invented > 0 {
            write!(f, " invented={invented}")?;
        }
        Ok(())
    }
}
