//! The order of expand, roll, contract. A gateway pool gets another image once its tables have the
//! desired revision (`tables`). What takes away runs once no pool runs an older collector
//! (`outdated`). Only these two hold a client; judging is pure.
//!
//! Limits: sees the gateway pools in the object's own namespace that write to its tables. Whoever
//! names an object in `spec.consent` must check pools elsewhere, and collectors that this operator
//! did not make.

use kube::ResourceExt;
use kube::api::ListParams;
use millrace_crds::v1alpha1::{GatewayPool, TelemetrySchema};
use millrace_crds::{ConditionType, is_true};
use millrace_ddl as ddl;

use super::coordination;
use super::validate::validate;
use crate::cluster::api;
use crate::context::{Context, Images};
use crate::error::{Step, StepError};
use crate::pool::template;

/// Whether the tables have the revision that the spec declares, by this release.
pub(crate) fn is_at_revision(schema: &TelemetrySchema) -> bool {
    let found = schema.status.as_ref().and_then(|status| status.revision.as_deref());
    let asked = validate(schema).ok().map(|declared| declared.revision());
    found.is_some() && found == asked.as_deref()
}

/// The tables that a pool writes to, by the schemas in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// The first schema whose tables are not at their revision; `None`: there is none.
    pub(crate) behind: Option<String>,
    /// The revision that the first schema found.
    pub(crate) revision: Option<String>,
    /// The first schema whose tables take no inserts for want of coordination, and why; `None`:
    /// there is none, or it isn't known.
    pub(crate) uncoordinated: Option<String>,
}

/// The state of a pool's tables, by the schemas in its namespace.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(crate) async fn tables(context: &Context, pool: &GatewayPool) -> Result<Tables, StepError> {
    let namespace = pool.namespace().unwrap_or_default();
    let schemas = api::<TelemetrySchema>(&context.client, &namespace);
    let schemas = schemas.list(&ListParams::default()).await.map_err(|error| {
        StepError::api(Step::Observe, format!("list TelemetrySchemas in {namespace}"), error)
    })?;
    let theirs = || {
        let schemas = schemas.items.iter().filter(|schema| is_same_place(schema, pool));
        schemas.filter(|schema| schema.metadata.deletion_timestamp.is_none())
    };
    let behind = theirs().find(|schema| !is_at_revision(schema));
    Ok(Tables {
        behind: behind.map(|schema| format!("TelemetrySchema {}", schema.name_any())),
        revision: theirs().find_map(|schema| schema.status.as_ref()?.revision.clone()),
        uncoordinated: theirs().find_map(|schema| {
            let why = coordination::stops(schema)?;
            Some(format!("TelemetrySchema {} has coordination again ({why})", schema.name_any()))
        }),
    })
}

/// The first gateway pool that may still run an older collector, and why; `None`: there is none, or
/// no plan asks.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn outdated(
    context: &Context,
    schema: &TelemetrySchema,
    plans: &[Option<ddl::Plan>],
) -> Result<Option<String>, StepError> {
    let is_due = |step: &ddl::Step| {
        step.phase == ddl::Phase::Contract && matches!(step.loss, ddl::Loss::Agreed(_))
    };
    if !plans.iter().flatten().flat_map(|plan| &plan.steps).any(is_due) {
        return Ok(None);
    }
    let namespace = schema.namespace().unwrap_or_default();
    let pools = api::<GatewayPool>(&context.client, &namespace);
    let pools = pools.list(&ListParams::default()).await.map_err(|error| {
        StepError::api(Step::Observe, format!("list GatewayPools in {namespace}"), error)
    })?;
    Ok(first_outdated(schema, &pools.items, &context.images))
}

fn first_outdated(
    schema: &TelemetrySchema,
    pools: &[GatewayPool],
    images: &Images,
) -> Option<String> {
    pools.iter().filter(|pool| is_same_place(schema, pool)).find_map(|pool| {
        let why = why_outdated(pool, images)?;
        Some(format!("GatewayPool {} {why}", pool.name_any()))
    })
}

/// Whether a pool writes to these tables. Endpoints are not compared: one server has many names.
fn is_same_place(schema: &TelemetrySchema, pool: &GatewayPool) -> bool {
    let (ours, theirs) = (&schema.spec.clickhouse, &pool.spec.clickhouse);
    ours.database() == theirs.database() && ours.table_prefix() == theirs.table_prefix()
}

fn why_outdated(pool: &GatewayPool, images: &Images) -> Option<String> {
    let asked = pool.spec.collector.version.as_ref().map(|version| version.as_str());
    let current = images.collector_version_default.as_str();
    if asked.is_some_and(|asked| numbers(asked) < numbers(current)) {
        let asked = asked.unwrap_or_default();
        return Some(format!("is pinned to collector {asked}, older than {current}"));
    }
    let wanted = template::image(&pool.spec.collector, images, None);
    let wanted = template::without_digest(&wanted);
    let status = pool.status.as_ref();
    let is_rolled = status.is_some_and(|status| {
        let generation = pool.metadata.generation.unwrap_or(i64::MAX);
        status.image.as_deref().map(template::without_digest) == Some(wanted)
            && is_true(&status.conditions, ConditionType::PodsReady, generation)
    });
    (!is_rolled).then(|| format!("has not rolled out {wanted} to all its pods"))
}

/// Major, minor and patch; a pre-release suffix is ignored.
fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split('-').next().unwrap_or(version);
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/schema/gate.rs"]
mod tests;
