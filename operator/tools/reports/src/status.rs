//! One pipeline's status: its path, problems, pods, changes, and gaps.

use millrace_crds::ConditionStatus;
use millrace_crds::v1alpha1::{CoordinationStatus, RouteStatus};
use serde::Serialize;

use super::path::{SignalPath, signal_paths};
use super::pools::pods::{PodLine, pod_lines};
use super::pools::rollout::{RolloutLine, rollout_lines};
use super::problems::findings::{Finding, pipeline_findings};
use super::summary::current_ready;
use crate::facts::{Facts, Gap};

/// One pipeline's status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport<'a> {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is Ready for its newest spec, and no lost record or dead letter is
    /// unacknowledged.
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
    /// The addresses that clients send to.
    pub endpoints: Vec<String>,
    /// The address of the documentation, if the operator's chart sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Seconds between the two readings that rates come from.
    pub interval_seconds: Option<f64>,
    /// The path of each signal.
    pub paths: Vec<SignalPath>,
    /// What rules route to topics of others, and who reads those.
    #[serde(skip_serializing_if = "<[RouteStatus]>::is_empty")]
    pub routes: &'a [RouteStatus],
    /// Problems, the worst first.
    pub findings: Vec<Finding>,
    /// Changes that not all pods have, or that were refused.
    pub rollouts: Vec<RolloutLine>,
    /// The Keeper or ZooKeeper of its replicated tables, at most ten minutes old; `None` without
    /// such tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<&'a CoordinationStatus>,
    /// The pods.
    pub pod_list: Vec<PodLine<'a>>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// Returns a pipeline's status.
#[must_use]
pub fn status_report(facts: &Facts) -> StatusReport<'_> {
    let meta = &facts.pipeline.metadata;
    let pipeline_status = facts.pipeline.status.as_ref();
    let conditions = pipeline_status.map_or(&[][..], |status| &status.conditions);
    let current = current_ready(conditions, meta.generation);
    let findings = pipeline_findings(facts);
    let is_ready = current.is_some_and(|it| it.status == ConditionStatus::True);
    let lag = pipeline_status.and_then(|status| status.lag.as_ref());
    let endpoints = pipeline_status.into_iter().flat_map(|status| &status.edges);
    StatusReport {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        healthy: is_ready && findings.iter().all(|one| one.severity.is_healthy()),
        ready: current.map_or("Unknown".to_owned(), |it| format!("{:?}", it.status)),
        reason: current.map_or("NotObserved".to_owned(), |it| it.reason.clone()),
        generation: meta.generation,
        pods: pipeline_status.and_then(|status| status.pods.clone()),
        schema_revision: pipeline_status.and_then(|status| status.schema_revision.clone()),
        image: facts.gateways.iter().find_map(|pool| pool.status.as_ref()?.image.clone()),
        lag_seconds: lag.and_then(|lag| lag.seconds),
        lag_bound_seconds: lag.map(|lag| lag.bound_seconds),
        endpoints: endpoints.filter_map(|edge| edge.endpoint.clone()).collect(),
        documentation_url: pipeline_status.and_then(|status| status.documentation_url.clone()),
        interval_seconds: facts.interval_seconds,
        paths: signal_paths(facts),
        routes: pipeline_status.map_or(&[][..], |status| &status.routes),
        findings,
        rollouts: rollout_lines(facts).into_iter().filter(|line| !line.is_stable()).collect(),
        coordination: facts.schemas.iter().find_map(|it| it.status.as_ref()?.coordination.as_ref()),
        pod_list: pod_lines(facts),
        gaps: facts.gaps.clone(),
    }
}
