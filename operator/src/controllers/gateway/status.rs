//! Reports a gateway pool: conditions, counts, lag, the sizing decision; and events for changes.

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use millrace_autoscale as rule;
use millrace_crds::v1alpha1::{GatewayPool, GatewayPoolStatus, LagStatus, SizingStatus};
use millrace_crds::{ConditionStatus, ConditionType, EventReason, Reason, find_condition};
use millrace_reports::SizingDecision;
use millrace_reports::day::DaySlot;
use millrace_rollout::{RolloutVerdict, WorkloadObservation};

use super::apply::Applied;
use super::observed::is_awaited;
use super::resize::ResizeProgress;
use super::retention_loss::Losses;
use super::{deduplication, observe, rollout};
use crate::cluster::write_status;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::kafka::lag_cache::LagObservation;
use crate::pool::observe::figures_if_invalid;
use crate::pool::rollout::STAGES;
use crate::pool::status::{Rollout, as_i32, as_i64, pods_text, state_pods};
use crate::report::conditions::{Conditions, status_time};
use crate::report::declared::conclude_conditions;
use crate::report::events::{Notice, NoticeReason};
use crate::report::unreachable::state_secrets;
use crate::telemetry::metrics::Counter;

/// The minimum time between writes of lag figures while their verdict is unchanged.
const LAG_REFRESH: SignedDuration = SignedDuration::from_secs(10);
/// The interval at which unchanged figures get a new date, to show that they are current.
const LAG_REDATE: SignedDuration = SignedDuration::from_secs(300);
/// The age up to which an operator that starts retains an earlier one's figures, until the broker
/// first answers it: twice [`LAG_REDATE`], since the last date may be missing.
const LAG_RETAINED: SignedDuration = SignedDuration::from_secs(600);

const DECISIONS: Counter<1> = Counter::new(
    "millrace_operator_scaling_decisions_total",
    "Sizing decisions for gateway pools, by reason.",
    ["reason"],
);

const RESOURCE_DECISIONS: Counter<1> = Counter::new(
    "millrace_operator_resource_decisions_total",
    "Changes decided of the memory and processor time of a pool's pods, by reason.",
    ["reason"],
);

/// Adds the decision and the figures to what the console shows.
fn record_history(
    context: &Context,
    pool: &GatewayPool,
    sizing: &SizingStatus,
    lag: Option<&LagStatus>,
) {
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    context.console_history.record_decision(uid, || SizingDecision::from_status(sizing, lag));
    let arrivals = sizing.terms.as_ref().map(|it| it.arrival_per_second);
    let seconds = lag.and_then(|lag| lag.seconds);
    let now = context.clock.now().as_second();
    context.console_history.record_slot(uid, DaySlot::at(now, seconds, arrivals, sizing.replicas));
}

/// Writes the status if it changed; returns whether the pool is settled. Reports nothing of a pool
/// that could not be observed: its last status remains.
///
/// # Errors
/// When the API server refuses or can't be reached, now or when the pool was observed.
pub(super) async fn report_status(
    context: &Context,
    pool: &GatewayPool,
    outcome: &Result<Applied, StepError>,
    losses: &Losses,
) -> Result<bool, StepError> {
    let workload = observe::observe_workload(context, pool);
    let live = figures_if_invalid(outcome, workload).await?;
    let before = pool.status.clone().unwrap_or_default();
    let (status, conditions) =
        build_status(pool, &before, outcome, (live.as_ref(), losses), context.clock.now());
    let (previous, current) = (before.rollout.as_ref(), status.rollout.as_ref());
    let is_complete = |it: &Applied| it.verdict == RolloutVerdict::Complete;
    let settled = outcome.as_ref().is_ok_and(is_complete)
        && current.is_some_and(|current| rollout::is_stable(previous, current));
    if let Some(sizing) = &status.sizing {
        context.metrics.count(&DECISIONS, [&sizing.reason]);
        record_history(context, pool, sizing, status.lag.as_ref());
        if before.sizing.as_ref().is_none_or(|before| before.reason != sizing.reason) {
            let (namespace, name) = (pool.namespace(), pool.name_any());
            let SizingStatus { replicas, proposed_replicas, reason, message, .. } = sizing;
            tracing::info!(
                ?namespace,
                name,
                replicas,
                proposed_replicas,
                reason,
                message,
                "sizing decision"
            );
        }
    }
    losses.replays.set_metric(&context.metrics, pool);
    if write_status(context, pool, pool.status.as_ref(), &status, conditions).await? {
        if losses.replays.is_news(pool) {
            context.metrics.count(&deduplication::RISKS, []);
        }
        let resized = size_notice(before.sizing.as_ref(), status.sizing.as_ref());
        let resources = resources_changed(before.sizing.as_ref(), status.sizing.as_ref());
        if let (false, Some(sizing)) = (resources.is_empty(), &status.sizing) {
            record_resources(context, pool, sizing);
        }
        let rolled =
            current.map_or_else(Vec::new, |current| rollout::rollout_notices(previous, current));
        if let Some(current) =
            current.filter(|it| previous.is_none_or(|previous| previous.stage != it.stage))
        {
            context.metrics.count(&STAGES, [current.stage.as_str()]);
        }
        let lost = losses.growth_notices(&before);
        let sized = resized.into_iter().chain(resources);
        for notice in rolled.into_iter().chain(lost).chain(sized) {
            context.events.publish(&pool.object_ref(&()), notice).await;
        }
    }
    Ok(settled)
}

