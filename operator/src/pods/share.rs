//! A pod's report of the targets that it scrapes: `GET /share` on its admin port, as JSON. Judges
//! nothing. Unknown fields are ignored, so that later collectors may report more.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use millrace_share_documents::TargetId;
use serde::Deserialize;

use super::{PodTarget, ScrapeError};

/// A pod's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ShareReport {
    /// The version of its share that it applied; `None` before the first.
    #[serde(default)]
    pub version: Option<u64>,
    /// The targets that it scrapes.
    #[serde(default)]
    pub targets: BTreeMap<TargetId, TargetReport>,
    /// Targets whose last scrape succeeded.
    #[serde(default)]
    pub up: u64,
    /// Targets whose last scrape failed.
    #[serde(default)]
    pub down: u64,
}

/// One target in a report. A list of targets counts as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TargetReport {
    /// The number of samples of its last scrape.
    #[serde(default)]
    pub samples: Option<u64>,
    /// Whether the last scrape succeeded; `None` before the first.
    #[serde(default)]
    pub up: Option<bool>,
    /// Why the last scrape failed.
    #[serde(default)]
    pub error: Option<String>,
}

impl ShareReport {
    /// Parses a pod's report, or returns the fault in it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns the samples of each target whose last scrape succeeded.
    pub fn measured_samples(&self) -> impl Iterator<Item = (TargetId, u64)> {
        let measured = |(id, report): (&TargetId, &TargetReport)| {
            Some((*id, report.samples.filter(|_| report.up == Some(true))?))
        };
        self.targets.iter().filter_map(measured)
    }
}

/// The reports of pods, by name.
pub type ShareResponses = BTreeMap<String, Result<ShareReport, ScrapeError>>;

/// A source of pods' shares.
pub trait ShareSource: Send + Sync {
    /// Queries all targets, [`super::PODS_MAX`] at once, each within [`super::SCRAPE_MAX`].
    fn query_shares<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, ShareResponses>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a report with a target that is up, one that is down, one not scraped yet, and a
    /// field of a later release; one of a pod that has no share yet. Guarantee: both are parsed,
    /// and only measured samples count.
    #[test]
    fn a_report_is_read() {
        let text = r#"{"version": 7, "up": 1, "down": 1, "later": [], "targets": {
            "00000000000000000000000000000001": {"samples": 1234, "up": true, "error": null},
            "00000000000000000000000000000002": {"samples": 9, "up": false, "error": "refused"},
            "00000000000000000000000000000003": {"samples": null, "up": null}}}"#;
        let report = ShareReport::read(text).unwrap();
        assert_eq!((report.version, report.up, report.down), (Some(7), 1, 1));
        assert_eq!(report.measured_samples().collect::<Vec<_>>(), [(TargetId(1), 1234)]);
        let none = ShareReport::read(r#"{"version":null,"targets":{},"up":0,"down":0}"#).unwrap();
        assert_eq!(none, ShareReport::default());
        assert!(ShareReport::read("not found").is_err());
    }
}
