//! Converts a rollout's state to and from the status; builds its conditions, events and report.
//! Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{RolloutReport, RolloutStage, RolloutStatus, RolloutUnit};
use millrace_rollout::{
    CanaryVerdict, Cause, FaultKind, RolloutObservation, RolloutProgress, RolloutState,
    RolloutStep, RolloutVerdict, Stage, Stuck, Unit, UnitFault,
};

use super::{RolloutDecision, digests};
use crate::pool::rollout::{figures_text, sum_figures};
use crate::pool::secrets::without_secrets;
use crate::pool::status::{Rollout, as_i32, cut_message};
use crate::report::counts::format_count;
use crate::report::events::Notice;

/// The report's result of a comparison without a failure.
const PASSED: &str = "Passed";
/// The report's result of a rollout without a canary.
const NOT_COMPARED: &str = "NotCompared";
/// The report's result of a comparison with too few records.
const TOO_FEW: &str = "TooFewRecords";

/// How a waiting change ends, as message text.
const ABORT_HINT: &str = "the change continues then; spec.rolloutAction: Abort rolls it back";

pub(super) fn unit_from_status(reported: &RolloutUnit) -> Unit {
    Unit {
        image: reported.image.clone(),
        allocator: reported.allocator.clone(),
        config: reported.config_map.clone(),
        schema_revision: reported.schema_revision.clone(),
        digests: reported.image_digests.clone(),
    }
}

fn unit_to_status(unit: &Unit) -> RolloutUnit {
    RolloutUnit {
        image: unit.image.clone(),
        allocator: unit.allocator.clone(),
        config_map: unit.config.clone(),
        schema_revision: unit.schema_revision.clone(),
        image_digests: unit.digests.clone(),
    }
}

/// Returns the state in a status; `None` for one that no operator writes. A configuration that a
/// collector refused under other Secrets counts as new and is tried again: the Secrets may have
/// been the fault, and no pod of the pool has it.
pub(super) fn state_from_status(
    reported: &RolloutStatus,
    secrets: Option<&str>,
) -> Option<RolloutState> {
    let pods = || reported.pods.and_then(|pods| u32::try_from(pods).ok()).unwrap_or(1);
    let point = |stage| match stage {
        RolloutStage::Waiting => Some(RolloutProgress::Waiting),
        RolloutStage::Canary => Some(RolloutProgress::Canary),
        RolloutStage::Analyzing => Some(RolloutProgress::Analyzing),
        RolloutStage::Promoting => Some(RolloutProgress::Promoting { pods: pods() }),
        _ => None,
    };
    let cause = || match FaultKind::parse(&reported.reason) {
        Some(kind) => Cause::Failed(UnitFault::new(kind, reported.message.clone())),
        None => Cause::Aborted,
    };
    let stage = match reported.stage {
        RolloutStage::Stable => Stage::Stable,
        RolloutStage::Paused => Stage::Paused(point(reported.paused_at?)?),
        RolloutStage::RollingBack => Stage::RollingBack(cause()),
        RolloutStage::RolledBack | RolloutStage::Aborted => Stage::RolledBack(cause()),
        stage => Stage::Moving(point(stage)?),
    };
    let (key, with) = without_secrets(&reported.digest);
    let is_mended = reported.stage == RolloutStage::RolledBack
        && reported.reason == FaultKind::ConfigurationRejected.as_str()
        && with != secrets;
    let key = if is_mended { &reported.digest } else { key };
    Some(RolloutState {
        stage,
        since: reported.since.0.as_second(),
        before: reported.before.as_ref().map(unit_from_status),
        after: unit_from_status(&reported.after),
        key: key.to_owned(),
        attempts: u32::try_from(reported.attempts).unwrap_or(0),
    })
}

fn stage_of(point: RolloutProgress) -> RolloutStage {
    match point {
        RolloutProgress::Waiting => RolloutStage::Waiting,
        RolloutProgress::Canary => RolloutStage::Canary,
        RolloutProgress::Analyzing => RolloutStage::Analyzing,
        RolloutProgress::Promoting { .. } => RolloutStage::Promoting,
    }
}

