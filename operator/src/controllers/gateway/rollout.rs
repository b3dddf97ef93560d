//! Turns observations of a gateway pool into its rollout's template and the number of pods that may
//! have it. Pure; the rule itself is `millrace_rollout`.
//!
//! The pool's status and the StatefulSet store the rollout's state, so that a restarted operator
//! continues; pods' samples are only in memory. Limits: one StatefulSet per pool; pods change from
//! the highest ordinal down, by the update strategy's partition.

mod digests;
mod members;
mod report;
mod template;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{GatewayPool, RolloutStage, RolloutStatus};
use millrace_rollout::{
    LoadFigures, Member, Precondition, RolloutObservation, RolloutPlan, RolloutStep,
    RolloutVerdict, Stage, Unit, Wish, assess_rollout, step_rollout,
};

pub(super) use members::{creation_refused, desired_pods};
pub(super) use report::{is_stable, rollout_notices, rollout_of_decision};

use super::observed::{Observed, RolloutInputs};
use crate::cache::baseline::Baseline;
use crate::cluster::is_paused;
use crate::pool::draft::PoolDraft;
use crate::pool::preflight::{self, TrialPods};
use crate::pool::rollout::{attempt_key, rollout_policy, rollout_request};
use crate::pool::secrets::{with_secrets, without_secrets};
use crate::pool::status::as_i32;
use crate::pool::template::{baseline_template, config_map};

/// The purpose of the pods' figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SamplePurpose {
    /// Nothing is in progress: they become the pool's past.
    Past,
    /// The first pods are changing.
    Nothing,
    /// An attempt is analyzed.
    Try(String),
}

/// The result of a rollout's step, to write and report.
#[derive(Clone, Debug)]
pub(super) struct RolloutDecision {
    pub(super) step: RolloutStep,
    pub(super) status: RolloutStatus,
    /// Whether the change waits only for a trial.
    pub(super) waits_for_try: bool,
}

/// The part of the StatefulSet that a rollout decides.
pub(super) struct RolloutTemplate {
    pub(super) template: PodTemplateSpec,
    pub(super) strategy: StatefulSetUpdateStrategy,
    /// The template of a rollback, as text, while it is needed.
    pub(super) baseline: Option<String>,
}

/// Returns whether a change is about to begin, so that its tables and trial matter.
pub(super) fn is_near_its_beginning(
    pool: &GatewayPool,
    draft: &PoolDraft,
    live: Option<&StatefulSet>,
) -> bool {
    use RolloutStage::{Aborted, Paused, RolledBack, Waiting};
    let near = [Waiting, Paused, RolledBack, Aborted];
    let reported = reported_rollout(pool);
    let runs = reported.map(|reported| report::unit_from_status(&reported.after));
    let begins = runs
        .or_else(|| live.and_then(template::live_unit))
        .is_some_and(|runs| !runs.runs_as(&desired_unit(pool, draft, None)));
    begins || reported.is_some_and(|reported| near.contains(&reported.stage))
}

/// Returns the purpose of the pods' samples at this stage; each attempt has its own analysis.
pub(super) fn sample_purpose(pool: &GatewayPool) -> SamplePurpose {
    use RolloutStage::{Analyzing, Canary, Paused, Promoting, RollingBack};
    let Some(reported) = reported_rollout(pool) else { return SamplePurpose::Past };
    match reported.stage {
        Analyzing | Promoting => {
            let (key, _) = without_secrets(&reported.digest);
            SamplePurpose::Try(format!("{key}/{}", reported.attempts))
        }
        Canary | Paused | RollingBack => SamplePurpose::Nothing,
        _ => SamplePurpose::Past,
    }
}

/// Returns whether pods may have the change by now.
pub(super) fn has_begun(pool: &GatewayPool) -> bool {
    use RolloutStage::{Analyzing, Canary, Paused, Promoting, RollingBack, Waiting};
    reported_rollout(pool).is_some_and(|reported| match reported.stage {
        Canary | Analyzing | Promoting | RollingBack => true,
        Paused => reported.paused_at != Some(Waiting),
        _ => false,
    })
}

fn reported_rollout(pool: &GatewayPool) -> Option<&RolloutStatus> {
    pool.status.as_ref()?.rollout.as_ref()
}

fn desired_unit(pool: &GatewayPool, draft: &PoolDraft, revision: Option<String>) -> Unit {
    Unit {
        image: draft.image.clone(),
        allocator: pool.spec.collector.allocator.as_str().to_owned(),
        config: draft.config_map.clone(),
        schema_revision: revision,
        digests: Vec::new(),
    }
}

