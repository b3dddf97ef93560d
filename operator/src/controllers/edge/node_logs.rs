//! What pods report of their nodes' logs: how many nodes read, how far they are behind, and the
//! condition `LogsLost`. Pure.
//!
//! The sums of what was lost are made in `logs_lost`. Limits: figures that change are written every
//! [`REFRESH`]; a node whose pod doesn't answer is in no sum.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{EdgePoolStatus, LogsLostStatus, NodeBehind, NodesStatus};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find};

use super::logs_lost::{self, QUIET};
use super::watches::Watches;
use crate::pods::{ADMIN_PORT, Look, NodeLogsSample, PodState};
use crate::pool::status::as_i32;
use crate::report::conditions::Conditions;
use crate::report::events::Notice;

/// Figures that change are written at most this often.
const REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// Unchanged figures get a new date this often, to show that they are current.
const REDATE: SignedDuration = SignedDuration::from_secs(300);
/// Figures older than this are no answer: twice [`REDATE`].
const STALE: SignedDuration = SignedDuration::from_secs(600);
/// What is behind counts in whole units of this: 1 MiB, about what a busy node has in flight. So an
/// idle pool's figures, and with them its status, stay the same.
const UNIT_BYTES: u64 = 1 << 20;

/// What the status of a pool that reads nodes' logs says of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeLogs {
    pub(super) nodes: Option<NodesStatus>,
    pub(super) lost: Option<LogsLostStatus>,
    /// What pods are refused; none if none answers.
    pub(super) watches: Option<Watches>,
}

/// What the pod of a node answered.
pub(super) struct Answer<'a> {
    pub(super) node: &'a str,
    pub(super) is_ready: bool,
    pub(super) started_at: Option<i64>,
    pub(super) logs: NodeLogsSample,
}

impl NodeLogs {
    /// What the status says.
    pub(super) fn told(status: Option<&EdgePoolStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        Self { nodes: status.nodes.clone(), lost: status.logs_lost.clone(), watches: None }
    }

    /// Adds what pods say now. Where none answers, nothing changes.
    pub(super) fn note(&mut self, pods: &[PodState], look: &Look, now: Timestamp) {
        // As conditions have it: whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let answers = answers(pods, look);
        self.watches = Watches::of(&answers);
        if let Some(found) = figures(&answers, silent(pods, look), now) {
            self.nodes = Some(match self.nodes.take() {
                Some(before) if is_recent_enough(&before, &found) => before,
                _ => found,
            });
        }
        let nodes = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        logs_lost::add(&mut self.lost, &answers, &nodes, now);
    }

    /// States `LogsLost`.
    pub(super) fn state(&self, conditions: &mut Conditions, now: Timestamp) {
        use ConditionType::LogsLost;
        let is_within = |at: &Time, limit| now.duration_since(at.0).abs() < limit;
        if let Some(lost) = self.lost.as_ref().filter(|lost| is_within(&lost.grew_at, QUIET)) {
            return conditions.holds(LogsLost, Reason::LogsGoneUnread, logs_lost::text(lost));
        }
        match &self.nodes {
            Some(nodes) if is_within(&nodes.observed_at, STALE) => {
                let message = "no pod that answers has lost logs of its node for an hour";
                conditions.fails(LogsLost, Reason::NoLogsLost, message);
            }
            Some(nodes) => {
                let at = nodes.observed_at.0;
                let message = format!(
                    "no pod has answered the operator on its admin port ({ADMIN_PORT}) since {at}: \
                     see whether the pods are ready, and whether a NetworkPolicy keeps the \
                     operator from them"
                );
                conditions.unknown(LogsLost, Reason::PodsSilent, message);
            }
            None => {
                let message = format!("no pod has answered on its admin port ({ADMIN_PORT}) yet");
                conditions.unknown(LogsLost, Reason::NotObserved, message);
            }
        }
    }

    /// The event of an episode that began before the operator saw the end of the last one: the
    /// condition did not change, so it publishes none.
    pub(super) fn notice(&self, before: &EdgePoolStatus) -> Option<Notice> {
        let was_lost = find(&before.conditions, ConditionType::LogsLost)?;
        let (was, is) = (before.logs_lost.as_ref()?, self.lost.as_ref()?);
        let is_new = was.since != is.since && was_lost.status == ConditionStatus::True;
        is_new.then(|| Notice::warning(Reason::LogsGoneUnread, "Reconcile", logs_lost::text(is)))
    }
}

/// The answers of pods that read logs, one for each node: that of the youngest process.
fn answers<'a>(pods: &'a [PodState], look: &Look) -> Vec<Answer<'a>> {
    let mut answers = BTreeMap::new();
    for pod in pods {
        let (Some(node), Some(Ok(sample))) = (pod.node.as_deref(), look.get(&pod.name)) else {
            continue;
        };
        let (started_at, logs) = (sample.started_at, sample.node_logs);
        let answer = Answer { node, is_ready: pod.ready_since.is_some(), started_at, logs };
        let is_older = |other: &Answer<'_>| started_at < other.started_at;
        if logs.reads() && !answers.get(node).is_some_and(is_older) {
            answers.insert(node, answer);
        }
    }
    answers.into_values().collect()
}

/// Pods that are ready and don't answer.
fn silent(pods: &[PodState], look: &Look) -> i32 {
    let is_silent = |pod: &&PodState| {
        pod.ready_since.is_some() && look.get(&pod.name).is_some_and(Result::is_err)
    };
    as_i32(u32::try_from(pods.iter().filter(is_silent).count()).unwrap_or(u32::MAX))
}

/// The sums over nodes that answer. None if there is none.
fn figures(answers: &[Answer<'_>], silent: i32, now: Timestamp) -> Option<NodesStatus> {
    let (mut reading, mut sum) = (0_u32, 0_i64);
    let mut worst: Option<NodeBehind> = None;
    for Answer { node, is_ready, logs, .. } in answers {
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
    let found = NodesStatus { reading, silent, behind_bytes: sum, worst, observed_at };
    (!answers.is_empty()).then_some(found)
}

/// Whether the status may go on with what it has. A number of nodes that changed is written at
/// once.
fn is_recent_enough(before: &NodesStatus, found: &NodesStatus) -> bool {
    let age = found.observed_at.0.duration_since(before.observed_at.0);
    let same_nodes = (before.reading, before.silent) == (found.reading, found.silent);
    let same =
        same_nodes && (before.behind_bytes, &before.worst) == (found.behind_bytes, &found.worst);
    let limit = if same { REDATE } else { REFRESH };
    same_nodes && age >= SignedDuration::ZERO && age < limit
}

/// A count as Kubernetes types carry it.
pub(super) fn as_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
