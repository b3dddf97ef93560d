//! TelemetryTopic: a Kafka topic with the declared shape.
//!
//! The steps: `validate` reads the spec, `observe` queries Kafka, `plan` compares the two, `apply`
//! makes the changes and observes again, `status` reports. Only observe, apply and status hold a
//! client. Partitions never shrink, a replication factor never changes, and a setting that is not
//! named is never changed.

mod apply;
mod observe;
mod plan;
mod status;
mod validate;

use std::time::Duration;

use millrace_crds::v1alpha1::{DeletionPolicy, TelemetryTopic, TopicManagement};

use crate::cache::claims::Claim;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::kafka::TopicObservation;
use crate::reconcile::Next;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::WatchBuilder;

/// The resync interval of a settled topic: Kafka has no watch.
const RESYNC: Duration = Duration::from_secs(60);
/// The resync interval of a topic that just changed.
const RESYNC_MOVING: Duration = Duration::from_secs(2);

/// What remains when a topic is not deleted.
const REMAINS: &str = "the topic and its records remain in Kafka";

/// Reconciles topics.
pub struct Topics;

impl Reconciler for Topics {
    type Object = TelemetryTopic;

    const HANDLES_DELETION: bool = true;

    /// A reconcile mostly waits for Kafka, and one request serves all waiting ones; a hanging
    /// cluster may block some.
    const CONCURRENCY: u16 = 64;

    const CLAIMS: bool = true;

    fn claim_of(topic: &TelemetryTopic) -> Option<Claim> {
        validate::claim_of_topic(topic)
    }

    fn add_watches(watching: WatchBuilder<TelemetryTopic>) -> WatchBuilder<TelemetryTopic> {
        watching
    }

    async fn reconcile(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
        if topic.metadata.deletion_timestamp.is_some() {
            return finalize_topic(context, topic).await;
        }
        let topic = finalizer::ensure_finalizer(context, topic, topic.spec.deletion_policy).await?;
        let topic = topic.as_ref();
        let outcome = reconcile_topic(context, topic).await;
        let settled = status::report_status(context, topic, &outcome).await?;
        outcome.map_err(StepError::mark_reported)?;
        Ok(Next::After(if settled { RESYNC } else { RESYNC_MOVING }))
    }
}

async fn reconcile_topic(
    context: &Context,
    topic: &TelemetryTopic,
) -> Result<apply::Applied, StepError> {
    let wanted = validate::validate_topic(topic)?;
    context.claims.find_conflict(topic).map_or(Ok(()), |held| Err(StepError::from(held)))?;
    let observed = observe::observe_topic(context, topic, wanted).await?;
    let thing = validate::claimed_resource(topic, &observed.declared, observed.settings.clone());
    // The record is stored in the topic: without a topic no one can hold it yet.
    // Nothing is recorded about an observed topic.
    let is_managed = observed.declared.management == TopicManagement::Managed;
    let is_missing = observed.observation == TopicObservation::Missing;
    let mut due = match is_missing || !is_managed {
        true => None,
        false => holders::check_claim(context, topic, &thing).await?,
    };
    let changes =
        plan::plan_changes(&observed.declared, &observed.observation, plan::is_ours_to_set(topic));
    let applied = apply::apply_changes(context, topic, observed, changes, is_paused(topic)).await?;
    if is_missing && applied.observation != TopicObservation::Missing {
        due = holders::check_claim(context, topic, &thing).await?;
    }
    if let Some(due) = due.filter(|_| !is_paused(topic)) {
        holders::write_claim(context, topic, &thing, due).await?;
    }
    Ok(applied)
}

/// Deletes an object; with the policy `Delete`, first deletes the topic.
async fn finalize_topic(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
    let deletes = topic.spec.deletion_policy == DeletionPolicy::Delete
        && topic.spec.settings.management() == TopicManagement::Managed;
    let clean = deletes.then(|| apply::delete_topic(context, topic));
    finalizer::clean_up(context, topic, clean, REMAINS, finalizer::CLEANING_MAX).await
}
