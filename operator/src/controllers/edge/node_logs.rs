//! Sums what pods report of their nodes' logs: how many nodes read, their backlog, and the
//! condition `LogsLost`. Pure.
//!
//! `logs_lost` sums the losses. Limits: changed figures are written every [`refresh::REFRESH`]; a
//! node whose pod doesn't answer is in no sum.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{EdgePoolStatus, LogsLostStatus, NodeBehind, NodesStatus};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find_condition};

use super::logs_lost::{self, NodeResponse, QUIET};
use super::refresh;
use crate::pods::{ADMIN_PORT, PodState, ScrapeResults};
use crate::pool::status::{as_i32, as_i64};
use crate::report::conditions::{Conditions, status_time};
use crate::report::events::Notice;

/// The age at which figures are no answer: twice [`refresh::REDATE`].
const STALE: SignedDuration = SignedDuration::from_secs(600);
/// The unit of a backlog: 1 MiB, about what a busy node has in flight. So an idle pool's figures,
/// and with them its status, remain the same.
const UNIT_BYTES: u64 = 1 << 20;

/// The figures of nodes' logs in the status of a pool that reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeLogs {
    pub(super) nodes: Option<NodesStatus>,
    pub(super) lost: Option<LogsLostStatus>,
}

impl NodeLogs {
    /// Returns the figures in the status.
    pub(super) fn from_status(status: Option<&EdgePoolStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        Self { nodes: status.nodes.clone(), lost: status.logs_lost.clone() }
    }

    /// Adds the pods' present answers. If none answers, nothing changes.
    pub(super) fn record_responses(
        &mut self,
        pods: &[PodState],
        scrapes: &ScrapeResults,
        now: Timestamp,
    ) {
        let Time(now) = status_time(now);
        let answers = responses_by_node(pods, scrapes);
        if let Some(found) = sum_figures(&answers, count_silent(pods, scrapes), now) {
            self.nodes = Some(match self.nodes.take() {
                Some(before) if is_recent_enough(&before, &found) => before,
                _ => found,
            });
        }
        let nodes = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        logs_lost::add_losses(&mut self.lost, &answers, &nodes, now);
    }

    /// Sets `LogsLost`.
    pub(super) fn state_logs_lost(&self, conditions: &mut Conditions, now: Timestamp) {
        use ConditionType::LogsLost;
        let is_within = |at: &Time, limit| now.duration_since(at.0).abs() < limit;
        if let Some(lost) =
            self.lost.as_ref().filter(|lost| is_within(&lost.last_increase_at, QUIET))
        {
            return conditions.set_true(
                LogsLost,
                Reason::LogsDeletedUnread,
                logs_lost::episode_text(lost),
            );
        }
        match &self.nodes {
            Some(nodes) if is_within(&nodes.observed_at, STALE) => {
                let message = "no reporting pod has lost logs of its node in the past hour";
                conditions.set_false(LogsLost, Reason::NoLogsLost, message);
            }
            Some(nodes) => {
                let at = nodes.observed_at.0;
                let message = format!(
                    "no pod has answered the operator on its admin port ({ADMIN_PORT}) since {at}: \
                     check that the pods are ready, and that no NetworkPolicy blocks the \
                     operator"
                );
                conditions.set_unknown(LogsLost, Reason::PodsUnreachable, message);
            }
            None => {
                let message = format!("no pod has answered on its admin port ({ADMIN_PORT}) yet");
                conditions.set_unknown(LogsLost, Reason::NotObserved, message);
            }
        }
    }

    /// Returns the event of an episode that began before the operator observed the end of the last
    /// one: the condition did not change, so it publishes none.
    pub(super) fn episode_notice(&self, before: &EdgePoolStatus) -> Option<Notice> {
        let was_lost = find_condition(&before.conditions, ConditionType::LogsLost)?;
        let (was, is) = (before.logs_lost.as_ref()?, self.lost.as_ref()?);
        let is_new = was.since != is.since && was_lost.status == ConditionStatus::True;
        is_new.then(|| {
            Notice::warning(Reason::LogsDeletedUnread, "Reconcile", logs_lost::episode_text(is))
        })
    }
}

/// Returns the answers of pods that read logs, one for each node: that of the youngest process.
fn responses_by_node<'a>(pods: &'a [PodState], scrapes: &ScrapeResults) -> Vec<NodeResponse<'a>> {
    let mut answers = BTreeMap::new();
    for pod in pods {
        let (Some(node), Some(Ok(sample))) = (pod.node.as_deref(), scrapes.get(&pod.name)) else {
            continue;
        };
        let (started_at, logs) = (sample.started_at, sample.node_logs);
        let answer = NodeResponse { node, is_ready: pod.ready_since.is_some(), started_at, logs };
        let is_older = |other: &NodeResponse<'_>| started_at < other.started_at;
        if logs.reads_logs() && !answers.get(node).is_some_and(is_older) {
            answers.insert(node, answer);
        }
    }
    answers.into_values().collect()
}

/// Counts ready pods that don't answer.
fn count_silent(pods: &[PodState], scrapes: &ScrapeResults) -> i32 {
    let is_silent = |pod: &&PodState| {
        pod.ready_since.is_some() && scrapes.get(&pod.name).is_some_and(Result::is_err)
    };
    as_i32(pods.iter().filter(is_silent).count())
}

/// Returns the sums over nodes that answer; `None` if none does.
fn sum_figures(answers: &[NodeResponse<'_>], silent: i32, now: Timestamp) -> Option<NodesStatus> {
    let (mut reading, mut sum) = (0_u32, 0_i64);
    let mut worst: Option<NodeBehind> = None;
    for NodeResponse { node, is_ready, logs, .. } in answers {
        reading += u32::from(*is_ready);
        let bytes = logs.behind_bytes.unwrap_or(0);
        let bytes = as_i64(bytes - bytes % UNIT_BYTES);
        sum = sum.saturating_add(bytes);
        if bytes > worst.as_ref().map_or(0, |worst| worst.bytes) {
            let (name, seconds) = ((*node).to_owned(), logs.behind_seconds.map(as_i64));
            worst = Some(NodeBehind { name, bytes, seconds });
        }
    }
    let (reading, observed_at) = (as_i32(reading), Time(now));
    let found = NodesStatus {
        reading,
        unreachable: silent,
        behind_bytes: sum,
        furthest_behind: worst,
        observed_at,
    };
    (!answers.is_empty()).then_some(found)
}

/// Returns whether the status may retain its figures. A changed number of nodes is written at once.
fn is_recent_enough(before: &NodesStatus, found: &NodesStatus) -> bool {
    let same_nodes = (before.reading, before.unreachable) == (found.reading, found.unreachable);
    let same = same_nodes
        && (before.behind_bytes, &before.furthest_behind)
            == (found.behind_bytes, &found.furthest_behind);
    same_nodes && refresh::may_retain(&before.observed_at, &found.observed_at, same)
}
