//! What edge pools read by themselves, scrape targets and log files of nodes; and a step that
//! tables wait for.

use millrace_crds::v1alpha1::{LogsLostStatus, NodesStatus, TargetsStatus};
use serde::Serialize;

use crate::facts::Facts;

/// What one edge pool reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sources {
    /// The EdgePool.
    pub pool: String,
    /// Its targets.
    pub targets: Option<TargetsStatus>,
    /// Its nodes' logs.
    pub nodes: Option<NodesStatus>,
    /// What was lost of them.
    pub logs_lost: Option<LogsLostStatus>,
}

/// The pools that read something, by name.
#[must_use]
pub fn sources(facts: &Facts) -> Vec<Sources> {
    let of_pool = |pool: &millrace_crds::v1alpha1::EdgePool| {
        let status = pool.status.as_ref()?;
        let found = Sources {
            pool: pool.metadata.name.clone().unwrap_or_default(),
            targets: status.targets.clone(),
            nodes: status.nodes.clone(),
            logs_lost: status.logs_lost.clone(),
        };
        let some = found.targets.is_some() || found.nodes.is_some() || found.logs_lost.is_some();
        some.then_some(found)
    };
    facts.edges.iter().filter_map(of_pool).collect()
}

/// A planned step of a schema, with its statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    /// Table or database.
    pub object: String,
    /// What it does, in words.
    pub what: String,
    /// What it costs, as a word.
    pub class: String,
    /// What runs.
    pub statement: String,
}
