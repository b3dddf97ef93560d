//! Orders expand, roll, contract. A gateway pool gets another image once its tables have the
//! desired revision (`tables`). Contract steps run once no pool runs an older collector
//! (`outdated`). Only these two hold a client; judging is pure.
//!
//! Limits: checks the gateway pools in the object's own namespace that write to its tables. Whoever
//! names an object in `spec.consent` must check pools elsewhere, and collectors that this operator
//! did not make.

use kube::ResourceExt;
use kube::api::ListParams;
use millrace_crds::v1alpha1::{GatewayPool, TelemetrySchema};
use millrace_crds::{ConditionType, is_true};
use millrace_ddl as ddl;

use super::coordination;
use super::validate::validate_schema;
use crate::cluster::list_objects;
use crate::context::{Context, Images};
use crate::error::StepError;
use crate::ownership::controller_of;
use crate::pool::template;

/// Returns whether the tables have the revision that the spec declares, by this release.
pub(crate) fn is_at_revision(schema: &TelemetrySchema) -> bool {
    let found = schema.status.as_ref().and_then(|status| status.revision.as_deref());
    let desired = validate_schema(schema).ok().map(|declared| declared.revision());
    found.is_some() && found == desired.as_deref()
}

/// The tables that a pool writes to, by the schemas in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolTables {
    /// The first schema whose tables are not at their revision; `None` if there is none.
    pub(crate) behind: Option<String>,
    /// The revision that the first schema found.
    pub(crate) revision: Option<String>,
    /// The first schema whose tables accept no inserts for lack of coordination, and why; `None` if
    /// there is none, or it isn't known.
    pub(crate) uncoordinated: Option<String>,
}

/// Returns the state of a pool's tables, by the schemas in its namespace.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(crate) async fn tables_of_pool(
    context: &Context,
    pool: &GatewayPool,
) -> Result<PoolTables, StepError> {
    let namespace = pool.namespace().unwrap_or_default();
    let schemas: Vec<TelemetrySchema> =
        list_objects(context, &namespace, ListParams::default(), |it| it).await?;
    let theirs = || {
        let schemas = schemas
            .iter()
            .filter(|schema| may_write_same_tables(schema, pool) && !are_strangers(schema, pool));
        schemas.filter(|schema| schema.metadata.deletion_timestamp.is_none())
    };
    let behind = theirs().find(|schema| !is_at_revision(schema));
    Ok(PoolTables {
        behind: behind.map(|schema| format!("TelemetrySchema {}", schema.name_any())),
        revision: theirs().find_map(|schema| schema.status.as_ref()?.revision.clone()),
        uncoordinated: theirs().find_map(|schema| {
            let why = coordination::stop_reason(schema)?;
            Some(format!("TelemetrySchema {} has coordination again ({why})", schema.name_any()))
        }),
    })
}

/// Returns the first gateway pool that may still run an older collector, and why; `None` if there
/// is none, or no plan needs it.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn find_outdated_pool(
    context: &Context,
    schema: &TelemetrySchema,
    plans: &[Option<ddl::MigrationPlan>],
) -> Result<Option<String>, StepError> {
    let is_due = |step: &ddl::PlanStep| {
        step.phase == ddl::Phase::Contract && matches!(step.loss, ddl::Loss::Agreed(_))
    };
    if !plans.iter().flatten().flat_map(|plan| &plan.steps).any(is_due) {
        return Ok(None);
    }
    let namespace = schema.namespace().unwrap_or_default();
    let pools: Vec<GatewayPool> =
        list_objects(context, &namespace, ListParams::default(), |it| it).await?;
    Ok(first_outdated(schema, &pools, &context.images))
}

fn first_outdated(
    schema: &TelemetrySchema,
    pools: &[GatewayPool],
    images: &Images,
) -> Option<String> {
    pools.iter().filter(|pool| may_write_same_tables(schema, pool)).find_map(|pool| {
        let why = outdated_reason(pool, images)?;
        Some(format!("GatewayPool {} {why}", pool.name_any()))
    })
}

/// Returns whether a pool may write to these tables. One server has many names, so endpoints don't
/// count.
fn may_write_same_tables(schema: &TelemetrySchema, pool: &GatewayPool) -> bool {
    let (ours, theirs) = (&schema.spec.clickhouse, &pool.spec.clickhouse);
    ours.database() == theirs.database() && ours.table_prefix() == theirs.table_prefix()
}

/// Returns whether schema and pool belong to two pipelines that share nothing, by their endpoints.
/// If these are two names of one server, the younger pipeline would be refused its tables
/// ([`crate::holders`]). That is enough to let a pool roll out, but not to drop columns that its
/// pods may still write.
fn are_strangers(schema: &TelemetrySchema, pool: &GatewayPool) -> bool {
    let (ours, theirs) = (&schema.spec.clickhouse, &pool.spec.clickhouse);
    let owners = controller_of(&schema.metadata).zip(controller_of(&pool.metadata));
    owners.is_some_and(|(ours, theirs)| ours.uid != theirs.uid)
        && !(schema.spec.ownership.is_shared() && pool.spec.ownership.is_shared())
        && !ours.endpoints.iter().any(|endpoint| theirs.endpoints.contains(endpoint))
}

fn outdated_reason(pool: &GatewayPool, images: &Images) -> Option<String> {
    let pinned = pool.spec.collector.version.as_ref().map(|version| version.as_str());
    let current = images.collector_version_default.as_str();
    if pinned.is_some_and(|pinned| version_numbers(pinned) < version_numbers(current)) {
        let pinned = pinned.unwrap_or_default();
        return Some(format!("is pinned to collector {pinned}, older than {current}"));
    }
    let expected = template::collector_image(&pool.spec.collector, images, None);
    let expected = template::without_digest(&expected);
    let status = pool.status.as_ref();
    let is_rolled = status.is_some_and(|status| {
        let generation = pool.metadata.generation.unwrap_or(i64::MAX);
        status.image.as_deref().map(template::without_digest) == Some(expected)
            && is_true(&status.conditions, ConditionType::PodsReady, generation)
    });
    (!is_rolled).then(|| format!("has not rolled out {expected} to all its pods"))
}

/// Returns major, minor and patch; a pre-release suffix is ignored.
fn version_numbers(version: &str) -> Vec<u64> {
    let plain = version.split('-').next().unwrap_or(version);
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests;
