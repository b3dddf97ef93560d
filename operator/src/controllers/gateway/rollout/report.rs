//! A rollout's state to and from the status; its conditions, events and report. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    RolloutFigures, RolloutReport, RolloutStage, RolloutStatus, RolloutUnit,
};
use millrace_rollout::{
    Cause, Fault, FaultKind, Judgement, Load, Point, Seen, Stage, State, Step, Stuck, Sum, Unit,
    Verdict,
};

use super::{Decision, digests};
use crate::pool::secrets::without_secrets;
use crate::pool::status::{Rollout, as_i32, cut};
use crate::report::events::Notice;

/// The report's word for a comparison that nothing failed.
const PASSED: &str = "Passed";
/// The report's word for a rollout without a canary.
const NOT_COMPARED: &str = "NotCompared";
/// The report's word for one with too few records.
const TOO_FEW: &str = "TooFewRecords";

/// How a waiting change ends, as message text.
const GOES_ON: &str = "the change goes on then; the annotation millrace.dev/rollout=abort takes it \
                       back";

/// The unit in a status.
pub(super) fn unit(told: &RolloutUnit) -> Unit {
    Unit {
        image: told.image.clone(),
        allocator: told.allocator.clone(),
        config: told.config_map.clone(),
        schema_revision: told.schema_revision.clone(),
        digests: told.image_digests.clone(),
    }
}

fn told_unit(unit: &Unit) -> RolloutUnit {
    RolloutUnit {
        image: unit.image.clone(),
        allocator: unit.allocator.clone(),
        config_map: unit.config.clone(),
        schema_revision: unit.schema_revision.clone(),
        image_digests: unit.digests.clone(),
    }
}

/// The state in a status; `None` for one that no operator writes. A configuration that a collector
/// refused under other Secrets counts as new and is tried again: the Secrets may have been the
/// fault, and no pod of the pool has it.
pub(super) fn state(told: &RolloutStatus, secrets: Option<&str>) -> Option<State> {
    let pods = || told.pods.and_then(|pods| u32::try_from(pods).ok()).unwrap_or(1);
    let point = |stage| match stage {
        RolloutStage::Waiting => Some(Point::Waiting),
        RolloutStage::Canary => Some(Point::Canary),
        RolloutStage::Judging => Some(Point::Judging),
        RolloutStage::Promoting => Some(Point::Promoting { pods: pods() }),
        _ => None,
    };
    let cause = || match FaultKind::parse(&told.reason) {
        Some(kind) => Cause::Failed(Fault::new(kind, told.message.clone())),
        None => Cause::Aborted,
    };
    let stage = match told.stage {
        RolloutStage::Stable => Stage::Stable,
        RolloutStage::Paused => Stage::Paused(point(told.paused_at?)?),
        RolloutStage::RollingBack => Stage::Returning(cause()),
        RolloutStage::RolledBack | RolloutStage::Aborted => Stage::Returned(cause()),
        stage => Stage::Moving(point(stage)?),
    };
    let (key, with) = without_secrets(&told.digest);
    let is_mended = told.stage == RolloutStage::RolledBack
        && told.reason == FaultKind::SettingsRefused.as_str()
        && with != secrets;
    let key = if is_mended { &told.digest } else { key };
    Some(State {
        stage,
        since: told.since.0.as_second(),
        before: told.before.as_ref().map(unit),
        after: unit(&told.after),
        key: key.to_owned(),
        attempts: u32::try_from(told.attempts).unwrap_or(0),
    })
}

fn stage_of(point: Point) -> RolloutStage {
    match point {
        Point::Waiting => RolloutStage::Waiting,
        Point::Canary => RolloutStage::Canary,
        Point::Judging => RolloutStage::Judging,
        Point::Promoting { .. } => RolloutStage::Promoting,
    }
}

fn stage(stage: &Stage) -> RolloutStage {
    match stage {
        Stage::Stable => RolloutStage::Stable,
        Stage::Moving(point) => stage_of(*point),
        Stage::Paused(_) => RolloutStage::Paused,
        Stage::Returning(_) => RolloutStage::RollingBack,
        Stage::Returned(Cause::Failed(_)) => RolloutStage::RolledBack,
        Stage::Returned(Cause::Aborted) => RolloutStage::Aborted,
    }
}

/// Whether a change has not begun.
pub(super) fn is_waiting(state: &State) -> bool {
    matches!(state.stage, Stage::Moving(Point::Waiting))
}

