//! The sources that edge pools read themselves, scrape targets and log files of nodes; and planned
//! steps of tables.

use millrace_crds::v1alpha1::{LogsLostStatus, NodesStatus, TargetsStatus};
use serde::Serialize;

use crate::facts::Facts;

/// The sources of one edge pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSources {
    /// The EdgePool.
    pub pool: String,
    /// Its targets.
    pub targets: Option<TargetsStatus>,
    /// Its nodes' logs.
    pub nodes: Option<NodesStatus>,
    /// The lost logs.
    pub logs_lost: Option<LogsLostStatus>,
}

/// Returns the pools that have sources, by name.
#[must_use]
pub fn pool_sources(facts: &Facts) -> Vec<PoolSources> {
    let of_pool = |pool: &millrace_crds::v1alpha1::EdgePool| {
        let status = pool.status.as_ref()?;
        let found = PoolSources {
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
    /// Its description.
    pub what: String,
    /// Its cost class.
    pub class: String,
    /// The statement.
    pub statement: String,
}
