//! TelemetryTopic: a Kafka topic with the declared shape.
//!
//! The steps: `validate` reads the spec, `observe` queries Kafka, `claim` checks who holds the
//! topic, `plan` compares declaration and topic, `apply` makes the changes and observes again,
//! `status` reports. Only observe, claim, apply and status hold a client. Partitions never shrink,
//! a replication factor never changes, and a setting that is not named is never changed.

mod apply;
mod claim;
mod observe;
mod plan;
mod status;
mod validate;

use std::time::Duration;

use millrace_crds::v1alpha1::{DeletionPolicy, TelemetryTopic, TopicManagement};

use self::apply::Applied;
use self::claim::TopicClaim;
use crate::cache::claims::Claim;
use crate::context::Context;
use crate::error::StepError;
use crate::reconcile::Next;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::WatchBuilder;

/// The resync interval of a settled topic: Kafka has no watch.
const RESYNC: Duration = Duration::from_secs(60);
/// The resync interval of a topic that just changed.
const RESYNC_MOVING: Duration = Duration::from_secs(2);

/// Reconciles topics.
pub struct Topics;

impl Reconciler for Topics {
    type Object = TelemetryTopic;

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

    fn deletion_policy(topic: &TelemetryTopic) -> Option<DeletionPolicy> {
        Some(topic.spec.deletion_policy)
    }

    async fn reconcile(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
        let outcome = apply_spec(context, topic).await;
        let settled = status::report_status(context, topic, &outcome).await?;
        outcome.map_err(StepError::mark_reported)?;
        Ok(Next::After(if settled { RESYNC } else { RESYNC_MOVING }))
    }

    /// With the policy `Delete`, first deletes the topic.
    async fn finalize(context: &Context, topic: &TelemetryTopic) -> Result<Next, StepError> {
        let deletes = topic.spec.deletion_policy == DeletionPolicy::Delete
            && topic.spec.settings.management() == TopicManagement::Managed;
        let clean = deletes.then(|| apply::delete_topic(context, topic));
        finalizer::clean_up(context, topic, clean, apply::REMAINS, finalizer::CLEANING_MAX).await
    }
}

async fn apply_spec(context: &Context, topic: &TelemetryTopic) -> Result<Applied, StepError> {
    let declared = validate::validate_topic(topic)?;
    context.claims.check_conflict(topic)?;
    let observed = observe::observe_topic(context, topic, declared).await?;
    let claim = TopicClaim::check(context, topic, &observed).await?;
    let ours_to_set = plan::is_ours_to_set(topic);
    let changes = plan::plan_changes(&observed.declared, &observed.observation, ours_to_set);
    let applied = apply::apply_changes(context, topic, observed, changes).await?;
    claim.record(context, topic, &applied).await?;
    Ok(applied)
}
