//! The state of a plan's requests: acknowledged, attempted, possibly accepted twice. Stored as
//! ranges of request numbers, saved as JSON between `send` and `check`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::LoadPlan;
use crate::ranges::RangeSet;

/// The state after sending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendState {
    /// The sent plan.
    pub plan: LoadPlan,
    /// Requests answered with success, all records accepted: the check must find these.
    pub acknowledged: RangeSet,
    /// Requests of which at least one attempt left this process: the check may find these.
    pub attempted: RangeSet,
    /// Requests sent again after a lost or unclear answer: the client itself causes copies of
    /// these, as OTLP allows, and they are counted separately.
    pub resent: RangeSet,
    /// Requests whose answer makes the client drop them, or that were refused in part.
    pub refused: RangeSet,
}

/// A saved state can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system failed.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file has other content.
    #[error("{path} is not a saved state of a load: {source}; create it with `send --state`")]
    Content {
        /// The file.
        path: String,
        /// The cause.
        source: serde_json::Error,
    },
}

impl SendState {
    /// Creates the state before sending.
    #[must_use]
    pub fn new(plan: LoadPlan) -> Self {
        Self {
            plan,
            acknowledged: RangeSet::default(),
            attempted: RangeSet::default(),
            resent: RangeSet::default(),
            refused: RangeSet::default(),
        }
    }

    /// Returns the number of records in acknowledged requests.
    #[must_use]
    pub fn acked_records(&self) -> u64 {
        self.acknowledged.iter().map(|requests| self.records_in(&requests)).sum()
    }

    fn records_in(&self, requests: &std::ops::Range<u64>) -> u64 {
        let each = self.plan.records_per_request();
        let end = requests.end.saturating_mul(each).min(self.plan.count);
        end.saturating_sub(requests.start.saturating_mul(each))
    }

    /// Returns whether every request of the plan was acknowledged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.acknowledged.len() == self.plan.request_count()
    }

    /// Writes the state to a file, completely or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), StateError> {
        let file =
            |source| StateError::File { what: "write", path: path.display().to_string(), source };
        let text = serde_json::to_string(self)
            .map_err(|source| StateError::Content { path: path.display().to_string(), source })?;
        let beside = path.with_extension("partial");
        let write = || {
            let mut out = fs::File::create(&beside)?;
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(file)
    }

    /// Reads a state back.
    ///
    /// # Errors
    /// The file cannot be read, or has other content.
    pub fn load(path: &Path) -> Result<Self, StateError> {
        let named = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| StateError::File {
            what: "read",
            path: named.clone(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| StateError::Content { path: named, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: some requests are acknowledged, the short last one too. Guarantee: records are
    /// counted exactly, and a saved state reads back equal.
    #[test]
    fn records_are_counted_and_the_state_is_kept() {
        let mut acked = SendState::new(LoadPlan::lean_spans(7, 2_500, 0));
        for request in [0, 2] {
            acked.acknowledged.insert(request);
        }
        assert_eq!(acked.acked_records(), 1_500);
        assert!(!acked.is_complete());
        acked.acknowledged.insert(1);
        assert_eq!(acked.acked_records(), 2_500);
        assert!(acked.is_complete());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        acked.save(&path).unwrap();
        assert_eq!(SendState::load(&path).unwrap(), acked);
    }

    /// Scenario: the file has other content, or does not exist. Guarantee: the error names it.
    #[test]
    fn a_wrong_state_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.json");
        fs::write(&path, "{}").unwrap();
        let message = SendState::load(&path).unwrap_err().to_string();
        assert!(message.contains("other.json") && message.contains("send --state"), "{message}");
        assert!(SendState::load(&dir.path().join("none")).is_err());
    }
}
