//! Reports an edge pool: conditions, counts, endpoint; and events for changes.

use kube::Resource;
use millrace_crds::v1alpha1::{EdgePool, EdgePoolStatus, PendingChange, PendingStage};
use millrace_crds::{ConditionStatus, ConditionType};
use millrace_rollout::{RolloutVerdict, WorkloadObservation};

use super::apply::Applied;
use super::change;
use super::observe::PodReports;
use super::{observe, routes, targets, watches};
use crate::cluster::write_status;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::pool::observe::figures_if_invalid;
use crate::pool::rollout::STAGES;
use crate::pool::status::{Rollout, as_i32, pods_text, state_pods};
use crate::pool::template::OTLP_GRPC_PORT;
use crate::report::conditions::Conditions;
use crate::report::declared::conclude_conditions;
use crate::report::unreachable::state_secrets;

/// The pool's state, which sets when it is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    /// Nothing is in progress, or nothing that proceeds without a person.
    Stable,
    /// A change is in trial, or about to be rolled back.
    Validating,
    /// Pods are changing, or something failed.
    Changing,
}

/// Writes the status if it changed; returns the pool's state. Reports nothing of a pool that could
/// not be observed: its last status remains.
///
/// # Errors
/// When the API server refuses or can't be reached, now or when the pool was observed.
pub(super) async fn report_status(
    context: &Context,
    pool: &EdgePool,
    outcome: &Result<Applied, StepError>,
    reports: &PodReports,
) -> Result<PoolState, StepError> {
    let workload = observe::observe_workload(context, pool);
    let live = figures_if_invalid(outcome, workload).await?;
    let before = pool.status.clone().unwrap_or_default();
    let (status, conditions) =
        build_status(context, pool, &before, (outcome, live.as_ref()), reports);
    if write_status(context, pool, pool.status.as_ref(), &status, conditions).await? {
        let (previous, current) = (before.pending_change.as_ref(), status.pending_change.as_ref());
        if change::rollout_stage(previous) != change::rollout_stage(current) {
            let stage = change::rollout_stage(current).as_str();
            context.metrics.count(&STAGES, [stage]);
        }
        let rolled = outcome
            .as_ref()
            .ok()
            .and_then(|applied| change::change_notice(previous, current, &applied.desired));
        let lost = reports.logs.as_ref().and_then(|logs| logs.episode_notice(&before));
        for notice in rolled.into_iter().chain(lost) {
            context.events.publish(&pool.object_ref(&()), notice).await;
        }
    }
    Ok(pool_state(before.pending_change.as_ref(), outcome))
}

fn pool_state(previous: Option<&PendingChange>, outcome: &Result<Applied, StepError>) -> PoolState {
    let Ok(applied) = outcome else { return PoolState::Changing };
    let stage = |pending: &PendingChange| pending.stage;
    match applied.pending.as_ref().map(stage) {
        Some(PendingStage::Validating) => PoolState::Validating,
        Some(PendingStage::Canary | PendingStage::Analyzing | PendingStage::RollingOut) => {
            PoolState::Changing
        }
        Some(stage) if previous.is_none_or(|previous| previous.stage != stage) => {
            PoolState::Validating
        }
        _ if applied.verdict == RolloutVerdict::Complete => PoolState::Stable,
        _ => PoolState::Changing,
    }
}

fn build_status(
    context: &Context,
    pool: &EdgePool,
    before: &EdgePoolStatus,
    (outcome, live): (&Result<Applied, StepError>, Option<&WorkloadObservation>),
    PodReports { logs, watches, routed }: &PodReports,
) -> (EdgePoolStatus, Conditions) {
    let (generation, now) = (pool.metadata.generation, context.clock.now());
    let mut conditions = Conditions::new(&before.conditions, generation, now);
    let mut status = EdgePoolStatus { observed_generation: generation, ..before.clone() };
    state_secrets(&mut conditions, outcome.as_ref().err());
    match outcome {
        Err(error) => {
            state_pods(&mut conditions, &Rollout::from_error(error), live);
            if error.step == ReconcileStep::Validate {
                set_counts(&mut status, live);
            }
        }
        Ok(applied) => {
            let Applied { names, image, observation, verdict, withheld, pending, .. } = applied;
            let rollout = match pending {
                Some(pending) if !withheld => change::rollout_of_change(pending, verdict),
                _ => Rollout::from_verdict(verdict, *withheld),
            };
            state_pods(&mut conditions, &rollout, Some(observation));
            set_counts(&mut status, Some(observation));
            status.selector = Some(names.selector_text());
            status.endpoint = Some(format!("{}:{OTLP_GRPC_PORT}", names.service_host()));
            status.pending_change.clone_from(pending);
            // A spec without a version gets the running one; an image that never became ready
            // doesn't count.
            if *verdict == RolloutVerdict::Complete && !withheld && pending.is_none() {
                status.image = Some(image.clone());
            }
        }
    }
    match logs {
        Some(logs) => logs.state_logs_lost(&mut conditions, now),
        None => conditions.remove_condition(ConditionType::LogsLost),
    }
    watches::state_watches(&mut conditions, pool, watches.as_ref());
    let cap = targets::scrape_cap(pool);
    let found = context.scraping.get(pool.metadata.uid.as_deref().unwrap_or_default());
    status.targets = match &pool.spec.settings.receivers.prometheus {
        Some(_) => {
            targets::state_targets(&mut conditions, &found, cap, context.share_role.is_some());
            targets::build_figures(before.targets.as_ref(), &found)
        }
        None => {
            conditions.remove_condition(ConditionType::TargetsAssigned);
            conditions.remove_condition(ConditionType::ScrapeCapacityReached);
            None
        }
    };
    status.nodes = logs.as_ref().and_then(|logs| logs.nodes.clone());
    status.logs_lost = logs.as_ref().and_then(|logs| logs.lost.clone());
    status.routes = routes::build_routes(pool, &before.routes, routed.as_ref(), now);
    let lacks = [ConditionType::WatchesAllowed, ConditionType::TargetsAssigned];
    let lacks = lacks.into_iter().filter(|it| {
        conditions.find_stated(*it).is_some_and(|stated| match it {
            ConditionType::TargetsAssigned => targets::prevents_ready(&found, stated),
            _ => stated.status == ConditionStatus::False,
        })
    });
    let required: Vec<ConditionType> =
        [ConditionType::SecretsFound, ConditionType::PodsReady].into_iter().chain(lacks).collect();
    conclude_conditions(&mut conditions, pool, &required);
    (status, conditions)
}

fn set_counts(status: &mut EdgePoolStatus, observation: Option<&WorkloadObservation>) {
    status.replicas = observation.map_or(0, |observation| as_i32(observation.desired));
    status.ready_replicas = observation.map_or(0, |observation| as_i32(observation.ready));
    status.pods = Some(pods_text(observation));
}
