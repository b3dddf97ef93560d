//! Writes a pipeline's children in order and reads them back.
//!
//! Topics and schema are always applied. An edge pool is created after the topics exist, so that no
//! broker creates one with defaults. The gateway pool is created or changed only while topics exist
//! and the tables have the desired revision.

use kube::ResourceExt;
use millrace_crds::v1alpha1::{
    EdgePool, EdgePoolStatus, GatewayPoolStatus, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};
use millrace_crds::{ConditionType, EdgeName, is_true};

use super::build::PipelineChildren;
use super::child::{Child, HoldReason};
use super::ensure::{ensure_child, ensure_schema, ensure_topic};
use crate::cluster::{Applicable, ApplyError, ChildChange, Children, is_paused};
use crate::context::Context;
use crate::controllers::schema::is_at_revision;
use crate::error::StepError;

/// The children, as far as applying got: those not reached are missing.
#[derive(Debug, Default)]
pub(super) struct ReachedChildren {
    pub(super) topics: Vec<Child>,
    pub(super) schema: Option<Child>,
    pub(super) schema_revision: Option<String>,
    pub(super) edges: Vec<Edge>,
    pub(super) edges_declared: usize,
    pub(super) gateway: Option<Child>,
    pub(super) gateway_status: GatewayPoolStatus,
}

/// An edge pool after applying.
#[derive(Debug)]
pub(super) struct Edge {
    /// The pool's name in the pipeline.
    pub(super) name: EdgeName,
    pub(super) child: Child,
    pub(super) status: EdgePoolStatus,
}

/// Writes children that differ. After a failure, the status reports those reached before.
///
/// # Errors
/// When the API server refuses or can't be reached, after some writes.
pub(super) async fn apply_children(
    context: &Context,
    pipeline: &TelemetryPipeline,
    prepared: PipelineChildren,
    reached: &mut ReachedChildren,
) -> Result<(), StepError> {
    let PipelineChildren { topics, schema, edges, gateway, labels } = prepared;
    reached.edges_declared = edges.len();
    let children = Children::of_owner(context, pipeline)?;
    let paused = is_paused(pipeline);
    let names: Vec<String> = topics.iter().map(ResourceExt::name_any).collect();
    let pools: Vec<String> = edges.iter().map(|(_, edge)| edge.name_any()).collect();

    let mut missing: Vec<String> = Vec::new();
    for topic in topics {
        let ours = (labels.as_str(), names.as_slice());
        let (live, held) = Box::pin(ensure_topic(&children, topic, paused, ours)).await?;
        let child = Child::from_object(&live, held);
        if !(topic_exists(&live) && child.up_to_date()) {
            missing.push(format!("{} {}", child.kind, child.name));
        }
        reached.topics.push(child);
    }
    let edge_gate = (!missing.is_empty()).then(|| missing.join(", "));
    let (live, held) = Box::pin(ensure_schema(&children, schema, paused)).await?;
    let child = Child::from_object(&live, held);
    if !(child.up_to_date() && tables_exist(&live)) {
        missing.push(format!("{} {}", child.kind, child.name));
    }
    reached.schema = Some(child);
    reached.schema_revision = live.status.and_then(|status| status.revision);
    let gateway_gate = (!missing.is_empty()).then(|| missing.join(", "));

    for (name, edge) in edges {
        let (live, held) =
            Box::pin(ensure_edge(&children, edge, paused, edge_gate.clone())).await?;
        let child = Child::from_object(&live, held);
        reached.edges.push(Edge { name, child, status: live.status.unwrap_or_default() });
    }
    let (live, held) = match gateway_gate {
        None => Box::pin(ensure_child(&children, gateway, paused)).await?,
        Some(first) => Box::pin(withhold_child(&children, gateway, first)).await?,
    };
    reached.gateway = Some(Child::from_object(&live, held));
    reached.gateway_status = live.status.unwrap_or_default();
    prune_children::<TelemetryTopic>(&children, pipeline, &labels, &names).await?;
    prune_children::<EdgePool>(&children, pipeline, &labels, &pools).await?;
    children.publish_changes().await;
    Ok(())
}

/// Compares a child that must wait for `first`.
async fn withhold_child<K: Applicable>(
    children: &Children<'_>,
    desired: K,
    first: String,
) -> Result<(K, Option<HoldReason>), ApplyError> {
    let ensured = Box::pin(children.compare_only().ensure_child(desired)).await?;
    let held = (ensured.change == ChildChange::Withheld).then_some(HoldReason::WaitsFor(first));
    Ok((ensured.object, held))
}

/// Writes an edge pool, unless it would be created before its topics. An existing one is always
/// reconciled: clients depend on it.
async fn ensure_edge(
    children: &Children<'_>,
    edge: EdgePool,
    paused: bool,
    gate: Option<String>,
) -> Result<(EdgePool, Option<HoldReason>), ApplyError> {
    let Some(first) = gate else { return Box::pin(ensure_child(children, edge, paused)).await };
    let (live, held) = Box::pin(withhold_child(children, edge.clone(), first)).await?;
    // Only a stored object has a uid.
    if live.metadata.uid.is_none() {
        Ok((live, held))
    } else {
        Box::pin(ensure_child(children, edge, paused)).await
    }
}

/// Returns whether the topic is known to exist: ready, or observed with partitions and unready for
/// a temporary cause such as a broker's restart.
fn topic_exists(topic: &TelemetryTopic) -> bool {
    let generation = topic.metadata.generation.unwrap_or(i64::MAX);
    topic.status.as_ref().is_some_and(|status| {
        is_true(&status.conditions, ConditionType::Ready, generation)
            || status.partitions.is_some_and(|partitions| {
                i64::from(partitions) >= i64::from(topic.spec.settings.partitions())
            })
    })
}

/// Returns whether the tables were verified at the desired revision: ready, or unready for a
/// temporary cause such as a server's restart. A plan that waits for a person is neither.
fn tables_exist(schema: &TelemetrySchema) -> bool {
    let generation = schema.metadata.generation.unwrap_or(i64::MAX);
    let conditions = schema.status.as_ref().map_or(&[][..], |status| &status.conditions);
    is_true(conditions, ConditionType::Ready, generation) || is_at_revision(schema)
}

/// Deletes the topic objects of removed signals (the topics remain in Kafka), or removed edge pools
/// (their pods drain). Skipped for a pipeline that was ready at this generation, whose schema was
/// not read in full, and for which watches show no leftovers.
async fn prune_children<K: Applicable>(
    children: &Children<'_>,
    pipeline: &TelemetryPipeline,
    labels: &str,
    names: &[String],
) -> Result<(), ApplyError> {
    let generation = pipeline.metadata.generation.unwrap_or(0);
    let conditions = pipeline.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let surplus = children.has_more_than::<TelemetryPipeline, K>(names.len());
    let blind = children.has_compared::<TelemetrySchema>(&pipeline.name_any());
    if is_true(conditions, ConditionType::Ready, generation) && !surplus && !blind {
        return Ok(());
    }
    let retained: Vec<&str> = names.iter().map(String::as_str).collect();
    children.prune_children::<K>(labels, &retained).await
}