/// Decides the next step. A paused pool doesn't proceed.
pub(super) fn decide_rollout(
    pool: &GatewayPool,
    observed: &Observed,
    secrets_digest: Option<&str>,
    size: i32,
) -> RolloutDecision {
    let before = reported_rollout(pool);
    let last = before.and_then(|before| report::state_from_status(before, secrets_digest));
    let tables = observed.watched.tables.clone().unwrap_or_default();
    let unit = desired_unit(pool, &observed.draft, tables.revision);
    let mut observation = rollout_observation(pool, observed, unit, size);
    // Only a new image waits for the tables: a new configuration may repair them.
    let runs = last.as_ref().map(|last| match &last.stage {
        Stage::Stable => &last.after,
        _ => last.before.as_ref().unwrap_or(&last.after),
    });
    let is_new_image = runs
        .or(observation.running.as_ref())
        .is_some_and(|runs| runs.image != observation.declared.image);
    let behind = tables.behind.filter(|_| is_new_image);
    let behind = behind.map(|tables| format!("{tables} is at its revision"));
    // No pod could show that a change works while inserts stop.
    let behind = tables.uncoordinated.or(behind);
    let has_begun =
        observation.running.as_ref().is_some_and(|runs| runs.runs_as(&observation.declared));
    observation.first = match &behind {
        Some(_) => Precondition::Waits,
        // The template was written, and the operator ended before it could report that.
        None if has_begun => Precondition::Done,
        None => {
            let RolloutInputs { tries, baseline, .. } = &observed.watched;
            let name = trial_name(&observed.draft);
            preflight::trial_outcome(tries, &name, baseline.untried.as_ref(), observed.now)
        }
    };
    if is_paused(pool) {
        observation.wish =
            if observation.wish == Wish::Continue { Wish::Pause } else { observation.wish };
    }
    let settings = &pool.spec.rollout;
    let policy = rollout_policy(settings.canary.as_ref(), settings.auto_rollback);
    let mut step = step_rollout(last.as_ref(), &observation, &policy);
    if let (true, Some(last)) = (is_paused(pool), &last) {
        step.state = last.clone();
    }
    digests::record_digests(&mut step.state.after, &observed.watched.pods);
    let waits_for_try = behind.is_none() && report::is_waiting(&step.state);
    let waits_for =
        behind.unwrap_or_else(|| format!("a trial pod has validated {}", step.state.after.image));
    let mut status = report::build_status(before, last.as_ref(), &step, &observation, &waits_for);
    match before {
        Some(before) if is_paused(pool) => status.digest.clone_from(&before.digest),
        _ => status.digest = with_secrets(&step.state.key, secrets_digest),
    }
    RolloutDecision { step, status, waits_for_try }
}

fn rollout_observation(
    pool: &GatewayPool,
    observed: &Observed,
    desired: Unit,
    size: i32,
) -> RolloutObservation {
    let live = observed.live.as_ref();
    let figures = observed.workload_figures();
    let began = reported_rollout(pool).map_or(i64::MIN, |reported| reported.since.0.as_second());
    let members = live.map_or_else(Vec::new, |live| {
        let RolloutInputs { pods, baseline, .. } = &observed.watched;
        let missing = members::missing_members(live, &baseline.absent, began, observed.now);
        members::active_members(live, pods, observed.now).into_iter().chain(missing).collect()
    });
    let (new_loads, old_loads) = split_loads(&observed.watched.baseline, &members);
    let running = live.and_then(template::live_unit);
    // The live template is the last one written: manual edits don't count.
    let holds = reported_rollout(pool).zip(running.as_ref()).is_none_or(|(reported, running)| {
        let back = matches!(reported.stage, RolloutStage::RollingBack);
        let unit = reported.before.as_ref().filter(|_| back).unwrap_or(&reported.after);
        report::unit_from_status(unit).runs_as(running)
    });
    let verdict = figures.as_ref().map(assess_rollout);
    let size = u32::try_from(size).unwrap_or(0);
    let partition = live.map_or(0, members::partition_of).unsigned_abs();
    // A configuration that only the new pods have may be why the broker doesn't answer.
    let before = reported_rollout(pool)
        .and_then(|reported| reported.before.as_ref())
        .map(|it| &it.config_map);
    let same_settings = before.is_none_or(|before| *before == desired.config);
    let lag = observed.lag.as_ref();
    let is_away = lag.is_err_and(|error| error.reason == Reason::KafkaUnreachable);
    RolloutObservation {
        now: observed.now.as_second(),
        key: attempt_key(&desired.image, &desired.config, &pool.spec.settings.resources),
        declared: desired,
        running,
        wish: rollout_request(pool),
        first: Precondition::Waits,
        size,
        is_spec_observed: holds
            && figures.is_some_and(|it| it.observed_generation == Some(it.generation)),
        complete: verdict == Some(RolloutVerdict::Complete),
        allowed: size.saturating_sub(partition),
        members,
        stays: members::overdue_deletion(&observed.watched.pods, observed.now),
        broker_away: is_away && same_settings,
        new_loads,
        old_loads,
    }
}