/// The status of a step. Unchanged content keeps its old form.
pub(super) fn status(
    before: Option<&RolloutStatus>,
    last: Option<&State>,
    step: &Step,
    seen: &Seen,
    waits_for: &str,
) -> RolloutStatus {
    let state = &step.state;
    let (reason, message) = words(last, step, waits_for);
    let same_words = before.is_some_and(|before| {
        before.stage == stage(&state.stage) && before.reason == reason && !is_waiting(state)
    });
    let kept = before.filter(|_| same_words).map(|before| before.message.clone());
    let (point, paused_at) = match &state.stage {
        Stage::Moving(point) => (Some(*point), None),
        Stage::Paused(point) => (Some(*point), Some(stage_of(*point))),
        _ => (None, None),
    };
    let pods = point.and_then(|point| match point {
        Point::Promoting { pods } => Some(as_i32(pods)),
        Point::Waiting | Point::Canary | Point::Judging => None,
    });
    let since = Timestamp::from_second(state.since).unwrap_or_default();
    RolloutStatus {
        stage: stage(&state.stage),
        paused_at,
        since: Time(since),
        reason,
        message: kept.unwrap_or_else(|| cut(message)),
        before: state.before.as_ref().map(told_unit),
        after: told_unit(&state.after),
        pods,
        digest: state.key.clone(),
        attempts: as_i32(state.attempts),
        report: report(before, last, step, seen),
    }
}

/// The reason and message of a step.
fn words(last: Option<&State>, step: &Step, waits_for: &str) -> (String, String) {
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
            (Reason::Settled, format!("{image} is asked for again"))
        }
        Stage::Stable => (Reason::Settled, "no change is under way".into()),
        Stage::Moving(Point::Waiting) => (Reason::Waiting, format!("waits until {waits_for}")),
        Stage::Moving(Point::Canary) => {
            (Reason::RolloutStarted, format!("the first pods get {image}"))
        }
        Stage::Moving(Point::Judging) => {
            (Reason::RolloutJudging, format!("pods with {image} are watched"))
        }
        Stage::Moving(Point::Promoting { pods }) => {
            (Reason::RolloutPromoting, format!("{pods} pods may have {image}"))
        }
        Stage::Paused(_) => {
            (Reason::RolloutPaused, "held by the annotation millrace.dev/rollout".into())
        }
        Stage::Returning(Cause::Failed(fault)) | Stage::Returned(Cause::Failed(fault)) => {
            return (fault.kind.as_str().into(), fault.text.clone());
        }
        Stage::Returning(Cause::Aborted) | Stage::Returned(Cause::Aborted) => {
            (Reason::RolloutAborted, "taken back by the annotation millrace.dev/rollout".into())
        }
    };
    (reason.as_str().to_owned(), message)
}

/// The report: made when judging ends, on a rollback, and when all pods have an unjudged unit; kept
/// until the next rollout.
fn report(
    before: Option<&RolloutStatus>,
    last: Option<&State>,
    step: &Step,
    seen: &Seen,
) -> Option<RolloutReport> {
    let state = &step.state;
    let same_try =
        last.is_some_and(|last| last.attempts == state.attempts) || state.stage == Stage::Stable;
    let kept = before.filter(|_| same_try).and_then(|before| before.report.clone());
    let moved = last.is_some_and(|last| last.stage != state.stage);
    let verdict = match (&step.judgement, &state.stage) {
        (Some(Judgement::Passed), _) => PASSED,
        (Some(Judgement::TooFew { .. }), _) => TOO_FEW,
        (Some(Judgement::Failed(fault)), _) => fault.kind.as_str(),
        (None, Stage::Returning(Cause::Failed(fault))) if moved => fault.kind.as_str(),
        (None, Stage::Stable) if moved && kept.is_none() && state.before.is_some() => NOT_COMPARED,
        _ => return kept,
    };
    Some(RolloutReport {
        verdict: verdict.to_owned(),
        before: figures(&seen.old_loads),
        after: figures(&seen.new_loads),
    })
}

fn figures(loads: &[Load]) -> Option<RolloutFigures> {
    let sum = Sum::of(loads)?;
    Some(RolloutFigures {
        pods: as_i32(sum.pods),
        records: i64::try_from(sum.records).unwrap_or(i64::MAX),
        records_per_cpu_second: sum.records_per_cpu_second().map(|rate| rate.round() as i64),
        cpu_millicores: (sum.cpus_per_pod() * 1000.0).round() as i64,
        memory_bytes: i64::try_from(sum.resident_bytes).unwrap_or(i64::MAX),
    })
}

