//! Reports the tables: conditions, revision, differences; and events for what changed.

use kube::Resource;
use millrace_crds::v1alpha1::{TelemetrySchema, TelemetrySchemaStatus};
use millrace_crds::{ConditionType, Reason};

use super::apply::Applied;
use super::coordination::Coordinated;
use super::plan::Standing;
use crate::cluster::{is_paused, patch_status};
use crate::context::Context;
use crate::error::StepError;
use crate::report::conditions::Conditions;
use crate::report::plaintext;
use crate::report::spread;
use crate::report::unreachable::{state_failure, state_secrets};

/// Writes the status if it changed; gives back the failure that a retry must follow, if there was
/// one.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report(
    context: &Context,
    schema: &TelemetrySchema,
    outcome: Result<Applied, StepError>,
) -> Result<Option<StepError>, StepError> {
    let before = schema.status.clone().unwrap_or_default();
    let generation = schema.metadata.generation;
    let mut conditions = Conditions::new(&before.conditions, generation, context.clock.now());
    let mut status = TelemetrySchemaStatus { observed_generation: generation, ..before };
    let (failure, looked) = match outcome {
        Ok(mut applied) => {
            let looked = applied.looked.take();
            (state_tables(&mut conditions, &mut status, applied), looked)
        }
        Err(error) => (Some(error), None),
    };
    state_secrets(&mut conditions, failure.as_ref());
    if let Some(error) = &failure {
        state_failure(&mut conditions, ConditionType::SchemaReady, error);
        state_unapplied(&mut conditions, error);
    }
    let looked = Coordinated { looked: looked.as_ref(), failure: failure.as_ref() };
    looked.report(context, schema, &mut conditions, &mut status);
    plaintext::state(&mut conditions, None, Some(&schema.spec.clickhouse), None);
    let engines = schema.spec.signals.iter().map(|(signal, table)| (signal, table.engine));
    spread::state(&mut conditions, &schema.spec.clickhouse, engines);
    conditions.paused(is_paused(schema));
    conditions.conclude(&[ConditionType::SecretsFound, ConditionType::SchemaReady]);
    status.conditions = conditions.clone().into_conditions();
    if patch_status(context, schema, schema.status.as_ref(), &status).await? {
        for notice in conditions.notices() {
            context.events.publish(&schema.object_ref(&()), notice).await;
        }
    }
    Ok(failure)
}

/// States SchemaReady, Progressing and Stalled, unless a server failed; returns its failure.
fn state_tables(
    conditions: &mut Conditions,
    status: &mut TelemetrySchemaStatus,
    applied: Applied,
) -> Option<StepError> {
    use ConditionType::{Progressing, SchemaReady, Stalled};
    let Applied { revision, database, standing, failure, withheld, looked: _ } = applied;
    let Standing { trouble, pending, plan_hash, waiting, blocked, drift } = standing;
    state_plan(conditions, &pending, plan_hash.as_deref(), waiting, withheld);
    match &trouble {
        Some((reason, message)) => {
            conditions.holds(ConditionType::Drifted, *reason, message.as_str())
        }
        None => {
            conditions.fails(ConditionType::Drifted, Reason::AsAsked, "no difference that matters")
        }
    }
    match &blocked {
        Some(message) => {
            conditions.holds(ConditionType::Blocked, Reason::TableBlocked, message.as_str());
        }
        None => conditions.fails(ConditionType::Blocked, Reason::AsAsked, "nothing is in the way"),
    }
    status.database = Some(database);
    status.plan_pending = pending;
    status.plan_hash = plan_hash;
    status.drift = drift;
    if failure.is_some() {
        return failure;
    }
    match trouble {
        None => {
            let message = format!("tables are at revision {revision}");
            conditions.holds(SchemaReady, Reason::AsAsked, message);
            conditions.fails(Progressing, Reason::Settled, "no change is under way");
            conditions.fails(Stalled, Reason::Settled, "nothing is stuck");
            status.revision = Some(revision);
        }
        Some((_, message)) if withheld => {
            let message = format!("{message}; the object is paused");
            conditions.fails(SchemaReady, Reason::PausedByAnnotation, message.as_str());
            conditions.fails(Progressing, Reason::PausedByAnnotation, message.as_str());
            conditions.fails(Stalled, Reason::PausedByAnnotation, "pausing is not being stuck");
        }
        Some((reason, message)) => {
            // All that only adds has run: a person must resolve the rest.
            conditions.fails(SchemaReady, reason, message.as_str());
            conditions.fails(Progressing, reason, message.as_str());
            conditions.holds(Stalled, reason, message.as_str());
        }
    }
    None
}

/// States Planned and Applied: what would be run, and why it is not.
fn state_plan(
    conditions: &mut Conditions,
    pending: &[String],
    plan_hash: Option<&str>,
    waiting: Option<Reason>,
    withheld: bool,
) {
    use ConditionType::{Applied, Planned};
    let plan = format!("plan {}, {} statements", plan_hash.unwrap_or("-"), pending.len());
    let first = pending.first().map_or("", String::as_str);
    match waiting {
        _ if withheld => {
            conditions.holds(
                Planned,
                Reason::PausedByAnnotation,
                "statements wait for the pause to end",
            );
            conditions.fails(Applied, Reason::PausedByAnnotation, "the object is paused");
        }
        None => {
            conditions.holds(Planned, Reason::AsAsked, "nothing to do");
            conditions.holds(Applied, Reason::AsAsked, "nothing is left to run");
        }
        Some(reason) => {
            conditions.holds(Planned, reason, format!("{plan}: {first}"));
            conditions.fails(Applied, reason, format!("{plan} wait; the first: {first}"));
        }
    }
}

/// The plan is unknown, or was not finished.
fn state_unapplied(conditions: &mut Conditions, error: &StepError) {
    let message = error.cause();
    if conditions.stated(ConditionType::Planned).is_none() {
        conditions.unknown(ConditionType::Planned, error.reason, message.as_str());
        conditions.unknown(ConditionType::Drifted, error.reason, message.as_str());
        conditions.unknown(ConditionType::Blocked, error.reason, message.as_str());
    }
    conditions.fails(ConditionType::Applied, error.reason, message.as_str());
}
