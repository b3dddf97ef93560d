//! What a pod says of the targets that it scrapes: `GET /share` on its admin port, as JSON. Judges
//! nothing. Unknown fields are left out, so that collectors may say more.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use millrace_shares::TargetId;
use serde::Deserialize;

use super::{ScrapeError, Target};

/// A pod's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ShareReport {
    /// The version of its share that it has taken up; none before the first.
    #[serde(default)]
    pub version: Option<u64>,
    /// What it scrapes.
    #[serde(default)]
    pub targets: BTreeMap<TargetId, TargetReport>,
    /// Targets whose last scrape succeeded.
    #[serde(default)]
    pub up: u64,
    /// Targets whose last scrape failed.
    #[serde(default)]
    pub down: u64,
}

/// One target's part of it. A list of targets counts as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TargetReport {
    /// Samples of its last scrape.
    #[serde(default)]
    pub samples: Option<u64>,
    /// Whether that succeeded; none before the first.
    #[serde(default)]
    pub up: Option<bool>,
    /// Why not.
    #[serde(default)]
    pub error: Option<String>,
}

impl ShareReport {
    /// A report as a pod writes it; otherwise what is wrong with it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The samples of each target whose last scrape succeeded.
    pub fn samples(&self) -> impl Iterator<Item = (TargetId, u64)> {
        let measured = |(id, report): (&TargetId, &TargetReport)| {
            Some((*id, report.samples.filter(|_| report.up == Some(true))?))
        };
        self.targets.iter().filter_map(measured)
    }
}

/// What pods answered, by name.
pub type ShareAnswers = BTreeMap<String, Result<ShareReport, ScrapeError>>;

/// Something that can ask pods for their shares.
pub trait ShareSource: Send + Sync {
    /// Asks all of them, [`super::PODS_MAX`] at once, each within [`super::LOOK_MAX`].
    fn ask<'a>(&'a self, targets: &'a [Target]) -> BoxFuture<'a, ShareAnswers>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a report with a target that is up, one that is down, one not scraped yet, and a
    /// field of a later release; one of a pod that has no share yet. Guarantee: both are read, and
    /// only what was measured counts.
    #[test]
    fn a_report_is_read() {
        let text = r#"{"version": 7, "up": 1, "down": 1, "later": [], "targets": {
            "00000000000000000000000000000001": {"samples": 1234, "up": true, "error": null},
            "00000000000000000000000000000002": {"samples": 9, "up": false, "error": "refused"},
            "00000000000000000000000000000003": {"samples": null, "up": null}}}"#;
        let report = ShareReport::read(text).unwrap();
        assert_eq!((report.version, report.up, report.down), (Some(7), 1, 1));
        assert_eq!(report.samples().collect::<Vec<_>>(), [(TargetId(1), 1234)]);
        let none = ShareReport::read(r#"{"version":null,"targets":{},"up":0,"down":0}"#).unwrap();
        assert_eq!(none, ShareReport::default());
        assert!(ShareReport::read("not found").is_err());
    }
}
