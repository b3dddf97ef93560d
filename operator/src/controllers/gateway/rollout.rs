//! A gateway pool's rollout: from observations to the template, and the number of pods that may
//! have it. Pure; the rule itself is `millrace_rollout`.
//!
//! What a rollout must not forget is in the pool's status and in the StatefulSet, so that a
//! restarted operator continues; pods' samples are kept in memory. Limits: one StatefulSet per
//! pool; pods change from the highest number down, by the update strategy's partition.

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
    Canary, First, Load, Member, Plan, Policy, Seen, Stage, Step, Unit, Verdict, Wish, judge, step,
};

pub(super) use report::{condition, is_settled, notices};

use super::validate::Observed;
use crate::cache::baseline::Baseline;
use crate::cluster::{hash_of, is_paused};
use crate::controllers::schema::Tables;
use crate::pool::draft::Draft;
use crate::pool::preflight::{self, Tries};
use crate::pool::secrets::{with_secrets, without_secrets};
use crate::pool::template::{config_map, kept as kept_by};
use crate::pool::wish;

/// What only a rollout must read; empty while none runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// The pool's pods.
    pub(super) pods: Vec<Pod>,
    /// Its tables; `None` unless a change is about to begin.
    pub(super) tables: Option<Tables>,
    /// Trial pods; empty unless a change is about to begin.
    pub(super) tries: Vec<Pod>,
    /// What its pods did so far.
    pub(super) baseline: Baseline,
}

/// What the pods' figures are read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing is under way: they become the pool's past.
    Rest,
    /// The first pods change just now.
    Nothing,
    /// A try is watched.
    Try(String),
}

/// What a rollout wants written and reported.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// The step, whole.
    pub(super) step: Step,
    /// The state for the status.
    pub(super) status: RolloutStatus,
    /// The change waits for a try alone.
    pub(super) waits_for_try: bool,
}

/// The StatefulSet's part that a rollout decides.
pub(super) struct Rolled {
    pub(super) template: PodTemplateSpec,
    pub(super) strategy: StatefulSetUpdateStrategy,
    /// The template of a rollback, as text, while it is needed.
    pub(super) baseline: Option<String>,
}

/// Whether a change is about to begin, so that its tables and trial matter.
pub(super) fn is_near_its_beginning(
    pool: &GatewayPool,
    draft: &Draft,
    live: Option<&StatefulSet>,
) -> bool {
    use RolloutStage::{Aborted, Paused, RolledBack, Waiting};
    let near = [Waiting, Paused, RolledBack, Aborted];
    let told = told(pool);
    let runs = told.map(|told| report::unit(&told.after));
    let begins = runs
        .or_else(|| live.and_then(template::live_unit))
        .is_some_and(|runs| !runs.runs_as(&wanted(pool, draft, None)));
    begins || told.is_some_and(|told| near.contains(&told.stage))
}

/// What the pods' samples are for at this stage; each attempt has its own watch period.
pub(super) fn watch(pool: &GatewayPool) -> Watch {
    use RolloutStage::{Canary, Judging, Paused, Promoting, RollingBack};
    let Some(told) = told(pool) else { return Watch::Rest };
    match told.stage {
        Judging | Promoting => {
            let (key, _) = without_secrets(&told.digest);
            Watch::Try(format!("{key}/{}", told.attempts))
        }
        Canary | Paused | RollingBack => Watch::Nothing,
        _ => Watch::Rest,
    }
}

fn told(pool: &GatewayPool) -> Option<&RolloutStatus> {
    pool.status.as_ref()?.rollout.as_ref()
}

fn wanted(pool: &GatewayPool, draft: &Draft, revision: Option<String>) -> Unit {
    Unit {
        image: draft.image.clone(),
        allocator: pool.spec.collector.allocator.as_str().to_owned(),
        config: draft.config_map.clone(),
        schema_revision: revision,
        digests: Vec::new(),
    }
}

/// Distinguishes attempts: the unit, and everything else in the spec that might fix a failed unit.
/// Secrets are left out, since they are rotated independently.
fn key(pool: &GatewayPool, unit: &Unit) -> String {
    // As JSON: fields that a later release adds, if unused, change nothing.
    hash_of(&serde_json::json!({
        "image": unit.image,
        "config": unit.config,
        "resources": pool.spec.settings.resources,
        // The digest's value for a pool without Secrets, as in earlier releases.
        "secrets": None::<&str>,
    }))
}

fn policy(pool: &GatewayPool) -> Policy {
    let settings = &pool.spec.rollout;
    Policy {
        canary: settings.canary.as_ref().map(|canary| Canary {
            pods: canary.pods,
            judge_seconds: i64::from(canary.judge_seconds),
        }),
        rolls_back: settings.auto_rollback,
    }
}

