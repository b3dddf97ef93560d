//! What became of a plan's requests: which were acknowledged, which were tried, which may have been
//! taken twice. Kept as ranges of request numbers, saved as JSON between `send` and `check`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::ranges::RangeSet;

/// What is known after sending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Acked {
    /// What was to be sent.
    pub plan: Plan,
    /// Requests answered with success, all records taken: these must be found.
    pub acknowledged: RangeSet,
    /// Requests of which at least one attempt left this process: these may be found.
    pub attempted: RangeSet,
    /// Requests sent again after an answer was lost or unclear: copies of these are the client's
    /// own doing, as OTLP allows, and are counted apart.
    pub resent: RangeSet,
    /// Requests answered with a code that tells the client to drop them, or in part.
    pub refused: RangeSet,
}

/// A saved state cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system said no.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is no saved state of a load: {source}; make it with `send --state`")]
    Content {
        /// Which file.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
}

impl Acked {
    /// Nothing was sent yet.
    #[must_use]
    pub fn none(plan: Plan) -> Self {
        Self {
            plan,
            acknowledged: RangeSet::default(),
            attempted: RangeSet::default(),
            resent: RangeSet::default(),
            refused: RangeSet::default(),
        }
    }

    /// Records of the acknowledged requests.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.acknowledged.iter().map(|requests| self.records_in(&requests)).sum()
    }

    fn records_in(&self, requests: &std::ops::Range<u64>) -> u64 {
        let each = self.plan.records_per_request();
        let end = requests.end.saturating_mul(each).min(self.plan.count);
        end.saturating_sub(requests.start.saturating_mul(each))
    }

    /// Whether every request of the plan was acknowledged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.acknowledged.len() == self.plan.requests()
    }

    /// Writes the state to a file, whole or not at all.
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
    /// The file cannot be read, or holds something else.
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
    /// counted exactly, and a saved state is the same when read.
    #[test]
    fn records_are_counted_and_the_state_is_kept() {
        let mut acked = Acked::none(Plan::lean(7, 2_500, 0));
        for request in [0, 2] {
            acked.acknowledged.insert(request);
        }
        assert_eq!(acked.records(), 1_500);
        assert!(!acked.is_whole());
        acked.acknowledged.insert(1);
        assert_eq!(acked.records(), 2_500);
        assert!(acked.is_whole());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        acked.save(&path).unwrap();
        assert_eq!(Acked::load(&path).unwrap(), acked);
    }

    /// Scenario: the file holds something else, or is not there. Guarantee: said, with its name.
    #[test]
    fn a_wrong_state_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.json");
        fs::write(&path, "{}").unwrap();
        let message = Acked::load(&path).unwrap_err().to_string();
        assert!(message.contains("other.json") && message.contains("send --state"), "{message}");
        assert!(Acked::load(&dir.path().join("none")).is_err());
    }
}
