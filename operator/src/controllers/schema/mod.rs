//! TelemetrySchema: the ClickHouse tables of the signals.
//!
//! The steps: `validate` reads the spec's declaration, `observe` reads each server's tables, `plan`
//! compares the two, `apply` runs additive steps and observes again, `status` reports. Only
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

pub(crate) use gate::{PoolTables, is_at_revision, tables_of_pool};

use std::time::Duration;

use kube::ResourceExt;
use millrace_crds::v1alpha1::{DeletionPolicy, TelemetrySchema};

use self::apply::Applied;
use crate::cache::claims::Claim;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::reconcile::Next;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::WatchBuilder;

/// The interval at which tables are compared with their declaration: ClickHouse has no watch.
const RESYNC: Duration = Duration::from_secs(60);

/// Reconciles schemas.
pub struct Schemas;

impl Reconciler for Schemas {
    type Object = TelemetrySchema;

    /// The same limit as for topics: a reconcile mostly waits for ClickHouse, and one with a
    /// hanging server lasts ten seconds.
    const CONCURRENCY: u16 = 64;
    const CLAIMS: bool = true;

    fn claim_of(schema: &TelemetrySchema) -> Option<Claim> {
        Some(validate::claim_of_schema(schema))
    }

    fn add_watches(watching: WatchBuilder<TelemetrySchema>) -> WatchBuilder<TelemetrySchema> {
        watching
    }

    fn deletion_policy(schema: &TelemetrySchema) -> Option<DeletionPolicy> {
        Some(schema.spec.deletion_policy)
    }

    async fn reconcile(context: &Context, schema: &TelemetrySchema) -> Result<Next, StepError> {
        let outcome = apply_spec(context, schema).await;
        let outcome = status::report_status(context, schema, outcome).await?;
        outcome.map_err(StepError::mark_reported)?;
        Ok(Next::After(RESYNC))
    }

    /// With the policy `Delete`, first drops the tables.
    async fn finalize(context: &Context, schema: &TelemetrySchema) -> Result<Next, StepError> {
        let (namespace, name) = (schema.namespace().unwrap_or_default(), schema.name_any());
        coordination::set_unhealthy(context, &namespace, &name, None);
        let deletes = schema.spec.deletion_policy == DeletionPolicy::Delete;
        let clean = deletes.then(|| apply::delete_tables(context, schema));
        finalizer::clean_up(context, schema, clean, apply::REMAINS, finalizer::CLEANING_MAX).await
    }
}

async fn apply_spec(context: &Context, schema: &TelemetrySchema) -> Result<Applied, StepError> {
    let declared = validate::validate_schema(schema)?;
    context.claims.check_conflict(schema)?;
    let observed = observe::observe_servers(context, schema, declared.clone()).await?;
    let servers = observed.reachable_servers();
    let claim = holders::check_tables_claim(context, schema, &declared, servers).await?;
    let plans = plan::plan_servers(&observed);
    let outdated = gate::find_outdated_pool(context, schema, &plans).await?;
    let may_record = !is_paused(schema) && observed.may_record(schema);
    let applied = apply::apply_plans(context, schema, observed, plans, outdated).await;
    if may_record && applied.failure.is_none() {
        holders::write_tables_claim(context, schema, &declared, claim.due).await?;
    }
    Ok(applied)
}