/// Returns the name of the pod that tries a draft.
fn trial_name(draft: &PoolDraft) -> String {
    preflight::trial_name(&draft.names, &draft.image, &draft.config_map)
}

/// Returns the trial pods to create or delete, given the decision and the status's view of it.
pub(super) fn plan_trial_pods(
    pool: &GatewayPool,
    draft: &PoolDraft,
    pods: &[Pod],
    decision: &RolloutDecision,
    template: &PodTemplateSpec,
) -> TrialPods {
    let RolloutDecision { step: RolloutStep { state, .. }, waits_for_try, .. } = decision;
    if !waits_for_try {
        return TrialPods::remove_all(pods);
    }
    let is_reported = reported_rollout(pool).is_some_and(|reported| {
        reported.stage == RolloutStage::Waiting && without_secrets(&reported.digest).0 == state.key
    });
    let name = trial_name(draft);
    let trial = || preflight::plan_trial(pool, &draft.names, &name, template);
    TrialPods::wait_for(pods, &name, is_reported, trial)
}

/// Returns the load of pods of the new and of the old unit: in the same time if old ones remain,
/// else from before the rollout.
fn split_loads(baseline: &Baseline, members: &[Member]) -> (Vec<LoadFigures>, Vec<LoadFigures>) {
    let updated: BTreeSet<&str> =
        members.iter().filter(|it| it.updated).map(|it| it.figures.name.as_str()).collect();
    let all = baseline.watched_loads();
    let (new, old): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(pod, _)| updated.contains(pod.as_str()));
    let only = |pods: Vec<(String, LoadFigures)>| pods.into_iter().map(|(_, load)| load).collect();
    let old = if old.is_empty() { baseline.past_loads() } else { only(old) };
    (only(new), old)
}

/// Returns the StatefulSet's template, strategy and baseline for a decision.
pub(super) fn build_template(
    decision: &RolloutDecision,
    pool: &GatewayPool,
    observed: &Observed,
    desired: PodTemplateSpec,
    size: i32,
) -> RolloutTemplate {
    let live = observed.live.as_ref();
    let RolloutStep { state, plan, .. } = &decision.step;
    // A rollout that just ended retains its previous template until the status reports the end: an
    // operator that stops before that continues the rollout.
    let was_moving =
        reported_rollout(pool).is_some_and(|reported| reported.stage != RolloutStage::Stable);
    let is_moving = state.stage != Stage::Stable;
    let before = state.before.as_ref().filter(|_| is_moving);
    let old = before.map(|unit| {
        let mut old = template::rollback_template(live, unit, &desired);
        observed.current.renew_digest(&mut old);
        old
    });
    let stored = live.and_then(baseline_template);
    let baseline = match &old {
        Some(old) => stored
            .filter(|stored| stored.template == *old)
            .map_or_else(|| serde_json::to_string(old).ok(), |stored| Some(stored.text)),
        None => stored.filter(|_| was_moving).map(|stored| stored.text),
    };
    let partition = match plan {
        RolloutPlan::Split { pods } => Some((size - as_i32(*pods)).max(0)),
        RolloutPlan::All | RolloutPlan::Previous => None,
    };
    let template = match (plan, old) {
        (RolloutPlan::Previous, Some(old)) => old,
        _ => desired,
    };
    let rolling_update = partition.map(|partition| RollingUpdateStatefulSetStrategy {
        partition: Some(partition),
        ..RollingUpdateStatefulSetStrategy::default()
    });
    let strategy =
        StatefulSetUpdateStrategy { type_: Some("RollingUpdate".into()), rolling_update };
    RolloutTemplate { template, strategy, baseline }
}

/// Returns whether this decision brings a new unit into the StatefulSet's template.
pub(super) fn brings_new_unit(live: Option<&StatefulSet>, decision: &RolloutDecision) -> bool {
    let RolloutStep { state, plan, .. } = &decision.step;
    let held = live.and_then(template::live_unit);
    matches!(plan, RolloutPlan::Split { .. })
        && held.is_some_and(|held| !held.runs_as(&state.after))
}

/// Returns the ConfigMaps that the StatefulSet's pods may need: those of its template and of the
/// rollback's.
pub(super) fn config_maps(set: &StatefulSet) -> BTreeSet<String> {
    let own = set.spec.as_ref().and_then(|spec| config_map(spec.template.spec.as_ref()?));
    let stored = baseline_template(set);
    let stored = stored.as_ref().and_then(|it| config_map(it.template.spec.as_ref()?));
    own.into_iter().chain(stored).map(str::to_owned).collect()
}

/// Returns the image that pods run: the previous one, while a change is in progress or rolled back.
pub(super) fn running_image(status: &RolloutStatus) -> &str {
    let before = status.before.as_ref().filter(|_| status.stage != RolloutStage::Stable);
    &before.unwrap_or(&status.after).image
}