/// Counts and logs changed memory or CPU.
fn record_resources(context: &Context, pool: &GatewayPool, sizing: &SizingStatus) {
    let SizingStatus { memory_limit, memory_request, cpu_limit, cpu_request, .. } = sizing;
    let (namespace, name) = (pool.namespace(), pool.name_any());
    let reason = sizing.resources_reason.as_deref().unwrap_or_default();
    context.metrics.count(&RESOURCE_DECISIONS, [reason]);
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

fn build_status(
    pool: &GatewayPool,
    before: &GatewayPoolStatus,
    outcome: &Result<Applied, StepError>,
    (live, losses): (Option<&WorkloadObservation>, &Losses),
    now: Timestamp,
) -> (GatewayPoolStatus, Conditions) {
    let generation = pool.metadata.generation;
    let mut conditions = Conditions::new(&before.conditions, generation, now);
    let mut status = GatewayPoolStatus { observed_generation: generation, ..before.clone() };
    state_secrets(&mut conditions, outcome.as_ref().err());
    match outcome {
        Err(error) => {
            state_pods(&mut conditions, &Rollout::from_error(error), live);
            let lag = ConditionType::LagWithinBound;
            conditions.set_unknown(lag, error.reason, error.cause());
            if error.step == ReconcileStep::Validate {
                set_counts(&mut status, live);
            }
        }
        Ok(applied) => {
            let Applied { names, observation, verdict, withheld, rollout, sizing, lag, .. } =
                applied;
            let pods_rollout = match withheld {
                true => Rollout::from_verdict(verdict, true),
                false => {
                    rollout::rollout_of_decision(rollout, pool.spec.rollout.auto_rollback, verdict)
                }
            };
            state_pods(&mut conditions, &pods_rollout, Some(observation));
            set_counts(&mut status, Some(observation));
            status.selector = Some(names.selector_text());
            status.image = Some(rollout::running_image(&rollout.status).to_owned());
            status.rollout = Some(rollout.status.clone());
            status.sizing = Some(sizing.clone());
            let bound_seconds = i64::from(pool.spec.settings.scaling.lag_bound_seconds);
            let retains = is_awaited(lag) && may_retain_lag(pool, before, now);
            if !(retains && conditions.restate(ConditionType::LagWithinBound)) {
                state_lag(&mut conditions, lag, bound_seconds);
            }
            state_resized(&mut conditions, applied.resized.as_ref());
            if let Ok(lag) = lag {
                status.lag = Some(lag_status(before.lag.as_ref(), lag, bound_seconds));
            }
        }
    }
    losses.state_losses(&mut conditions, pool);
    status.data_lost.clone_from(&losses.lost);
    status.dead_letters.clone_from(&losses.dead_letters);
    let required =
        [ConditionType::SecretsFound, ConditionType::PodsReady, ConditionType::LagWithinBound];
    conclude_conditions(&mut conditions, pool, &required);
    (status, conditions)
}

fn set_counts(status: &mut GatewayPoolStatus, observation: Option<&WorkloadObservation>) {
    status.replicas = observation.map_or(0, |observation| as_i32(observation.desired));
    status.ready_replicas = observation.map_or(0, |observation| as_i32(observation.ready));
    status.pods = Some(pods_text(observation));
}

/// Sets LagWithinBound. Its messages contain no figures, so they change only with the verdict.
fn state_lag(conditions: &mut Conditions, lag: &Result<LagObservation, StepError>, bound: i64) {
    use ConditionType::LagWithinBound;
    match lag {
        Ok(lag) if lag.within_bound => {
            let message = format!("every message older than {bound} s is in ClickHouse");
            conditions.set_true(LagWithinBound, Reason::LagWithinBound, message);
        }
        Ok(_) => {
            let message = format!(
                "messages older than {bound} s wait in Kafka; see status.lag and status.sizing"
            );
            conditions.set_false(LagWithinBound, Reason::LagAboveBound, message);
        }
        Err(error) => conditions.set_unknown(LagWithinBound, error.reason, error.cause()),
    }
}

/// Returns whether LagWithinBound may stay as an earlier operator stated it, until the broker first
/// answers this one: it is about this spec, and doesn't rest on an old figure.
fn may_retain_lag(pool: &GatewayPool, before: &GatewayPoolStatus, now: Timestamp) -> bool {
    let fact = find_condition(&before.conditions, ConditionType::LagWithinBound);
    let generation = pool.metadata.generation.unwrap_or(0);
    let is_young = |lag: &LagStatus| now.duration_since(lag.observed_at.0) < LAG_RETAINED;
    fact.filter(|fact| fact.observed_generation == generation).is_some_and(|fact| {
        fact.status == ConditionStatus::Unknown || before.lag.as_ref().is_some_and(is_young)
    })
}

/// Returns the lag for the status; the earlier one while it is accurate enough.
fn lag_status(before: Option<&LagStatus>, lag: &LagObservation, bound_seconds: i64) -> LagStatus {
    let seconds = lag.seconds.map(|seconds| seconds.round() as i64);
    let messages = as_i64(lag.messages);
    let now = LagStatus {
        messages,
        seconds,
        within_bound: lag.within_bound,
        bound_seconds,
        observed_at: status_time(lag.observed_at),
    };
    let Some(before) = before else { return now };
    let age = now.observed_at.0.duration_since(before.observed_at.0);
    let same_verdict =
        before.within_bound == now.within_bound && before.bound_seconds == bound_seconds;
    let same_figures = before.messages == messages && before.seconds == seconds;
    let young = age < if same_figures { LAG_REDATE } else { LAG_REFRESH };
    if same_verdict && young && age >= SignedDuration::ZERO { before.clone() } else { now }
}

/// Returns events of changed memory and CPU; the first decision is the pods' start, not a change.
fn resources_changed(before: Option<&SizingStatus>, now: Option<&SizingStatus>) -> Vec<Notice> {
    let (Some(before), Some(now)) = (before, now) else { return Vec::new() };
    let changed = |reason: EventReason, what: &str, was: &Option<String>, is: &Option<String>| {
        let (was, is) = (was.as_ref()?, is.as_ref()?);
        let note = format!("{what} of each pod {was} -> {is}; {}", now.message);
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
    memory.into_iter().chain(cpu).collect()
}

/// Sets `PodsResized`, if sizing may change memory or CPU.
fn state_resized(conditions: &mut Conditions, progress: Option<&ResizeProgress>) {
    use ConditionType::PodsResized;
    match progress {
        None => conditions.remove_condition(PodsResized),
        Some(ResizeProgress::Done) => {
            let message = "running pods have the memory and processor time that were decided";
            conditions.set_true(PodsResized, Reason::Reconciled, message);
        }
        Some(ResizeProgress::Pending(cause)) => {
            conditions.set_false(PodsResized, Reason::ResizePending, cause.as_str());
        }
        Some(ResizeProgress::Refused(cause)) => {
            conditions.set_false(PodsResized, Reason::ResizeRejected, cause.as_str());
        }
    }
}

/// Returns the event of a changed size.
fn size_notice(before: Option<&SizingStatus>, now: Option<&SizingStatus>) -> Option<Notice> {
    let now = now?;
    let scaler = |it: Option<&SizingStatus>| it.and_then(|it| it.sized_by.clone());
    if scaler(before) != scaler(Some(now)) {
        let message = match &now.sized_by {
            Some(other) => format!("{other} sets the size; this pool only recommends one"),
            None => "no other autoscaler sets the size any longer; this pool does".to_owned(),
        };
        return Some(Notice::normal(EventReason::ExternalAutoscalerChanged, "Scale", message));
    }
    if now.sized_by.is_some() {
        return None;
    }
    let changed = before.is_none_or(|before| before.replicas != now.replicas);
    let reason = rule::ScalingReason::parse(&now.reason).filter(|_| changed)?;
    Some(Notice::normal(NoticeReason::Sized(reason), "Scale", now.message.clone()))
}
