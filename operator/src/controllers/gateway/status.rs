//! Reports a gateway pool: conditions, counts, lag, the sizing decision; and events for what
//! changed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use millrace_autoscale as rule;
use millrace_crds::v1alpha1::{
    GatewayPool, GatewayPoolStatus, LagStatus, ResizeStatus, ResizeWay, SizingStatus,
};
use millrace_crds::{ConditionType, EventReason, Reason};
use millrace_reports::Decided;
use millrace_rollout::{Observation, Verdict};

use super::apply::Applied;
use super::retention_loss::Losses;
use super::rollout;
use super::template_resources::NO_NODE;
use crate::cluster::{is_paused, patch_status};
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::lag_board::LagObservation;
use crate::pool::status::{Outcome, Rollout, as_i32, pods_text, state_pods, state_secrets};
use crate::report::conditions::Conditions;
use crate::report::events::{Notice, Why};
use crate::report::plaintext;

/// While the verdict on the lag is unchanged, its figures are written at most this often.
const LAG_REFRESH: SignedDuration = SignedDuration::from_secs(10);
/// Unchanged figures get a new date this often, to show that they are current.
const LAG_REDATE: SignedDuration = SignedDuration::from_secs(300);

/// Writes the status if it changed; returns whether the pool is settled.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report(
    context: &Context,
    pool: &GatewayPool,
    outcome: &Outcome<Applied>,
    losses: &Losses,
) -> Result<bool, StepError> {
    let before = pool.status.clone().unwrap_or_default();
    let (status, conditions) = work_out(pool, &before, outcome, losses, context.clock.now());
    let (told, tells) = (before.rollout.as_ref(), status.rollout.as_ref());
    let settled = matches!(outcome, Outcome::Applied(it) if it.verdict == Verdict::Complete)
        && tells.is_some_and(|tells| rollout::is_settled(told, tells));
    if let Some(sizing) = &status.sizing {
        context.metrics.decided(&sizing.reason);
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        context.shown.decided(uid, || Decided::of(sizing, status.lag.as_ref()));
        if before.sizing.as_ref().is_none_or(|before| before.reason != sizing.reason) {
            let (namespace, name) = (pool.namespace(), pool.name_any());
            let SizingStatus { replicas, wanted, reason, message, .. } = sizing;
            tracing::info!(?namespace, name, replicas, wanted, reason, message, "sizing decision");
        }
    }
    losses.replays.count(&context.metrics, pool);
    if patch_status(context, pool, pool.status.as_ref(), &status).await? {
        if losses.replays.is_news(pool) {
            context.metrics.deduplication_at_risk();
        }
        let resized = resized(before.sizing.as_ref(), status.sizing.as_ref());
        let resources = resources_changed(before.sizing.as_ref(), status.sizing.as_ref());
        if let (false, Some(sizing)) = (resources.is_empty(), &status.sizing) {
            resources_told(context, pool, sizing);
        }
        let rolled = tells.map_or_else(Vec::new, |tells| rollout::notices(told, tells));
        if let Some(tells) = tells.filter(|it| told.is_none_or(|told| told.stage != it.stage)) {
            context.metrics.rollout_is_at(tells.stage);
        }
        let lost = losses.notices(&before);
        let sized = resized.into_iter().chain(resources);
        for notice in rolled.into_iter().chain(conditions.notices()).chain(lost).chain(sized) {
            context.events.publish(&pool.object_ref(&()), notice).await;
        }
    }
    Ok(settled)
}

/// Counts and logs changed memory or processor time.
fn resources_told(context: &Context, pool: &GatewayPool, sizing: &SizingStatus) {
    let SizingStatus { memory_limit, memory_request, cpu_limit, cpu_request, .. } = sizing;
    let (namespace, name) = (pool.namespace(), pool.name_any());
    let reason = sizing.resources_reason.as_deref().unwrap_or_default();
    context.metrics.resources_decided(reason);
    tracing::info!(
        ?namespace,
        name,
        reason,
        memory_limit,
        memory_request,
        cpu_limit,
        cpu_request,
        message = sizing.message,
        "resources of each pod decided"
    );
}

