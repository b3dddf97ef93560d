//! The one screen: a pipeline's path, what is wrong, its pods and changes, and what isn't shown.

use millrace_crds::ConditionStatus;
use millrace_crds::v1alpha1::CoordinationStatus;
use serde::Serialize;

use super::findings::{Finding, findings};
use super::path::{Path, paths};
use super::pods::{PodLine, pod_lines};
use super::rollout::{RolloutLine, rollouts};
use super::summary::current;
use crate::facts::{Facts, Gap};

/// A pipeline in one screen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport<'a> {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is Ready for its newest spec, and no record is lost or set aside unacknowledged.
    pub healthy: bool,
    /// Ready's status: True, False, Unknown.
    pub ready: String,
    /// Ready's reason.
    pub reason: String,
    /// The spec's generation.
    pub generation: Option<i64>,
    /// Ready pods of wanted ones.
    pub pods: Option<String>,
    /// The tables' revision.
    pub schema_revision: Option<String>,
    /// The image of the gateways.
    pub image: Option<String>,
    /// The age of the oldest message not committed, in seconds.
    pub lag_seconds: Option<i64>,
    /// The bound of the lag.
    pub lag_bound_seconds: Option<i64>,
    /// Where clients send.
    pub endpoints: Vec<String>,
    /// Seconds between the two readings that rates come from.
    pub interval_seconds: Option<f64>,
    /// The path of each signal.
    pub paths: Vec<Path>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// Changes that not all pods have, or that were refused.
    pub rollouts: Vec<RolloutLine>,
    /// The Keeper or ZooKeeper of its replicated tables, at most ten minutes old; none without such
    /// tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<&'a CoordinationStatus>,
    /// Pods.
    pub pod_list: Vec<PodLine<'a>>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// A pipeline's screen.
#[must_use]
pub fn status(facts: &Facts) -> StatusReport<'_> {
    let meta = &facts.pipeline.metadata;
    let told = facts.pipeline.status.as_ref();
    let conditions = told.map_or(&[][..], |status| &status.conditions);
    let current = current(conditions, meta.generation);
    let findings = findings(facts);
    let is_ready = current.is_some_and(|it| it.status == ConditionStatus::True);
    let lag = told.and_then(|status| status.lag.as_ref());
    let endpoints = told.into_iter().flat_map(|status| &status.edges);
    StatusReport {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        healthy: is_ready && findings.iter().all(|one| one.severity.is_healthy()),
        ready: current.map_or("Unknown".to_owned(), |it| format!("{:?}", it.status)),
        reason: current.map_or("NotObserved".to_owned(), |it| it.reason.clone()),
        generation: meta.generation,
        pods: told.and_then(|status| status.pods.clone()),
        schema_revision: told.and_then(|status| status.schema_revision.clone()),
        image: facts.gateways.iter().find_map(|pool| pool.status.as_ref()?.image.clone()),
        lag_seconds: lag.and_then(|lag| lag.seconds),
        lag_bound_seconds: lag.map(|lag| lag.bound_seconds),
        endpoints: endpoints.filter_map(|edge| edge.endpoint.clone()).collect(),
        interval_seconds: facts.interval_seconds,
        paths: paths(facts),
        findings,
        rollouts: rollouts(facts).into_iter().filter(|line| !line.is_settled()).collect(),
        coordination: facts.schemas.iter().find_map(|it| it.status.as_ref()?.coordination.as_ref()),
        pod_list: pod_lines(facts),
        gaps: facts.gaps.clone(),
    }
}
