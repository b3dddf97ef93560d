//! Deletes a pipeline whose deletion policy is `Delete`: its children in steps, each after those of
//! the previous step are deleted.
//!
//! Edge pools come first, whose pods drain to Kafka; then the gateway pool; then topics and schema,
//! which delete their topics and tables. No step waits until gateways have stored what is in Kafka:
//! the tables are deleted next. Topics and schema have the policy `Retain` until their step, so
//! that an object that is deleted otherwise (with its signal or its namespace) deletes no data.
//!
//! This module creates no child, and a pause doesn't delay it. After a bounded time the pipeline is
//! released: children whose step was not reached retain their data.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::PropagationPolicy;
use kube::core::PartialObjectMeta;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    DeletionPolicy, EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

use super::build::{PipelineChildren, build_children};
use super::status::report_deletion;
use super::validate::validate_deletion;
use crate::cluster::{Applicable, ApplyError, Children};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::reconcile::Next;
use crate::reconcile::finalizer;

/// The resync interval while children are deleted; their events also trigger a reconcile.
const AGAIN: Duration = Duration::from_secs(5);

/// What remains when the pipeline is released early.
const REMAINS: &str = "topics and tables that were not deleted yet remain, with all data";

/// Observes the children once and takes the next step.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn finalize_pipeline(
    context: &Context,
    pipeline: &TelemetryPipeline,
) -> Result<Next, StepError> {
    let metadata = &pipeline.metadata;
    if !finalizer::has_finalizer(metadata) {
        return Ok(Next::OnChange);
    }
    let patience = deletion_limit(pipeline);
    let waits = match validate_deletion(pipeline) {
        Some(validated) => next_step(context, pipeline, build_children(&validated)).await,
        None => Ok(None),
    };
    let is_over = finalizer::remaining_time(metadata, context.clock.now(), patience).is_zero();
    let outcome = match waits {
        Ok(None) => Ok(()),
        Ok(Some(first)) if !is_over => {
            report_deletion(context, pipeline, &first).await?;
            return Ok(Next::After(AGAIN));
        }
        Ok(Some(first)) => {
            let cause = format!("{first} still exists");
            Err(StepError::new(ReconcileStep::Apply, Category::External, Reason::Waiting, cause))
        }
        Err(error) => Err(error),
    };
    finalizer::clean_up(context, pipeline, Some(std::future::ready(outcome)), REMAINS, patience)
        .await
}

/// Returns the time limit of the steps: pods of edges and then of gateways drain, topics and tables
/// are deleted; and the time of that last step again for starting and ending them.
fn deletion_limit(pipeline: &TelemetryPipeline) -> Duration {
    let edges = pipeline.spec.edge_pools();
    let edges = edges.iter().map(|edge| edge.settings.drain_seconds).max().unwrap_or(0);
    let drains = u64::from(edges) + u64::from(pipeline.spec.gateway.drain_seconds);
    2 * finalizer::CLEANING_MAX + Duration::from_secs(drains)
}

/// Takes the next step as far as possible; returns the child that it waits for.
async fn next_step(
    context: &Context,
    pipeline: &TelemetryPipeline,
    prepared: PipelineChildren,
) -> Result<Option<String>, StepError> {
    let PipelineChildren { topics, mut schema, labels, .. } = prepared;
    let children = Children::of_owner(context, pipeline)?;
    let policy = pipeline.spec.deletion_policy;
    if policy == DeletionPolicy::Delete {
        if let Some(first) = delete_pools::<EdgePool>(&children, &labels).await? {
            return Ok(Some(first));
        }
        if let Some(first) = delete_pools::<GatewayPool>(&children, &labels).await? {
            return Ok(Some(first));
        }
    }
    let mut waits = None;
    let live = children.list_owned::<TelemetryTopic>(&labels).await?;
    for mut topic in topics {
        topic.spec.deletion_policy = policy;
        waits = delete_child(&children, &live, topic, policy).await?.or(waits);
    }
    let live = children.list_owned::<TelemetrySchema>(&labels).await?;
    schema.spec.deletion_policy = policy;
    waits = delete_child(&children, &live, schema, policy).await?.or(waits);
    children.publish_changes().await;
    // Retained children need no step: their objects are deleted with the pipeline.
    Ok(waits.filter(|_| policy == DeletionPolicy::Delete))
}

/// Deletes all pools of a kind; returns one that still exists. They remain until their pods have
/// ended.
async fn delete_pools<K: Applicable>(
    children: &Children<'_>,
    labels: &str,
) -> Result<Option<String>, ApplyError> {
    for pool in children.list_owned::<K>(labels).await? {
        children.delete_child(&pool, PropagationPolicy::Foreground).await?;
    }
    let left = children.list_owned::<K>(labels).await?;
    Ok(left.first().map(|pool| format!("{} {}", K::kind(&()), pool.name_any())))
}

/// Gives an existing child the pipeline's deletion policy, and deletes it once it will follow that;
/// returns the child while it exists.
async fn delete_child<K: Applicable>(
    children: &Children<'_>,
    live: &[PartialObjectMeta<K>],
    desired: K,
    policy: DeletionPolicy,
) -> Result<Option<String>, ApplyError> {
    let name = desired.name_any();
    let Some(child) = live.iter().find(|child| child.name_any() == name) else { return Ok(None) };
    if child.metadata.deletion_timestamp.is_none() {
        children.ensure_child(desired).await?;
        // Without its finalizer the child would be deleted, and its topic or tables would remain.
        if policy == DeletionPolicy::Delete && finalizer::has_finalizer(&child.metadata) {
            children.delete_child(child, PropagationPolicy::Background).await?;
        }
    }
    Ok(Some(format!("{} {name}", K::kind(&()))))
}