fn work_out(
    pool: &GatewayPool,
    before: &GatewayPoolStatus,
    outcome: &Outcome<Applied>,
    losses: &Losses,
    now: Timestamp,
) -> (GatewayPoolStatus, Conditions) {
    let generation = pool.metadata.generation;
    let mut conditions = Conditions::new(&before.conditions, generation, now);
    let mut status = GatewayPoolStatus { observed_generation: generation, ..before.clone() };
    match outcome {
        Outcome::Invalid { invalid, live } => {
            state_secrets(&mut conditions, Some(invalid));
            state_pods(&mut conditions, &Rollout::invalid(invalid), live.as_ref());
            conditions.unknown(
                ConditionType::LagWithinBound,
                invalid.reason,
                invalid.message.as_str(),
            );
            count(&mut status, live.as_ref());
        }
        Outcome::Failed(error) => {
            state_secrets(&mut conditions, None);
            state_pods(&mut conditions, &Rollout::failed(error), None);
            conditions.unknown(ConditionType::LagWithinBound, Reason::LagUnknown, "not looked at");
        }
        Outcome::Applied(applied) => {
            let Applied { names, seen, verdict, untried: _, withheld, rollout, sizing, lag } =
                applied.as_ref();
            state_secrets(&mut conditions, None);
            let stands = match withheld {
                true => Rollout::of(verdict, true),
                false => rollout::condition(rollout, pool.spec.rollout.auto_rollback, verdict),
            };
            state_pods(&mut conditions, &stands, Some(seen));
            count(&mut status, Some(seen));
            status.selector = Some(names.selector_text());
            status.image = Some(rollout::image(&rollout.status).to_owned());
            status.rollout = Some(rollout.status.clone());
            status.sizing = Some(sizing.clone());
            let bound_seconds = i64::from(pool.spec.settings.scaling.lag_bound_seconds);
            state_lag(&mut conditions, lag, bound_seconds);
            if let Ok(lag) = lag {
                status.lag = Some(lag_status(before.lag.as_ref(), lag, bound_seconds));
            }
        }
    }
    losses.state(&mut conditions, pool);
    status.data_lost.clone_from(&losses.lost);
    status.dead_letters.clone_from(&losses.letters);
    plaintext::state(&mut conditions, Some(&pool.spec.kafka), Some(&pool.spec.clickhouse), None);
    conditions.paused(is_paused(pool));
    conditions.conclude(&[
        ConditionType::SecretsFound,
        ConditionType::PodsReady,
        ConditionType::LagWithinBound,
    ]);
    status.conditions = conditions.clone().into_conditions();
    (status, conditions)
}

fn count(status: &mut GatewayPoolStatus, seen: Option<&Observation>) {
    status.replicas = seen.map_or(0, |seen| as_i32(seen.wanted));
    status.ready_replicas = seen.map_or(0, |seen| as_i32(seen.ready));
    status.pods = Some(pods_text(seen));
}

/// States LagWithinBound. Its messages carry no figures, so they change only with the verdict.
fn state_lag(
    conditions: &mut Conditions,
    lag: &Result<LagObservation, (Reason, String)>,
    bound: i64,
) {
    use ConditionType::LagWithinBound;
    match lag {
        Ok(lag) if lag.within_bound => {
            let message = format!("every message older than {bound} s is in ClickHouse");
            conditions.holds(LagWithinBound, Reason::LagInBound, message);
        }
        Ok(_) => {
            let message = format!(
                "messages older than {bound} s wait in Kafka; see status.lag and status.sizing"
            );
            conditions.fails(LagWithinBound, Reason::LagAboveBound, message);
        }
        Err((reason, message)) => conditions.unknown(LagWithinBound, *reason, message.as_str()),
    }
}

