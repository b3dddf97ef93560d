//! Reports an edge pool: conditions, counts, endpoint; and events for what changed.

use kube::Resource;
use millrace_crds::ConditionType;
use millrace_crds::v1alpha1::{EdgePool, EdgePoolStatus, PendingChange, PendingStage};
use millrace_rollout::{Observation, Verdict};

use super::apply::Applied;
use super::change;
use super::node_logs::NodeLogs;
use super::{targets, watches};
use crate::cluster::{is_paused, patch_status};
use crate::context::Context;
use crate::error::StepError;
use crate::pool::status::{Outcome, Rollout, as_i32, pods_text, state_pods, state_secrets};
use crate::pool::template::OTLP_GRPC_PORT;
use crate::report::conditions::Conditions;
use crate::report::plaintext;

/// The pool's state, which sets when it is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// Nothing is under way, or nothing that proceeds without a person.
    Settled,
    /// A change is in trial, or about to be rolled back.
    Tries,
    /// Pods change, or something failed.
    Moves,
}

/// Writes the status if it changed; returns the pool's state.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report(
    context: &Context,
    pool: &EdgePool,
    outcome: &Outcome<Applied>,
    logs: Option<&NodeLogs>,
) -> Result<Stand, StepError> {
    let before = pool.status.clone().unwrap_or_default();
    let (status, conditions) = work_out(context, pool, &before, outcome, logs);
    if patch_status(context, pool, pool.status.as_ref(), &status).await? {
        let (told, tells) = (before.pending_change.as_ref(), status.pending_change.as_ref());
        if change::stage(told) != change::stage(tells) {
            context.metrics.rollout_is_at(change::stage(tells));
        }
        let rolled = match outcome {
            Outcome::Applied(applied) => change::notice(told, tells, &applied.asked),
            Outcome::Invalid { .. } | Outcome::Failed(_) => None,
        };
        let lost = logs.and_then(|logs| logs.notice(&before));
        for notice in rolled.into_iter().chain(conditions.notices()).chain(lost) {
            context.events.publish(&pool.object_ref(&()), notice).await;
        }
    }
    Ok(stand(before.pending_change.as_ref(), outcome))
}

fn stand(told: Option<&PendingChange>, outcome: &Outcome<Applied>) -> Stand {
    let Outcome::Applied(applied) = outcome else { return Stand::Moves };
    let stage = |pending: &PendingChange| pending.stage;
    match applied.pending.as_ref().map(stage) {
        Some(PendingStage::Trying) => Stand::Tries,
        Some(PendingStage::Canary | PendingStage::Judging | PendingStage::RollingOut) => {
            Stand::Moves
        }
        Some(stage) if told.is_none_or(|told| told.stage != stage) => Stand::Tries,
        _ if applied.verdict == Verdict::Complete => Stand::Settled,
        _ => Stand::Moves,
    }
}

fn work_out(
    context: &Context,
    pool: &EdgePool,
    before: &EdgePoolStatus,
    outcome: &Outcome<Applied>,
    logs: Option<&NodeLogs>,
) -> (EdgePoolStatus, Conditions) {
    let (generation, now) = (pool.metadata.generation, context.clock.now());
    let mut conditions = Conditions::new(&before.conditions, generation, now);
    let mut status = EdgePoolStatus { observed_generation: generation, ..before.clone() };
    match outcome {
        Outcome::Invalid { invalid, live } => {
            state_secrets(&mut conditions, Some(invalid));
            state_pods(&mut conditions, &Rollout::invalid(invalid), live.as_ref());
            count(&mut status, live.as_ref());
        }
        Outcome::Failed(error) => {
            state_secrets(&mut conditions, None);
            state_pods(&mut conditions, &Rollout::failed(error), None);
        }
        Outcome::Applied(applied) => {
            let Applied { names, image, seen, verdict, withheld, pending, .. } = applied.as_ref();
            state_secrets(&mut conditions, None);
            let rollout = match pending {
                Some(pending) if !withheld => change::condition(pending, verdict),
                _ => Rollout::of(verdict, *withheld),
            };
            state_pods(&mut conditions, &rollout, Some(seen));
            count(&mut status, Some(seen));
            status.selector = Some(names.selector_text());
            status.endpoint = Some(format!("{}:{OTLP_GRPC_PORT}", names.service_host()));
            status.pending_change.clone_from(pending);
            // A version left out is the running one; one that never came up doesn't count.
            if *verdict == Verdict::Complete && !withheld && pending.is_none() {
                status.image = Some(image.clone());
            }
        }
    }
    match logs {
        Some(logs) => logs.state(&mut conditions, now),
        None => conditions.drop(ConditionType::LogsLost),
    }
    watches::state(&mut conditions, pool, logs.and_then(|logs| logs.watches.as_ref()));
    let cap = targets::cap(pool);
    status.targets = match &pool.spec.settings.receivers.prometheus {
        Some(_) => {
            let uid = pool.metadata.uid.as_deref().unwrap_or_default();
            let found = context.scraping.get(uid);
            targets::state(&mut conditions, &found, cap);
            targets::figures(before.targets.as_ref(), &found)
        }
        None => {
            conditions.drop(ConditionType::TargetsShared);
            conditions.drop(ConditionType::ScrapeCapReached);
            None
        }
    };
    status.nodes = logs.and_then(|logs| logs.nodes.clone());
    status.logs_lost = logs.and_then(|logs| logs.lost.clone());
    let scraped = pool.spec.settings.receivers.prometheus.as_ref();
    plaintext::state(&mut conditions, Some(&pool.spec.kafka), None, scraped);
    conditions.paused(is_paused(pool));
    conditions.conclude(&[ConditionType::SecretsFound, ConditionType::PodsReady]);
    status.conditions = conditions.clone().into_conditions();
    (status, conditions)
}

fn count(status: &mut EdgePoolStatus, seen: Option<&Observation>) {
    status.replicas = seen.map_or(0, |seen| as_i32(seen.wanted));
    status.ready_replicas = seen.map_or(0, |seen| as_i32(seen.ready));
    status.pods = Some(pods_text(seen));
}
