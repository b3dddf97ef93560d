//! Tries a change on the first nodes: which pods are replaced first, and whether the new ones
//! perform as well as the others. Pure; the rule itself is `millrace_rollout::step`, as for
//! gateways.
//!
//! A DaemonSet has no partition. While its update strategy is `OnDelete` it replaces no pod
//! automatically, so the operator deletes those of the first nodes and their successors have the
//! new template; `change` then continues with all nodes. Limits: pods of nodes that join in the
//! meantime have the new template too and are compared with the first; nothing is compared after
//! that.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{PendingChange, PendingStage};
use millrace_rollout::{
    CanaryVerdict, Cause, FaultKind, LoadFigures, Member, Moving, PodFigures, Precondition,
    RolloutObservation, RolloutPlan, RolloutProgress, RolloutState, RolloutStep, RolloutVerdict,
    Stage, Trouble, UnitFault, step_rollout,
};

use super::unit::{
    ChangeObservation as Look, DesiredUnit, Live, WriteMode, canary_settings, is_paused,
    missing_member, unit_of,
};
use crate::pool::member::member_of_pod;
use crate::pool::rollout::{figures_text, rollout_policy, rollout_request, sum_figures};
use crate::pool::template::{self, BaselineTemplate};
use crate::report::conditions::status_time;
use crate::report::counts::format_count;

/// A pod to delete, so that one with the new template replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodToReplace {
    pub(super) name: String,
    pub(super) uid: Option<String>,
}

/// The result for the first nodes.
pub(super) struct CanaryOutcome {
    pub(super) mode: WriteMode,
    pub(super) pending: PendingChange,
    pub(super) replace: Vec<PodToReplace>,
}

/// Continues a change that the first nodes have, or get.
pub(super) fn continue_canary(
    desired: &DesiredUnit,
    reported: &PendingChange,
    live: &Live,
    runs: bool,
    before: BaselineTemplate,
    observed: &Look<'_>,
) -> CanaryOutcome {
    let only = |mode, pending| CanaryOutcome { mode, pending, replace: Vec::new() };
    // Without nodes there are no first ones.
    let has_none = live.desired == 0 && live.verdict == RolloutVerdict::Complete;
    let Some(canary) = canary_settings(observed).filter(|_| !has_none) else {
        return only(WriteMode::WithBaseline(before), desired.rolling_out_change(observed.now));
    };
    if !runs {
        // A manual edit: the template is written again before any pod is replaced.
        return only(WriteMode::Paused(before), reported.clone());
    }
    let pods =
        CanaryPods::from_observation(desired, &before, reported.since.0.as_second(), observed);
    let policy = rollout_policy(Some(canary), observed.pool.spec.rollout.auto_rollback);
    let observation = pods.rollout_observation(desired, live, observed);
    let step =
        step_rollout(Some(&rollout_state(desired, reported, &before)), &observation, &policy);
    let since = since_time(step.state.since);
    match &step.state.stage {
        Stage::Moving(point @ (RolloutProgress::Canary | RolloutProgress::Analyzing)) => {
            let count = match step.plan {
                RolloutPlan::Split { pods } => pods,
                RolloutPlan::All | RolloutPlan::Previous => 0,
            };
            let (stage, why) = stage_and_reason(*point, count, desired, &step);
            let is_same = reported.stage == stage && reported.reason == why.0;
            let pending = if is_same {
                reported.clone()
            } else {
                desired.pending_change(stage, since, (&why.0, why.1))
            };
            let replace =
                if observation.is_spec_observed { pods.pods_to_replace(count) } else { Vec::new() };
            CanaryOutcome { mode: WriteMode::Paused(before), pending, replace }
        }
        Stage::Paused(point) => {
            only(WriteMode::Paused(before), desired.paused_change(stage_of(*point), since))
        }
        Stage::RollingBack(Cause::Aborted) | Stage::RolledBack(Cause::Aborted) => {
            only(WriteMode::Deferred, desired.aborted_change(observed.now))
        }
        Stage::RollingBack(Cause::Failed(fault)) | Stage::RolledBack(Cause::Failed(fault)) => {
            let why = (fault.kind.as_str(), fault.text.clone());
            only(WriteMode::Deferred, desired.pending_change(PendingStage::RolledBack, since, why))
        }
        Stage::Stable
        | Stage::Moving(RolloutProgress::Waiting | RolloutProgress::Promoting { .. }) => {
            let (reason, text) = comparison_text(&step, &observation);
            let why = (reason.as_str(), text);
            only(
                WriteMode::WithBaseline(before),
                desired.pending_change(PendingStage::RollingOut, since, why),
            )
        }
    }
}

