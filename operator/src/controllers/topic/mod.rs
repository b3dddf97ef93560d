//! TelemetryTopic: a Kafka topic with the declared shape.
//!
//! The steps: `validate` reads the spec, `observe` asks Kafka, `plan` compares the two, `apply`
//! makes the changes and observes again, `status` reports. Only observe, apply and status hold a
//! client. Partitions never shrink, a replication factor never changes, a setting that is not named
//! is never touched.

mod apply;
mod observe;
mod plan;
mod status;
mod validate;

use std::time::Duration;

use millrace_crds::v1alpha1::{DeletionPolicy, TelemetryTopic};

use crate::cache::claims::Claim;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::kafka::TopicSeen;
use crate::reconcile::Next;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::Watching;

/// Resync of a settled topic: Kafka has no watch.
const RESYNC: Duration = Duration::from_secs(60);
/// Resync of a topic that just changed.
const RESYNC_MOVING: Duration = Duration::from_secs(2);

/// What is left behind when a topic is not deleted.
const REMAINS: &str = "the topic and its records remain in Kafka";

/// Reconciles topics.
pub struct Topics;

impl Reconciler for Topics {
    type Object = TelemetryTopic;

    const HANDLES_DELETION: bool = true;

    /// A reconcile mostly waits for Kafka, which answers waiting ones in one request; and a hanging
    /// cluster may block some.
    const CONCURRENCY: u16 = 64;

    const CLAIMS: bool = true;

    fn claim(topic: &TelemetryTopic) -> Option<Claim> {
        validate::claim(topic)
    }

    fn watches(watching: Watching<TelemetryTopic>) -> Watching<TelemetryTopic> {
        watching
    }

    async fn reconcile(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
        if topic.metadata.deletion_timestamp.is_some() {
            return leave(context, topic).await;
        }
        let topic = finalizer::follow(context, topic, topic.spec.deletion_policy).await?;
        let topic = topic.as_ref();
        let outcome = bring_about(context, topic).await;
        let settled = status::report(context, topic, &outcome).await?;
        outcome.map_err(StepError::told)?;
        Ok(Next::After(if settled { RESYNC } else { RESYNC_MOVING }))
    }
}

async fn bring_about(
    context: &Context,
    topic: &TelemetryTopic,
) -> Result<apply::Applied, StepError> {
    let wanted = validate::validate(topic)?;
    context.claims.refused(topic).map_or(Ok(()), |held| Err(StepError::from(held)))?;
    let observed = observe::observe(context, topic, wanted).await?;
    let thing = validate::thing(topic, &observed.wanted, observed.settings.clone());
    // The record is stored in the topic: without a topic nobody can hold it yet.
    let is_missing = observed.seen == TopicSeen::Missing;
    let mut due = match is_missing {
        true => None,
        false => holders::look(context, topic, &thing).await?,
    };
    let plan = plan::plan(&observed.wanted, &observed.seen);
    let applied = apply::apply(context, topic, observed, plan, is_paused(topic)).await?;
    if is_missing && applied.seen != TopicSeen::Missing {
        due = holders::look(context, topic, &thing).await?;
    }
    if let Some(due) = due.filter(|_| !is_paused(topic)) {
        holders::write(context, topic, &thing, due).await?;
    }
    Ok(applied)
}

/// Deletion: removes the topic first, if the policy says so.
async fn leave(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
    let asked = topic.spec.deletion_policy == DeletionPolicy::Delete;
    let clean = asked.then(|| apply::delete(context, topic));
    finalizer::leave(context, topic, clean, REMAINS, finalizer::CLEANING_MAX).await
}