/// The lag for the status; the earlier one while it is still accurate enough.
fn lag_status(before: Option<&LagStatus>, lag: &LagObservation, bound_seconds: i64) -> LagStatus {
    let seconds = lag.seconds.map(|seconds| seconds.round() as i64);
    let messages = i64::try_from(lag.messages).unwrap_or(i64::MAX);
    let observed_at = Timestamp::from_second(lag.observed_at.as_second());
    let now = LagStatus {
        messages,
        seconds,
        within_bound: lag.within_bound,
        bound_seconds,
        observed_at: Time(observed_at.unwrap_or(lag.observed_at)),
    };
    let Some(before) = before else { return now };
    let age = now.observed_at.0.duration_since(before.observed_at.0);
    let same_verdict =
        before.within_bound == now.within_bound && before.bound_seconds == bound_seconds;
    let same_figures = before.messages == messages && before.seconds == seconds;
    let young = age < if same_figures { LAG_REDATE } else { LAG_REFRESH };
    if same_verdict && young && age >= SignedDuration::ZERO { before.clone() } else { now }
}

/// Events of changed memory and CPU; the first decision is where pods start, and no change.
fn resources_changed(before: Option<&SizingStatus>, now: Option<&SizingStatus>) -> Vec<Notice> {
    let (Some(before), Some(now)) = (before, now) else { return Vec::new() };
    let rolls = now.resize.as_ref().is_some_and(|it| it.way == ResizeWay::Rolling);
    let way = if rolls { "by replacing pods one after another" } else { "in place" };
    let changed = |reason: EventReason, what: &str, was: &Option<String>, is: &Option<String>| {
        let (was, is) = (was.as_ref()?, is.as_ref()?);
        let note = format!("{what} of each pod {was} -> {is}, {way}; {}", now.message);
        (was != is).then(|| Notice::normal(reason, "Resize", note))
    };
    let memory = changed(
        EventReason::MemoryResized,
        "memory limit",
        &before.memory_limit,
        &now.memory_limit,
    );
    let cpu = match now.cpu_limit {
        Some(_) => ("limit of processor time", &before.cpu_limit, &now.cpu_limit),
        None => ("processor time requested", &before.cpu_request, &now.cpu_request),
    };
    let cpu = changed(EventReason::CpuResized, cpu.0, cpu.1, cpu.2);
    let way = resize_changed(before.resize.as_ref(), now.resize.as_ref());
    memory.into_iter().chain(cpu).chain(way).collect()
}

/// The event when resources reach pods in another way. In place is the normal way.
fn resize_changed(before: Option<&ResizeStatus>, now: Option<&ResizeStatus>) -> Option<Notice> {
    let now = now.filter(|now| now.way == ResizeWay::Rolling)?;
    if before.is_some_and(|before| before.way == now.way && before.reason == now.reason) {
        return None;
    }
    let note = now.message.clone();
    Some(match now.reason.as_str() {
        NO_NODE => Notice::warning(EventReason::ResizeTakenBack, "Resize", note),
        _ => Notice::normal(EventReason::ResizeRolling, "Resize", note),
    })
}

/// The event of a changed size.
fn resized(before: Option<&SizingStatus>, now: Option<&SizingStatus>) -> Option<Notice> {
    let now = now?;
    let scaler = |it: Option<&SizingStatus>| it.and_then(|it| it.sized_by.clone());
    if scaler(before) != scaler(Some(now)) {
        let message = match &now.sized_by {
            Some(other) => format!("{other} sets the size; this pool only recommends one"),
            None => "no other autoscaler sets the size any longer; this pool does".to_owned(),
        };
        return Some(Notice::normal(EventReason::SizedElsewhere, "Scale", message));
    }
    if now.sized_by.is_some() {
        return None;
    }
    let changed = before.is_none_or(|before| before.replicas != now.replicas);
    let reason = rule::Reason::parse(&now.reason).filter(|_| changed)?;
    Some(Notice::normal(Why::Sized(reason), "Scale", now.message.clone()))
}
