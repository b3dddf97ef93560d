//! Deletes a pipeline whose deletion policy is `Delete`: its children in steps, each once those of
//! the step before are gone.
//!
//! Edge pools first, whose pods hand what they have to Kafka; then the gateway pool; then topics
//! and schema, which delete what they stand for. Nothing waits until gateways have stored what is
//! in Kafka: the tables go next. Topics and schema have the policy `Retain` until their step, so
//! that an object that goes in another way (with its signal or its namespace) deletes no data.
//!
//! Makes no child. A pause doesn't hold it up. After a bounded time the pipeline is released:
//! children whose step has not come keep their data.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::PropagationPolicy;
use kube::core::PartialObjectMeta;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    DeletionPolicy, EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

use super::build::{Prepared, build};
use super::status::{Outcome, report};
use super::validate::validate;
use crate::cluster::{Applicable, ApplyError, Children};
use crate::context::Context;
use crate::error::{Category, Step, StepError};
use crate::reconcile::Next;
use crate::reconcile::finalizer;

/// Resync while children go; their events trigger a reconcile at once.
const AGAIN: Duration = Duration::from_secs(5);

/// What is left behind when the pipeline is released early.
const REMAINS: &str = "topics and tables that were not deleted yet remain, with all data";

/// One look at the children, and the next step.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn leave(
    context: &Context,
    pipeline: &TelemetryPipeline,
) -> Result<Next, StepError> {
    let metadata = &pipeline.metadata;
    if !finalizer::is_held(metadata) {
        return Ok(Next::OnChange);
    }
    let patience = patience(pipeline);
    let waits = match validate(pipeline) {
        Ok(validated) => step(context, pipeline, build(&validated)).await,
        // A pipeline whose children can't be named has none.
        Err(_) => Ok(None),
    };
    let is_over = finalizer::time_left(metadata, context.clock.now(), patience).is_zero();
    let gone = match waits {
        Ok(None) => Ok(()),
        Ok(Some(first)) if !is_over => {
            report(context, pipeline, &Outcome::Leaving(first)).await?;
            return Ok(Next::After(AGAIN));
        }
        Ok(Some(first)) => {
            let cause = format!("{first} is still there");
            Err(StepError::new(Step::Apply, Category::External, Reason::Waiting, cause))
        }
        Err(error) => Err(error),
    };
    finalizer::leave(context, pipeline, Some(std::future::ready(gone)), REMAINS, patience).await
}

/// How long the steps may take: pods of edges and then of gateways hand over, topics and tables are
/// deleted; and as much again as that last step for starting and ending them.
fn patience(pipeline: &TelemetryPipeline) -> Duration {
    let edges = pipeline.spec.edge_pools();
    let edges = edges.iter().map(|edge| edge.settings.drain_seconds).max().unwrap_or(0);
    let drains = u64::from(edges) + u64::from(pipeline.spec.gateway.drain_seconds);
    2 * finalizer::CLEANING_MAX + Duration::from_secs(drains)
}

/// Takes the next step, as far as it can be taken now; tells which child is waited for.
async fn step(
    context: &Context,
    pipeline: &TelemetryPipeline,
    prepared: Prepared,
) -> Result<Option<String>, StepError> {
    let Prepared { topics, mut schema, labels, .. } = prepared;
    let children = Children::of(context, pipeline)
        .ok_or_else(|| ApplyError::not_stored("TelemetryPipeline"))?;
    let policy = pipeline.spec.deletion_policy;
    if policy == DeletionPolicy::Delete {
        if let Some(first) = ended::<EdgePool>(&children, &labels).await? {
            return Ok(Some(first));
        }
        if let Some(first) = ended::<GatewayPool>(&children, &labels).await? {
            return Ok(Some(first));
        }
    }
    let mut waits = None;
    let live = children.ours::<TelemetryTopic>(&labels).await?;
    for mut topic in topics {
        topic.spec.deletion_policy = policy;
        waits = follows(&children, &live, topic, policy).await?.or(waits);
    }
    let live = children.ours::<TelemetrySchema>(&labels).await?;
    schema.spec.deletion_policy = policy;
    waits = follows(&children, &live, schema, policy).await?.or(waits);
    children.finish().await;
    // What is retained needs no step: its objects go with the pipeline.
    Ok(waits.filter(|_| policy == DeletionPolicy::Delete))
}

/// Deletes all pools of a kind; tells one that is still there. They stay until their pods are gone.
async fn ended<K: Applicable>(
    children: &Children<'_>,
    labels: &str,
) -> Result<Option<String>, ApplyError> {
    for pool in children.ours::<K>(labels).await? {
        children.delete(&pool, PropagationPolicy::Foreground).await?;
    }
    let left = children.ours::<K>(labels).await?;
    Ok(left.first().map(|pool| format!("{} {}", K::kind(&()), pool.name_any())))
}

/// Gives a child that is there the pipeline's deletion policy, and deletes it once it will follow
/// that; tells it while it is there.
async fn follows<K: Applicable>(
    children: &Children<'_>,
    live: &[PartialObjectMeta<K>],
    wanted: K,
    policy: DeletionPolicy,
) -> Result<Option<String>, ApplyError> {
    let name = wanted.name_any();
    let Some(child) = live.iter().find(|child| child.name_any() == name) else { return Ok(None) };
    if child.metadata.deletion_timestamp.is_none() {
        children.ensure(wanted).await?;
        // Without its finalizer it would go, and what it stands for would stay.
        if policy == DeletionPolicy::Delete && finalizer::is_held(&child.metadata) {
            children.delete(child, PropagationPolicy::Background).await?;
        }
    }
    Ok(Some(format!("{} {name}", K::kind(&()))))
}