fn stage_to_status(stage: &Stage) -> RolloutStage {
    match stage {
        Stage::Stable => RolloutStage::Stable,
        Stage::Moving(point) => stage_of(*point),
        Stage::Paused(_) => RolloutStage::Paused,
        Stage::RollingBack(_) => RolloutStage::RollingBack,
        Stage::RolledBack(Cause::Failed(_)) => RolloutStage::RolledBack,
        Stage::RolledBack(Cause::Aborted) => RolloutStage::Aborted,
    }
}

/// Returns whether a change has not begun.
pub(super) fn is_waiting(state: &RolloutState) -> bool {
    matches!(state.stage, Stage::Moving(RolloutProgress::Waiting))
}

/// Returns the status of a step. Unchanged content retains its old form.
pub(super) fn build_status(
    before: Option<&RolloutStatus>,
    last: Option<&RolloutState>,
    step: &RolloutStep,
    observation: &RolloutObservation,
    waits_for: &str,
) -> RolloutStatus {
    let state = &step.state;
    let (reason, message) = reason_and_message(last, step, waits_for);
    let same_words = before.is_some_and(|before| {
        before.stage == stage_to_status(&state.stage)
            && before.reason == reason
            && !is_waiting(state)
    });
    let unchanged = before.filter(|_| same_words).map(|before| before.message.clone());
    let (point, paused_at) = match &state.stage {
        Stage::Moving(point) => (Some(*point), None),
        Stage::Paused(point) => (Some(*point), Some(stage_of(*point))),
        _ => (None, None),
    };
    let pods = point.and_then(|point| match point {
        RolloutProgress::Promoting { pods } => Some(as_i32(pods)),
        RolloutProgress::Waiting | RolloutProgress::Canary | RolloutProgress::Analyzing => None,
    });
    let since = Timestamp::from_second(state.since).unwrap_or_default();
    RolloutStatus {
        stage: stage_to_status(&state.stage),
        paused_at,
        since: Time(since),
        reason,
        message: unchanged.unwrap_or_else(|| cut_message(message)),
        before: state.before.as_ref().map(unit_to_status),
        after: unit_to_status(&state.after),
        pods,
        digest: state.key.clone(),
        attempts: as_i32(state.attempts),
        report: build_report(before, last, step, observation),
    }
}

/// Returns the reason and message of a step.
fn reason_and_message(
    last: Option<&RolloutState>,
    step: &RolloutStep,
    waits_for: &str,
) -> (String, String) {
    let state = &step.state;
    if let Some(fault) = &step.held {
        return (fault.kind.as_str().into(), fault.text.clone());
    }
    let image = &state.after.image;
    let (reason, message) = match &state.stage {
        Stage::Stable if state.before.is_some() => {
            (Reason::RolloutCompleted, format!("all pods run {image}"))
        }
        Stage::Stable if last.is_some_and(|last| last.stage != Stage::Stable) => {
            (Reason::UpToDate, format!("{image} is desired again"))
        }
        Stage::Stable => (Reason::UpToDate, "no change is under way".into()),
        Stage::Moving(RolloutProgress::Waiting) => {
            (Reason::Waiting, format!("waits until {waits_for}"))
        }
        Stage::Moving(RolloutProgress::Canary) => {
            (Reason::RolloutStarted, format!("the first pods get {image}"))
        }
        Stage::Moving(RolloutProgress::Analyzing) => (
            Reason::RolloutAnalyzing,
            format!("canary pods with {image} are compared with the others"),
        ),
        Stage::Moving(RolloutProgress::Promoting { pods }) => {
            (Reason::RolloutPromoting, format!("{} may have {image}", format_count(pods, "pod")))
        }
        Stage::Paused(_) => (Reason::RolloutPaused, "paused by spec.rolloutAction".into()),
        Stage::RollingBack(Cause::Failed(fault)) | Stage::RolledBack(Cause::Failed(fault)) => {
            return (fault.kind.as_str().into(), fault.text.clone());
        }
        Stage::RollingBack(Cause::Aborted) | Stage::RolledBack(Cause::Aborted) => {
            (Reason::RolloutAborted, "rolled back by spec.rolloutAction".into())
        }
    };
    (reason.as_str().to_owned(), message)
}

