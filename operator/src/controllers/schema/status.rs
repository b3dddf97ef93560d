//! Reports the tables: conditions, revision, differences; and events for changes.

use millrace_crds::v1alpha1::{TelemetrySchema, TelemetrySchemaStatus};
use millrace_crds::{ConditionType, Reason};

use super::apply::Applied;
use super::coordination::CoordinationReport;
use super::plan::TablesComparison;
use crate::cluster::write_status;
use crate::context::Context;
use crate::error::StepError;
use crate::report::conditions::Conditions;
use crate::report::counts::format_count;
use crate::report::declared::conclude_conditions;
use crate::report::unreachable::{state_failure, state_secrets};

/// Writes the status if it changed; returns the outcome for the tables of all servers.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report_status(
    context: &Context,
    schema: &TelemetrySchema,
    outcome: Result<Applied, StepError>,
) -> Result<Result<(), StepError>, StepError> {
    let before = schema.status.clone().unwrap_or_default();
    let generation = schema.metadata.generation;
    let mut conditions = Conditions::new(&before.conditions, generation, context.clock.now());
    let mut status = TelemetrySchemaStatus { observed_generation: generation, ..before };
    let (failure, check) = match outcome {
        Ok(mut applied) => {
            let check = applied.coordination.take();
            (state_tables(&mut conditions, &mut status, applied), check)
        }
        Err(error) => (Some(error), None),
    };
    state_secrets(&mut conditions, failure.as_ref());
    if let Some(error) = &failure {
        state_failure(&mut conditions, ConditionType::SchemaReady, error);
        state_unapplied(&mut conditions, error);
    }
    let coordination = CoordinationReport { check: check.as_ref(), failure: failure.as_ref() };
    coordination.report_coordination(context, schema, &mut conditions, &mut status);
    let required = [ConditionType::SecretsFound, ConditionType::SchemaReady];
    conclude_conditions(&mut conditions, schema, &required);
    write_status(context, schema, schema.status.as_ref(), &status, conditions).await?;
    Ok(failure.map_or(Ok(()), Err))
}

/// Sets SchemaReady, Progressing and Stalled, unless a server failed; returns its failure.
fn state_tables(
    conditions: &mut Conditions,
    status: &mut TelemetrySchemaStatus,
    applied: Applied,
) -> Option<StepError> {
    use ConditionType::{Blocked, Drifted, SchemaReady};
    let Applied { revision, database, differences, failure, withheld, coordination: _ } = applied;
    let TablesComparison { trouble, pending, plan_hash, waiting, blocked, drift } = differences;
    // A failed server may lack something: differences of the others are stated, equality isn't.
    let is_complete = failure.is_none();
    if is_complete || waiting.is_some() || withheld {
        state_plan(conditions, &pending, plan_hash.as_deref(), waiting, withheld);
    }
    match &trouble {
        Some((reason, message)) => conditions.set_true(Drifted, *reason, message.as_str()),
        None if is_complete => {
            conditions.set_false(Drifted, Reason::Reconciled, "no relevant difference");
        }
        None => {}
    }
    match blocked {
        Some(message) => conditions.set_true(Blocked, Reason::TableChangeBlocked, message),
        None if is_complete => {
            conditions.set_false(Blocked, Reason::Reconciled, "nothing blocks the plan");
        }
        None => {}
    }
    status.database = Some(database);
    if is_complete || !pending.is_empty() {
        (status.plan_pending, status.plan_hash) = (pending, plan_hash);
    }
    if is_complete || !drift.is_empty() {
        status.drift = drift;
    }
    if failure.is_some() {
        return failure;
    }
    match trouble {
        None => {
            let message = format!("tables are at revision {revision}");
            conditions.set_true(SchemaReady, Reason::Reconciled, message);
            conditions.set_idle();
            status.revision = Some(revision);
        }
        Some((_, message)) if withheld => {
            conditions.set_withheld(SchemaReady, &message);
        }
        Some((reason, message)) => {
            // All additive steps have run: a person must resolve the others.
            conditions.set_stuck(SchemaReady, reason, &message);
        }
    }
    None
}

/// Sets Planned and Applied: the steps to run, and why they don't.
fn state_plan(
    conditions: &mut Conditions,
    pending: &[String],
    plan_hash: Option<&str>,
    waiting: Option<Reason>,
    withheld: bool,
) {
    use ConditionType::{Applied, Planned};
    let statements = format_count(pending.len(), "statement");
    let plan = format!("plan {}, {statements}", plan_hash.unwrap_or("-"));
    let first = pending.first().map_or("", String::as_str);
    match waiting {
        _ if withheld => {
            conditions.set_true(
                Planned,
                Reason::PausedBySpec,
                "statements wait for the pause to end",
            );
            conditions.set_false(Applied, Reason::PausedBySpec, "the object is paused");
        }
        None => {
            conditions.set_true(Planned, Reason::Reconciled, "nothing to do");
            conditions.set_true(Applied, Reason::Reconciled, "no statement remains");
        }
        Some(reason) => {
            conditions.set_true(Planned, reason, format!("{plan}: {first}"));
            conditions.set_false(Applied, reason, format!("{plan} pending; the first: {first}"));
        }
    }
}

/// Reports a plan that is unknown, or was not finished.
fn state_unapplied(conditions: &mut Conditions, error: &StepError) {
    let message = error.cause();
    for type_ in [ConditionType::Planned, ConditionType::Drifted, ConditionType::Blocked] {
        if conditions.find_stated(type_).is_none() {
            conditions.set_unknown(type_, error.reason, message.as_str());
        }
    }
    conditions.set_false(ConditionType::Applied, error.reason, message.as_str());
}