/// Decides the next step. A paused pool stays where it is.
pub(super) fn decide(
    pool: &GatewayPool,
    observed: &Observed,
    secrets_digest: Option<&str>,
    size: i32,
) -> Decision {
    let before = told(pool);
    let last = before.and_then(|before| report::state(before, secrets_digest));
    let tables = observed.watched.tables.clone().unwrap_or_default();
    let unit = wanted(pool, &observed.draft, tables.revision);
    let mut seen = seen(pool, observed, unit, size);
    // Only a new image waits for the tables: a new configuration may be their repair.
    let runs = last.as_ref().map(|last| match &last.stage {
        Stage::Stable => &last.after,
        _ => last.before.as_ref().unwrap_or(&last.after),
    });
    let is_new_image =
        runs.or(seen.running.as_ref()).is_some_and(|runs| runs.image != seen.wanted.image);
    let behind = tables.behind.filter(|_| is_new_image);
    let behind = behind.map(|tables| format!("{tables} is at its revision"));
    // No pod could show that a change works while inserts stop.
    let behind = tables.uncoordinated.or(behind);
    let has_begun = seen.running.as_ref().is_some_and(|runs| runs.runs_as(&seen.wanted));
    seen.first = match &behind {
        Some(_) => First::Waits,
        // The template was written, and the operator ended before it could report it.
        None if has_begun => First::Done,
        None => {
            let Watched { tries, baseline, .. } = &observed.watched;
            let name = try_name(&observed.draft);
            preflight::outcome(tries, &name, baseline.untried.as_deref(), observed.now)
        }
    };
    if is_paused(pool) {
        seen.wish = if seen.wish == Wish::Go { Wish::Pause } else { seen.wish };
    }
    let mut step = step(last.as_ref(), &seen, &policy(pool));
    if let (true, Some(last)) = (is_paused(pool), &last) {
        step.state = last.clone();
    }
    digests::note(&mut step.state.after, &observed.watched.pods);
    let waits_for_try = behind.is_none() && report::is_waiting(&step.state);
    let waits_for = behind.unwrap_or_else(|| {
        format!("{} has tried the configuration in a pod of its own", step.state.after.image)
    });
    let mut status = report::status(before, last.as_ref(), &step, &seen, &waits_for);
    match before {
        Some(before) if is_paused(pool) => status.digest.clone_from(&before.digest),
        _ => status.digest = with_secrets(&step.state.key, secrets_digest),
    }
    Decision { step, status, waits_for_try }
}

fn seen(pool: &GatewayPool, observed: &Observed, wanted: Unit, size: i32) -> Seen {
    let live = observed.live.as_ref();
    let figures = observed.figures();
    let members = live
        .map_or_else(Vec::new, |live| members::members(live, &observed.watched.pods, observed.now));
    let (new_loads, old_loads) = loads(&observed.watched.baseline, &members);
    let running = live.and_then(template::live_unit);
    // The live template is the last one written: edits by hand don't count.
    let holds = told(pool).zip(running.as_ref()).is_none_or(|(told, running)| {
        let back = matches!(told.stage, RolloutStage::RollingBack);
        let unit = told.before.as_ref().filter(|_| back).unwrap_or(&told.after);
        report::unit(unit).runs_as(running)
    });
    let verdict = figures.as_ref().map(judge);
    // A configuration that none of the others has may be why the broker doesn't answer.
    let before = told(pool).and_then(|told| told.before.as_ref()).map(|it| &it.config_map);
    let same_settings = before.is_none_or(|before| *before == wanted.config);
    let lag = observed.lag.as_ref();
    let is_away = lag.is_err_and(|error| error.reason == Reason::KafkaUnreachable);
    Seen {
        now: observed.now.as_second(),
        key: key(pool, &wanted),
        wanted,
        running,
        wish: wish(pool),
        first: First::Waits,
        size: u32::try_from(size).unwrap_or(0),
        taken_up: holds && figures.is_some_and(|it| it.observed_generation == Some(it.generation)),
        complete: verdict == Some(Verdict::Complete),
        members,
        stays: members::stays(&observed.watched.pods, observed.now),
        broker_away: is_away && same_settings,
        new_loads,
        old_loads,
    }
}

/// The pod that tries what a draft asks for.
fn try_name(draft: &Draft) -> String {
    preflight::name(&draft.names, &draft.image, &draft.config_map)
}

