//! Decides how a change of image or configuration reaches an edge pool's pods, and how it is rolled
//! back. Pure.
//!
//! First a trial pod runs it (`pool::preflight`), then, with `rollout.canary`, the pods of a few
//! nodes (`canary`). Then the Deployment or DaemonSet rolls it out, with the previous template in
//! an annotation of the same object. If a new pod fails, that template is written again. Progress
//! is part of the status, so that another operator continues it. A rolled-back change is retried
//! only after the spec changes; a refused one after the spec or a Secret does. A refusal that may
//! be temporary is retried every [`RETRY_SECONDS`]. Rotated Secrets always reach the running pods;
//! while canaries are analyzed, those of the other nodes wait.
//!
//! Limits: a Deployment's pods are not compared. A missing workload has no previous template: it is
//! created from the spec.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{EdgePool, PendingChange, PendingStage, RolloutStage};
use millrace_rollout::{FaultKind, Member, Precondition, RolloutVerdict, Trouble, UnitFault, Wish};

use super::canary::{self, PodToReplace};
use super::unit::{ChangeObservation, DesiredUnit, Live, WriteMode, is_paused, missing_member};
use crate::pool::member::member_of_pod;
use crate::pool::preflight::{self, TrialPods};
use crate::pool::rollout::rollout_request;
use crate::pool::status::Rollout;
use crate::pool::template::BaselineTemplate;
use crate::report::conditions::status_time;
use crate::report::events::Notice;

/// A retry may succeed: the registry or node may work again.
const RETRY_SECONDS: i64 = 600;
/// A change is rolled back when more than one in this many new pods fail.
const FAILING_ONE_IN: usize = 10;

/// The state of a change, and the next action.
#[derive(Clone, Debug)]
pub(super) struct ChangeDecision {
    /// `None` if there is no change.
    pub(super) pending: Option<PendingChange>,
    pub(super) tries: TrialPods,
    pub(super) mode: WriteMode,
    /// The pods to delete after the workload is written.
    pub(super) replace: Vec<PodToReplace>,
}

/// Decides the next step of a change, or reports one from the status.
pub(super) fn decide_change(
    desired: &DesiredUnit,
    observed: &ChangeObservation<'_>,
) -> ChangeDecision {
    let replacing = |mode, pending, replace| {
        let tries = TrialPods::remove_all(observed.tries);
        ChangeDecision { pending, tries, mode, replace }
    };
    let over = |mode, pending| replacing(mode, pending, Vec::new());
    let Some(live) = &observed.live else { return over(WriteMode::Desired, None) };
    let (runs, before) = (desired.is_run_by(&live.template), live.rollback_target());
    let baseline_runs =
        live.baseline.as_ref().is_some_and(|baseline| desired.is_run_by(&baseline.template));
    let reported = reported_change(observed.pool).filter(|change| desired.is_reported_by(change));
    let Some(before) = before.filter(|_| !baseline_runs && (!runs || live.baseline.is_some()))
    else {
        // The previous template is desired again, or nothing differs.
        return over(WriteMode::Desired, None);
    };
    match reported.map(|reported| (reported, reported.stage)) {
        Some((reported, PendingStage::Rejected)) if is_still_refused(reported, observed.now) => {
            over(WriteMode::Baseline(before), Some(reported.clone()))
        }
        Some((reported, PendingStage::RolledBack)) => {
            over(WriteMode::Baseline(before), Some(reported.clone()))
        }
        Some((reported, PendingStage::RollingOut)) => {
            let (mode, pending) = continue_rollout(desired, reported, live, runs, before, observed);
            over(mode, pending)
        }
        Some((reported, PendingStage::Canary | PendingStage::Analyzing)) => {
            let canary::CanaryOutcome { mode, pending, replace } =
                canary::continue_canary(desired, reported, live, runs, before, observed);
            replacing(mode, Some(pending), replace)
        }
        // The template was written, and the operator ended before it could report that.
        _ if runs => {
            let (mode, pending) = desired.start_rollout(observed, before);
            over(mode, Some(pending))
        }
        Some((reported, PendingStage::Validating)) => {
            try_change(desired, Some(reported), live, before, observed)
        }
        None | Some((_, PendingStage::Rejected)) => {
            try_change(desired, None, live, before, observed)
        }
    }
}

/// Returns the change in the status.
pub(super) fn reported_change(pool: &EdgePool) -> Option<&PendingChange> {
    pool.status.as_ref()?.pending_change.as_ref()
}

