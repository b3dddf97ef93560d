//! TelemetrySchema: the ClickHouse tables of the signals.
//!
//! The steps: `validate` reads the spec's declaration, `observe` reads each server's tables, `plan`
//! compares the two, `apply` runs what only adds and observes again, `status` reports. Only
//! observe, apply and status hold a client; comparing and all SQL text are in the ddl crate.
//! Nothing is rewritten or dropped without consent.

mod apply;
mod coordination;
mod gate;
mod observe;
mod options;
mod plan;
mod status;
mod validate;

pub(crate) use gate::{Tables, is_at_revision, tables};

use std::time::Duration;

use kube::ResourceExt;
use millrace_crds::v1alpha1::{DeletionPolicy, TelemetrySchema};

use crate::cache::claims::Claim;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::reconcile::Next;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::Watching;

/// Tables are compared with their declaration this often: ClickHouse has no watch.
const RESYNC: Duration = Duration::from_secs(60);

/// What is left behind when tables are not deleted.
const REMAINS: &str = "the tables and their rows remain in ClickHouse";

/// Reconciles schemas.
pub struct Schemas;

impl Reconciler for Schemas {
    type Object = TelemetrySchema;

    const HANDLES_DELETION: bool = true;

    /// As for topics: a reconcile mostly waits for ClickHouse, and one with a hanging server takes
    /// ten seconds.
    const CONCURRENCY: u16 = 64;
    const CLAIMS: bool = true;

    fn claim(schema: &TelemetrySchema) -> Option<Claim> {
        Some(validate::claim(schema))
    }

    fn watches(watching: Watching<TelemetrySchema>) -> Watching<TelemetrySchema> {
        watching
    }

    async fn reconcile(context: &Context, schema: &TelemetrySchema) -> Result<Next, StepError> {
        if schema.metadata.deletion_timestamp.is_some() {
            return leave(context, schema).await;
        }
        let schema = finalizer::follow(context, schema, schema.spec.deletion_policy).await?;
        let schema = schema.as_ref();
        let outcome = bring_about(context, schema).await;
        let failure = status::report(context, schema, outcome).await?;
        failure.map_or(Ok(Next::After(RESYNC)), |failure| Err(failure.told()))
    }
}

async fn bring_about(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<apply::Applied, StepError> {
    let declared = validate::validate(schema)?;
    context.claims.refused(schema).map_or(Ok(()), |held| Err(StepError::from(held)))?;
    let mut observed = observe::observe(context, schema, declared).await?;
    let declared = observed.declared.clone();
    let answering = observed.answering();
    let due = holders::look_at_tables(context, schema, &declared, answering).await?;
    let may_record = !is_paused(schema) && observed.may_record(schema);
    let mut plan = plan::plan(&observed);
    plan.outdated = gate::outdated(context, schema, &plan.servers).await?;
    let seen = observed.coordination.take();
    let looked = seen.map(|seen| coordination::judge(context, schema, &seen));
    let applied = apply::apply(context, schema, observed, plan, looked).await;
    if may_record && applied.failure.is_none() {
        holders::write_of_tables(context, schema, &declared, due).await?;
    }
    Ok(applied)
}

/// Deletion: drops the tables first, if the policy says so.
async fn leave(context: &Context, schema: &TelemetrySchema) -> Result<Next, StepError> {
    context.metrics.coordination_is(
        &schema.namespace().unwrap_or_default(),
        &schema.name_any(),
        None,
    );
    let asked = schema.spec.deletion_policy == DeletionPolicy::Delete;
    let clean = asked.then(|| apply::delete(context, schema));
    finalizer::leave(context, schema, clean, REMAINS, finalizer::CLEANING_MAX).await
}