/// Returns the report. It is made when the analysis ends, on a rollback, and when all pods have an
/// unanalyzed unit; it remains until the next rollout.
fn build_report(
    before: Option<&RolloutStatus>,
    last: Option<&RolloutState>,
    step: &RolloutStep,
    observation: &RolloutObservation,
) -> Option<RolloutReport> {
    let state = &step.state;
    let same_try =
        last.is_some_and(|last| last.attempts == state.attempts) || state.stage == Stage::Stable;
    let previous = before.filter(|_| same_try).and_then(|before| before.report.clone());
    let moved = last.is_some_and(|last| last.stage != state.stage);
    let verdict = match (&step.judgement, &state.stage) {
        (Some(CanaryVerdict::Passed), _) => PASSED,
        (Some(CanaryVerdict::TooFew { .. }), _) => TOO_FEW,
        (Some(CanaryVerdict::Failed(fault)), _) => fault.kind.as_str(),
        (None, Stage::RollingBack(Cause::Failed(fault))) if moved => fault.kind.as_str(),
        (None, Stage::Stable) if moved && previous.is_none() && state.before.is_some() => {
            NOT_COMPARED
        }
        _ => return previous,
    };
    Some(RolloutReport {
        verdict: verdict.to_owned(),
        before: sum_figures(&observation.old_loads),
        after: sum_figures(&observation.new_loads),
    })
}

/// Returns the state of the pods, given the rollout, for the pool's conditions.
pub(in crate::controllers::gateway) fn rollout_of_decision(
    decision: &RolloutDecision,
    rolls_back: bool,
    verdict: &RolloutVerdict,
) -> Rollout {
    let reported = &decision.status;
    let waits = decision.step.waits.as_ref();
    let fault = FaultKind::parse(&reported.reason).map(|_| parse_reason(&reported.reason));
    let message = reported.message.clone();
    let report = |reason, progressing, stalled, message| Rollout::Reported {
        reason,
        message,
        progressing,
        stalled,
    };
    match reported.stage {
        RolloutStage::Stable => Rollout::Evaluated(verdict.clone()),
        RolloutStage::Waiting => match fault {
            Some(fault) => report(fault, false, true, message),
            None => report(Reason::Waiting, false, false, message),
        },
        RolloutStage::Paused => report(Reason::RolloutPaused, false, false, message),
        RolloutStage::RollingBack => match waits {
            Some(UnitFault { kind, text }) => {
                let text = format!("{} is rolled back, which waits: {text}", reported.after.image);
                report(parse_reason(kind.as_str()), false, true, text)
            }
            None => report(fault.unwrap_or(Reason::RolloutAborted), true, false, message),
        },
        RolloutStage::RolledBack => {
            let text =
                format!("{} was rolled back: {}: {message}", reported.after.image, reported.reason);
            report(Reason::RolledBack, false, true, text)
        }
        RolloutStage::Aborted => report(Reason::RolloutAborted, false, true, message),
        RolloutStage::Canary | RolloutStage::Analyzing | RolloutStage::Promoting => {
            // Only a refused pod that the change lost is a fault; any other rolls nothing back.
            let is_the_clusters = match verdict {
                RolloutVerdict::Stuck(Stuck::Pods { trouble, .. }) => trouble.is_the_clusters(),
                RolloutVerdict::Stuck(Stuck::Refused { .. }) => true,
                _ => false,
            };
            match (fault, waits, verdict) {
                (Some(fault), ..) => report(fault, false, true, message),
                (None, Some(UnitFault { kind, text }), _) => report(
                    parse_reason(kind.as_str()),
                    false,
                    true,
                    format!("{text}; {ABORT_HINT}"),
                ),
                (None, None, RolloutVerdict::Moving(_)) => Rollout::Evaluated(verdict.clone()),
                (None, None, RolloutVerdict::Stuck(_)) if !rolls_back || is_the_clusters => {
                    Rollout::Evaluated(verdict.clone())
                }
                (None, None, RolloutVerdict::Stuck(stuck)) => {
                    let (reason, text) = crate::pool::status::stuck_text(stuck);
                    report(
                        reason,
                        true,
                        false,
                        format!("{text}; rolled back soon if this continues"),
                    )
                }
                // All pods are up; whether they remain so is not decided.
                (None, None, RolloutVerdict::Complete) => {
                    report(Reason::PodsNotReady, true, false, message)
                }
            }
        }
    }
}