/// Decides about a change that no pod of the pool has yet; `reported` if the status reports its
/// trial.
fn try_change(
    desired: &DesiredUnit,
    reported: Option<&PendingChange>,
    live: &Live,
    before: BaselineTemplate,
    observed: &ChangeObservation<'_>,
) -> ChangeDecision {
    let as_it_is = || match live.is_behind() {
        // Rotated Secrets don't wait for the trial.
        true => WriteMode::Baseline(before.clone()),
        // No further pod gets a change that is no longer declared, and whose faults nobody checks.
        false if live.is_changing() => {
            WriteMode::Stopped(Box::new(live.template.clone()), before.clone())
        }
        false => WriteMode::Deferred,
    };
    let since = reported.map_or_else(|| status_time(observed.now), |change| change.since.clone());
    let over = |mode, pending| {
        let (tries, replace) = (TrialPods::remove_all(observed.tries), Vec::new());
        ChangeDecision { pending: Some(pending), tries, mode, replace }
    };
    match rollout_request(observed.pool) {
        Wish::Continue => {}
        Wish::Pause => {
            return over(as_it_is(), desired.paused_change(PendingStage::Validating, since));
        }
        Wish::Abort => return over(as_it_is(), desired.aborted_change(observed.now)),
    }
    let name = desired.trial_name(observed.names);
    let outcome = match reported {
        Some(_) => {
            preflight::trial_outcome(observed.tries, &name, observed.untried.as_ref(), observed.now)
        }
        None => Precondition::Waits,
    };
    match outcome {
        Precondition::Done => {
            let (mode, pending) = desired.start_rollout(observed, before.clone());
            over(mode, pending)
        }
        Precondition::Failed(UnitFault { kind, text }) => {
            let why = (kind.as_str(), text);
            over(
                as_it_is(),
                desired.pending_change(PendingStage::Rejected, status_time(observed.now), why),
            )
        }
        Precondition::Waits => {
            let message =
                format!("a trial pod validates {} with {}", desired.image, desired.config_map);
            let why = (Reason::Waiting.as_str(), message);
            let trial =
                || preflight::plan_trial(observed.pool, observed.names, &name, observed.desired);
            ChangeDecision {
                pending: Some(desired.pending_change(PendingStage::Validating, since, why)),
                tries: TrialPods::wait_for(observed.tries, &name, reported.is_some(), trial),
                mode: as_it_is(),
                replace: Vec::new(),
            }
        }
    }
}

/// Continues a change that pods are getting.
fn continue_rollout(
    desired: &DesiredUnit,
    reported: &PendingChange,
    live: &Live,
    runs: bool,
    before: BaselineTemplate,
    observed: &ChangeObservation<'_>,
) -> (WriteMode, Option<PendingChange>) {
    if runs && live.verdict == RolloutVerdict::Complete {
        return (WriteMode::Desired, None);
    }
    match rollout_request(observed.pool) {
        Wish::Continue => {}
        Wish::Pause => {
            let pending = desired.paused_change(PendingStage::RollingOut, reported.since.clone());
            return (WriteMode::Paused(before), Some(pending));
        }
        Wish::Abort => return (WriteMode::Deferred, Some(desired.aborted_change(observed.now))),
    }
    // Faults from before the resume don't count.
    let began = if is_paused(reported) { observed.now } else { reported.since.0 };
    let fault = find_fault(desired, began.as_second(), observed);
    let fault = fault.filter(|_| observed.pool.spec.rollout.auto_rollback);
    match fault {
        // The previous template is written once the status reports the rollback.
        Some(UnitFault { kind, text }) => {
            let why = (kind.as_str(), text);
            let pending =
                desired.pending_change(PendingStage::RolledBack, status_time(observed.now), why);
            (WriteMode::Deferred, Some(pending))
        }
        None if is_paused(reported) => {
            (WriteMode::WithBaseline(before), Some(desired.rolling_out_change(observed.now)))
        }
        None => (WriteMode::WithBaseline(before), Some(reported.clone())),
    }
}

/// Returns the fault of new pods, if more than a tenth have one, or aren't created: in a large pool
/// some node always has unrelated troubles. A pod without a node, or on a lost node, proves
/// nothing; nor does an unready pod, unless most old pods are ready: Kafka may be down.
fn find_fault(
    desired: &DesiredUnit,
    began: i64,
    observed: &ChangeObservation<'_>,
) -> Option<UnitFault> {
    let staying = observed.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let (new, old): (Vec<&Pod>, Vec<&Pod>) = staying.partition(|pod| desired.is_run_by_pod(pod));
    let member = |pod: &&Pod| member_of_pod(pod, None, observed.now);
    let ready = old.iter().map(member).filter(|old| old.ready).count();
    let most_old_are_ready = ready * 2 > old.len();
    let counts = |fault: &UnitFault| fault.kind != FaultKind::PodsNotReady || most_old_are_ready;
    let is_the_clusters =
        |it: &Member| it.figures.find_trouble().is_some_and(Trouble::is_the_clusters);
    let members = new.iter().map(member).filter(|new| !is_the_clusters(new));
    let faults = members.filter_map(|new| new.find_fault()).filter(counts);
    let faults: Vec<UnitFault> = faults.collect();
    let refused = observed.lost.and_then(|lost| {
        let pods = usize::try_from(lost.pods).unwrap_or(usize::MAX);
        Some((missing_member(lost, began, observed.now).find_fault()?, pods))
    });
    let not_made = refused.as_ref().map_or(0, |(_, pods)| *pods);
    let are_many = (faults.len() + not_made) * FAILING_ONE_IN > new.len() + not_made;
    let first = refused.map(|(fault, _)| fault).or(faults.into_iter().next());
    first.filter(|_| are_many)
}