/// The pool's pods, by what they run.
struct CanaryPods<'a> {
    /// Pods that are not being deleted and have no trouble caused by the cluster.
    members: Vec<(&'a Pod, Member)>,
    /// Pods that run the template from before the change.
    before: Vec<&'a str>,
    /// The number of pods being deleted or not yet recreated: others replace them.
    ending: u32,
    /// One of the pods that aren't recreated, if any.
    missing: Option<Member>,
    /// The fault of a pod with trouble caused by the cluster.
    lost: Option<UnitFault>,
}

impl<'a> CanaryPods<'a> {
    fn from_observation(
        desired: &DesiredUnit,
        before: &BaselineTemplate,
        began: i64,
        observed: &Look<'a>,
    ) -> Self {
        let runs = template::template_runs(&before.template);
        let (mut members, mut names, mut ending, mut lost) = (Vec::new(), Vec::new(), 0_u32, None);
        for pod in observed.pods {
            let member = Member {
                updated: desired.is_run_by_pod(pod),
                ..member_of_pod(pod, None, observed.now)
            };
            // A node that is lost or full proves nothing, and another one can be tried.
            if member.figures.find_trouble().is_some_and(Trouble::is_the_clusters) {
                let PodFigures { name, message, .. } = &member.figures;
                let text = format!("pod {name}: {message}");
                lost.get_or_insert_with(|| UnitFault::new(FaultKind::PodsNotReady, text));
                continue;
            }
            if pod.metadata.deletion_timestamp.is_some() {
                ending += 1;
                continue;
            }
            if template::pod_runs(pod) == runs {
                names.extend(pod.metadata.name.as_deref());
            }
            members.push((pod, member));
        }
        let ending = observed.lost.map_or(ending, |lost| ending.saturating_add(lost.pods));
        let missing = observed.lost.map(|lost| missing_member(lost, began, observed.now));
        Self { members, before: names, ending, missing, lost }
    }

    /// Returns the observation for the rule of rollouts.
    fn rollout_observation(
        &self,
        desired: &DesiredUnit,
        live: &Live,
        observed: &Look<'_>,
    ) -> RolloutObservation {
        let is_new =
            |name: &str| self.members.iter().any(|(pod, it)| it.updated && pod.name_any() == name);
        let all = &observed.loads.0;
        let of = |is: &dyn Fn(&str) -> bool| -> Vec<LoadFigures> {
            all.iter().filter(|(pod, _)| is(pod)).map(|(_, load)| load.clone()).collect()
        };
        let old = of(&|name| self.before.contains(&name));
        let verdict = &live.verdict;
        let there = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let there = there.saturating_add(self.ending);
        RolloutObservation {
            now: observed.now.as_second(),
            declared: desired.to_unit(),
            key: desired.key().to_owned(),
            running: None,
            wish: rollout_request(observed.pool),
            first: Precondition::Done,
            // No more pods than exist can be first.
            size: live.desired.min(there),
            is_spec_observed: *verdict != RolloutVerdict::Moving(Moving::NotObserved),
            complete: *verdict == RolloutVerdict::Complete,
            // A paused canary replaces no pod, whatever the plan.
            allowed: live.desired,
            members: self.members.iter().map(|(_, it)| it).chain(&self.missing).cloned().collect(),
            stays: self.lost.clone().filter(|_| there == 0),
            // The broker was not queried: without other pods, unready ones prove nothing.
            broker_away: true,
            new_loads: of(&is_new),
            old_loads: if old.is_empty() { observed.loads.1.clone() } else { old },
        }
    }