/// The state of the pods, given the rollout, for the pool's conditions.
pub(in crate::controllers::gateway) fn condition(
    decision: &Decision,
    rolls_back: bool,
    verdict: &Verdict,
) -> Rollout {
    let told = &decision.status;
    let waits = decision.step.waits.as_ref();
    let fault = FaultKind::parse(&told.reason).map(|_| reason(&told.reason));
    let message = told.message.clone();
    let says = |reason, progressing, stalled, message| Rollout::Told {
        reason,
        message,
        progressing,
        stalled,
    };
    match told.stage {
        RolloutStage::Stable => Rollout::Judged(verdict.clone()),
        RolloutStage::Waiting => match fault {
            Some(fault) => says(fault, false, true, message),
            None => says(Reason::Waiting, false, false, message),
        },
        RolloutStage::Paused => says(Reason::RolloutPaused, false, false, message),
        RolloutStage::RollingBack => match waits {
            Some(Fault { kind, text }) => {
                let text = format!("{} is taken back, which waits: {text}", told.after.image);
                says(reason(kind.as_str()), false, true, text)
            }
            None => says(fault.unwrap_or(Reason::RolloutAborted), true, false, message),
        },
        RolloutStage::RolledBack => {
            let text = format!("{} was taken back: {}: {message}", told.after.image, told.reason);
            says(Reason::RolledBack, false, true, text)
        }
        RolloutStage::Aborted => says(Reason::RolloutAborted, false, true, message),
        RolloutStage::Canary | RolloutStage::Judging | RolloutStage::Promoting => {
            let is_the_clusters = matches!(verdict,
                Verdict::Stuck(Stuck::Pods { trouble, .. }) if trouble.is_the_clusters());
            match (fault, waits, verdict) {
                (Some(fault), ..) => says(fault, false, true, message),
                (None, Some(Fault { kind, text }), _) => {
                    says(reason(kind.as_str()), false, true, format!("{text}; {GOES_ON}"))
                }
                (None, None, Verdict::Moving(_)) => Rollout::Judged(verdict.clone()),
                (None, None, Verdict::Stuck(_)) if !rolls_back || is_the_clusters => {
                    Rollout::Judged(verdict.clone())
                }
                (None, None, Verdict::Stuck(stuck)) => {
                    let (reason, text) = crate::pool::status::stuck_text(stuck);
                    says(reason, true, false, format!("{text}; taken back soon if it stays so"))
                }
                // All pods are up; whether they stay so is not decided.
                (None, None, Verdict::Complete) => says(Reason::PodsNotReady, true, false, message),
            }
        }
    }
}

fn reason(word: &str) -> Reason {
    Reason::parse(word).unwrap_or(Reason::PodsNotReady)
}

/// Whether nothing is under way and nothing has just changed.
pub(in crate::controllers::gateway) fn is_settled(
    before: Option<&RolloutStatus>,
    now: &RolloutStatus,
) -> bool {
    let ends = [RolloutStage::Stable, RolloutStage::RolledBack, RolloutStage::Aborted];
    ends.contains(&now.stage) && before.is_some_and(|before| before.stage == now.stage)
}

/// Events of what changed. Conditions report failures.
pub(in crate::controllers::gateway) fn notices(
    before: Option<&RolloutStatus>,
    now: &RolloutStatus,
) -> Vec<Notice> {
    use RolloutStage::{Canary, Judging, Paused, Promoting, Stable};
    let was = before.map(|before| before.stage);
    let normal = |reason: Reason, note: String| Notice::normal(reason, "Rollout", note);
    let mut notices: Vec<Notice> = digests::moved(before, now).into_iter().collect();
    let another_try = before.is_none_or(|before| {
        before.attempts != now.attempts || (before.stage == Stable && now.stage != Stable)
    });
    if was == Some(now.stage) && !another_try && before.is_some_and(|it| it.pods == now.pods) {
        return notices;
    }
    if was == Some(Paused) && [Canary, Judging, Promoting].contains(&now.stage) {
        notices.push(normal(Reason::RolloutResumed, now.message.clone()));
        return notices;
    }
    let begins = now.stage == Canary || (now.stage == Promoting && was != Some(Judging));
    if begins && (was != Some(Promoting) || another_try) {
        let from = now.before.as_ref().map_or("nothing", |unit| unit.image.as_str());
        let (to, maps) = (&now.after.image, &now.after.config_map);
        let note = format!("from {from} to {to} with {maps}; {}", now.message);
        notices.push(normal(Reason::RolloutStarted, note));
        return notices;
    }
    let report = now.report.as_ref();
    match now.stage {
        Judging => notices.push(normal(Reason::RolloutJudging, now.message.clone())),
        Promoting => {
            if report.is_some_and(|report| report.verdict == TOO_FEW) && was == Some(Judging) {
                let records = report.and_then(|it| it.after.as_ref()).map_or(0, |it| it.records);
                let note = format!(
                    "new pods took only {records} records while they were watched, too few to \
                     compare; nothing speaks against them, so the change goes on"
                );
                notices.push(Notice::warning(Reason::RolloutTooFewRecords, "Rollout", note));
            }
            notices.push(normal(Reason::RolloutPromoting, now.message.clone()));
        }
        Stable if now.before.is_some() && was.is_some_and(|was| was != Stable) => {
            let text = report.map_or_else(String::new, report_text);
            notices.push(normal(Reason::RolloutCompleted, format!("{}{text}", now.message)));
        }
        _ => {}
    }
    notices
}

fn report_text(report: &RolloutReport) -> String {
    let side = |name: &str, it: &RolloutFigures| {
        let rate = it.records_per_cpu_second.map_or_else(|| "?".to_owned(), |it| it.to_string());
        format!(
            "; {name}: {rate} records per CPU-second, {} millicores, {} MiB",
            it.cpu_millicores,
            it.memory_bytes >> 20
        )
    };
    let before = report.before.as_ref().map(|it| side("before", it));
    let after = report.after.as_ref().map(|it| side("after", it));
    before.into_iter().chain(after).collect()
}