fn parse_reason(word: &str) -> Reason {
    Reason::parse(word).unwrap_or(Reason::PodsNotReady)
}

/// Returns whether nothing is in progress and nothing has just changed.
pub(in crate::controllers::gateway) fn is_stable(
    before: Option<&RolloutStatus>,
    now: &RolloutStatus,
) -> bool {
    let ends = [RolloutStage::Stable, RolloutStage::RolledBack, RolloutStage::Aborted];
    ends.contains(&now.stage) && before.is_some_and(|before| before.stage == now.stage)
}

/// Returns events of changes. Conditions report failures.
pub(in crate::controllers::gateway) fn rollout_notices(
    before: Option<&RolloutStatus>,
    now: &RolloutStatus,
) -> Vec<Notice> {
    use RolloutStage::{Analyzing, Canary, Paused, Promoting, Stable};
    let was = before.map(|before| before.stage);
    let normal = |reason: Reason, note: String| Notice::normal(reason, "Rollout", note);
    let mut notices: Vec<Notice> = digests::moved_tag_notice(before, now).into_iter().collect();
    let another_try = before.is_none_or(|before| {
        before.attempts != now.attempts || (before.stage == Stable && now.stage != Stable)
    });
    if was == Some(now.stage) && !another_try && before.is_some_and(|it| it.pods == now.pods) {
        return notices;
    }
    if was == Some(Paused) && [Canary, Analyzing, Promoting].contains(&now.stage) {
        notices.push(normal(Reason::RolloutResumed, now.message.clone()));
        return notices;
    }
    let begins = now.stage == Canary || (now.stage == Promoting && was != Some(Analyzing));
    if begins && (was != Some(Promoting) || another_try) {
        let from = now.before.as_ref().map_or("nothing", |unit| unit.image.as_str());
        let (to, maps) = (&now.after.image, &now.after.config_map);
        let note = format!("from {from} to {to} with {maps}; {}", now.message);
        notices.push(normal(Reason::RolloutStarted, note));
        return notices;
    }
    let report = now.report.as_ref();
    match now.stage {
        Analyzing => notices.push(normal(Reason::RolloutAnalyzing, now.message.clone())),
        Promoting => {
            if report.is_some_and(|report| report.verdict == TOO_FEW) && was == Some(Analyzing) {
                let records = report.and_then(|it| it.after.as_ref()).map_or(0, |it| it.records);
                let note = format!(
                    "new pods received only {} during the analysis, too few to compare; they \
                     showed no fault, so the change continues",
                    format_count(records, "record")
                );
                notices.push(Notice::warning(Reason::RolloutTooFewRecords, "Rollout", note));
            }
            notices.push(normal(Reason::RolloutPromoting, now.message.clone()));
        }
        Stable if now.before.is_some() && was.is_some_and(|was| was != Stable) => {
            let sides = |it: &RolloutReport| figures_text(it.before.as_ref(), it.after.as_ref());
            let text = report.map_or_else(String::new, sides);
            notices.push(normal(Reason::RolloutCompleted, format!("{}{text}", now.message)));
        }
        _ => {}
    }
    notices
}