    /// Returns the pods to delete so that `count` have the change. Pods of another, unfinished
    /// change come first, then ready ones: a node without lines to read shows nothing.
    fn pods_to_replace(&self, count: u32) -> Vec<PodToReplace> {
        let (new, mut old): (Vec<_>, Vec<_>) =
            self.members.iter().partition(|(_, member)| member.updated);
        old.sort_by_key(|(pod, member)| {
            let name = pod.name_any();
            (self.before.contains(&name.as_str()), !member.ready, name)
        });
        let there = u32::try_from(new.len()).unwrap_or(u32::MAX).saturating_add(self.ending);
        let missing = usize::try_from(count.saturating_sub(there)).unwrap_or(0);
        let chosen = old.into_iter().take(missing);
        chosen.map(|(pod, _)| PodToReplace { name: pod.name_any(), uid: pod.uid() }).collect()
    }
}

/// Converts the status to the rule's state.
fn rollout_state(
    desired: &DesiredUnit,
    reported: &PendingChange,
    before: &BaselineTemplate,
) -> RolloutState {
    let point = match reported.stage {
        PendingStage::Analyzing => RolloutProgress::Analyzing,
        _ => RolloutProgress::Canary,
    };
    let runs = template::template_runs(&before.template);
    let before = runs.map(|(image, config)| unit_of(image, config));
    RolloutState {
        stage: if is_paused(reported) { Stage::Paused(point) } else { Stage::Moving(point) },
        since: reported.since.0.as_second(),
        before,
        after: desired.to_unit(),
        key: desired.key().to_owned(),
        attempts: 1,
    }
}

fn stage_of(point: RolloutProgress) -> PendingStage {
    match point {
        RolloutProgress::Analyzing => PendingStage::Analyzing,
        RolloutProgress::Waiting | RolloutProgress::Canary | RolloutProgress::Promoting { .. } => {
            PendingStage::Canary
        }
    }
}

/// Returns stage, reason and message while the first nodes get the change or are analyzed.
fn stage_and_reason(
    point: RolloutProgress,
    count: u32,
    desired: &DesiredUnit,
    step: &RolloutStep,
) -> (PendingStage, (String, String)) {
    let stage = stage_of(point);
    let what = desired.to_text();
    let (reason, text) = match (step.held.as_ref().or(step.waits.as_ref()), point) {
        (Some(fault), _) => (fault.kind.as_str(), fault.text.clone()),
        (None, RolloutProgress::Analyzing) => (
            Reason::RolloutAnalyzing.as_str(),
            format!("{} with {what}, compared with the others", format_count(count, "node")),
        ),
        (None, _) => (
            Reason::RolloutStarted.as_str(),
            format!("{} get {what} first", format_count(count, "node")),
        ),
    };
    (stage, (reason.to_owned(), text))
}

/// Returns the comparison's result as message text.
fn comparison_text(step: &RolloutStep, observation: &RolloutObservation) -> (Reason, String) {
    let RolloutObservation { old_loads, new_loads, .. } = observation;
    let (before, after) = (sum_figures(old_loads), sum_figures(new_loads));
    let sides = figures_text(before.as_ref(), after.as_ref());
    match &step.judgement {
        Some(CanaryVerdict::TooFew { records }) => (
            Reason::RolloutTooFewRecords,
            format!(
                "only {} came from the first nodes, too few to compare; they showed no fault, \
                 so the other nodes get the change{sides}",
                format_count(records, "record")
            ),
        ),
        _ => (Reason::RolloutPromoting, format!("the other nodes get the change{sides}")),
    }
}

fn since_time(second: i64) -> Time {
    status_time(Timestamp::from_second(second).unwrap_or_default())
}