/// Trial pods to make or remove, given the decision and the status's view of it.
pub(super) fn tries(
    pool: &GatewayPool,
    draft: &Draft,
    pods: &[Pod],
    decision: &Decision,
    template: &PodTemplateSpec,
) -> Tries {
    let Decision { step: Step { state, .. }, waits_for_try, .. } = decision;
    if !waits_for_try {
        return Tries::over(pods);
    }
    let is_told = told(pool).is_some_and(|told| {
        told.stage == RolloutStage::Waiting && without_secrets(&told.digest).0 == state.key
    });
    let name = try_name(draft);
    let pod = || preflight::pod(pool, &draft.names, &name, template);
    Tries::waiting(pods, &name, is_told, pod)
}

/// What pods of the new and of the old unit did: in the same time if old ones are left, else before
/// the rollout.
fn loads(baseline: &Baseline, members: &[Member]) -> (Vec<Load>, Vec<Load>) {
    let updated: BTreeSet<&str> =
        members.iter().filter(|it| it.updated).map(|it| it.figures.name.as_str()).collect();
    let all = baseline.loads();
    let (new, old): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(pod, _)| updated.contains(pod.as_str()));
    let only = |pods: Vec<(String, Load)>| pods.into_iter().map(|(_, load)| load).collect();
    let old = if old.is_empty() { baseline.past() } else { only(old) };
    (only(new), old)
}

/// The template, strategy and baseline of the StatefulSet by a decision.
pub(super) fn roll(
    decision: &Decision,
    pool: &GatewayPool,
    observed: &Observed,
    wanted: PodTemplateSpec,
    size: i32,
) -> Rolled {
    let live = observed.live.as_ref();
    let Step { state, plan, .. } = &decision.step;
    // A rollout that just ended keeps its previous template until the status reports the end: an
    // operator that stops before that continues the rollout.
    let was_moving = told(pool).is_some_and(|told| told.stage != RolloutStage::Stable);
    let is_moving = state.stage != Stage::Stable;
    let before = state.before.as_ref().filter(|_| is_moving);
    let old = before.map(|unit| {
        let mut old = template::baseline(live, unit, &wanted);
        observed.current.renew(&mut old);
        old
    });
    let kept = live.and_then(kept_by).map(|(text, _)| text);
    let text = |old: &PodTemplateSpec| {
        let same = live.and_then(kept_by).filter(|(_, kept)| kept == old);
        same.map(|(text, _)| text).or_else(|| serde_json::to_string(old).ok())
    };
    let baseline = old.as_ref().map_or(kept.filter(|_| was_moving), text);
    let partition = match plan {
        Plan::Split { pods } => Some((size - i32::try_from(*pods).unwrap_or(i32::MAX)).max(0)),
        Plan::Whole | Plan::Old => None,
    };
    let template = match (plan, old) {
        (Plan::Old, Some(old)) => old,
        _ => wanted,
    };
    let rolling_update = partition.map(|partition| RollingUpdateStatefulSetStrategy {
        partition: Some(partition),
        ..RollingUpdateStatefulSetStrategy::default()
    });
    let strategy =
        StatefulSetUpdateStrategy { type_: Some("RollingUpdate".into()), rolling_update };
    Rolled { template, strategy, baseline }
}

/// Whether this decision brings a new unit into the StatefulSet's template.
pub(super) fn brings(live: Option<&StatefulSet>, decision: &Decision) -> bool {
    let Step { state, plan, .. } = &decision.step;
    let held = live.and_then(template::live_unit);
    matches!(plan, Plan::Split { .. }) && held.is_some_and(|held| !held.runs_as(&state.after))
}

/// Whether no rollout runs or was rolled back, and no annotation holds pods.
pub(super) fn is_at_rest(pool: &GatewayPool, decision: &Decision) -> bool {
    let Step { state, plan, .. } = &decision.step;
    let was = told(pool).is_none_or(|told| told.stage == RolloutStage::Stable);
    was && state.stage == Stage::Stable && *plan == Plan::Whole && wish(pool) == Wish::Go
}

/// ConfigMaps that the StatefulSet's pods may need: those of its template and of the rollback's.
pub(super) fn config_maps(set: &StatefulSet) -> BTreeSet<String> {
    let own = set.spec.as_ref().and_then(|spec| config_map(spec.template.spec.as_ref()?));
    let kept = kept_by(set);
    let kept = kept.as_ref().and_then(|(_, kept)| config_map(kept.spec.as_ref()?));
    own.into_iter().chain(kept).map(str::to_owned).collect()
}

/// The image that pods run: the previous one, while a change is under way or rolled back.
pub(super) fn image(status: &RolloutStatus) -> &str {
    let before = status.before.as_ref().filter(|_| status.stage != RolloutStage::Stable);
    &before.unwrap_or(&status.after).image
}