fn is_still_refused(reported: &PendingChange, now: Timestamp) -> bool {
    let is_final = reported.reason == FaultKind::ConfigurationRejected.as_str();
    is_final || now.as_second() - reported.since.0.as_second() < RETRY_SECONDS
}

fn is_aborted(pending: &PendingChange) -> bool {
    pending.reason == Reason::RolloutAborted.as_str()
}

/// Returns the pool's condition while a change is pending; `judged` is the state of its pods.
pub(super) fn rollout_of_change(pending: &PendingChange, judged: &RolloutVerdict) -> Rollout {
    let PendingChange { stage, reason, message, image, config_map, .. } = pending;
    let stuck =
        |reason, message| Rollout::Reported { reason, message, progressing: false, stalled: true };
    match stage {
        _ if is_paused(pending) => Rollout::Reported {
            reason: Reason::RolloutPaused,
            message: message.clone(),
            progressing: false,
            stalled: false,
        },
        PendingStage::Validating => Rollout::Reported {
            reason: Reason::Waiting,
            message: message.clone(),
            progressing: true,
            stalled: false,
        },
        PendingStage::Canary | PendingStage::Analyzing => match FaultKind::parse(reason) {
            Some(_) => {
                stuck(Reason::parse(reason).unwrap_or(Reason::PodsNotReady), message.clone())
            }
            None => Rollout::Reported {
                reason: Reason::PodsNotReady,
                message: message.clone(),
                progressing: true,
                stalled: false,
            },
        },
        // All pods are up, but whether they are new was not checked.
        PendingStage::RollingOut if *judged == RolloutVerdict::Complete => Rollout::Reported {
            reason: Reason::PodsNotReady,
            message: message.clone(),
            progressing: true,
            stalled: false,
        },
        PendingStage::RollingOut => Rollout::Evaluated(judged.clone()),
        PendingStage::Rejected => {
            let reason = Reason::parse(reason).unwrap_or(Reason::PodCreationFailed);
            stuck(reason, format!("no pod was changed to {image} with {config_map}: {message}"))
        }
        PendingStage::RolledBack if is_aborted(pending) => {
            stuck(Reason::RolloutAborted, message.clone())
        }
        PendingStage::RolledBack => {
            let what = format!("{image} with {config_map} was rolled back: {reason}: {message}");
            stuck(Reason::RolledBack, what)
        }
    }
}

/// Returns the stage for metrics, by the gateways' names. After a refusal no pod has the change
/// either.
pub(super) fn rollout_stage(pending: Option<&PendingChange>) -> RolloutStage {
    match pending.map(|pending| (pending, pending.stage)) {
        None => RolloutStage::Stable,
        Some((pending, _)) if is_paused(pending) => RolloutStage::Paused,
        Some((pending, _)) if is_aborted(pending) => RolloutStage::Aborted,
        Some((_, PendingStage::Validating)) => RolloutStage::Waiting,
        Some((_, PendingStage::Canary)) => RolloutStage::Canary,
        Some((_, PendingStage::Analyzing)) => RolloutStage::Analyzing,
        Some((_, PendingStage::RollingOut)) => RolloutStage::Promoting,
        Some((_, PendingStage::Rejected | PendingStage::RolledBack)) => RolloutStage::RolledBack,
    }
}

/// Returns the event about a changed stage; `desired` is the current spec. Conditions report
/// failures.
pub(super) fn change_notice(
    before: Option<&PendingChange>,
    now: Option<&PendingChange>,
    desired: &DesiredUnit,
) -> Option<Notice> {
    use PendingStage::{Analyzing, Canary, RollingOut};
    let is_out = |it: &&PendingChange| [Canary, Analyzing, RollingOut].contains(&it.stage);
    let was_paused = before.is_some_and(is_paused);
    let (was, is) = (before.filter(is_out), now.filter(is_out));
    let normal = |reason: Reason, note| Notice::normal(reason, "Rollout", note);
    let too_few = Reason::RolloutTooFewRecords;
    match (was, is, now) {
        (Some(_), Some(is), _) if was_paused && !is_paused(is) => {
            Some(normal(Reason::RolloutResumed, is.message.clone()))
        }
        (Some(was), Some(is), _) if was.stage != is.stage && !is_paused(is) => {
            let note = is.message.clone();
            Some(match is.stage {
                RollingOut if is.reason == too_few.as_str() => {
                    Notice::warning(too_few, "Rollout", note)
                }
                Analyzing => normal(Reason::RolloutAnalyzing, note),
                _ => normal(Reason::RolloutPromoting, note),
            })
        }
        (None, Some(is), _) => Some(normal(Reason::RolloutStarted, is.message.clone())),
        // A change that is no longer desired did not complete.
        (Some(was), None, None) if was.stage == RollingOut && desired.is_reported_by(was) => {
            let note = format!("all pods run {} with {}", was.image, was.config_map);
            Some(normal(Reason::RolloutCompleted, note))
        }
        _ => None,
    }
}
