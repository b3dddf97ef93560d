//! Makes the changes of a plan, and observes again.

use kube::Resource;
use millrace_crds::v1alpha1::TelemetryTopic;
use millrace_crds::{EventReason, Reason};

use super::observe::{self, Observed};
use super::validate::{self, DesiredTopic};
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::holders;
use crate::kafka::{TopicChange, TopicObservation};
use crate::report::counts::format_count;
use crate::report::events::Notice;

/// What remains when a topic is not deleted.
pub(super) const REMAINS: &str = "the topic and its records remain in Kafka";

/// A topic after the changes.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) declared: DesiredTopic,
    /// The topic as Kafka reported it after the changes.
    pub(super) observation: TopicObservation,
    /// Whether changes were due but not made, because the object is paused.
    pub(super) withheld: bool,
}

/// Makes the changes, with an event for each; none while the object is paused.
///
/// # Errors
/// When Kafka refuses a change, with the first refusal.
pub(super) async fn apply_changes(
    context: &Context,
    topic: &TelemetryTopic,
    observed: Observed,
    changes: Vec<TopicChange>,
) -> Result<Applied, StepError> {
    let Observed { declared, observation, settings } = observed;
    if changes.is_empty() || is_paused(topic) {
        return Ok(Applied { declared, observation, withheld: !changes.is_empty() });
    }
    for change in changes {
        let notice = change_notice(&declared, &observation, &change);
        let changed =
            context.brokers.change_topic(settings.clone(), declared.name.as_str(), change);
        changed.await.map_err(|failure| failure.at_step(ReconcileStep::Apply))?;
        context.events.publish(&topic.object_ref(&()), notice).await;
    }
    let observation = observe::describe_topic(context, &settings, &declared).await?;
    Ok(Applied { declared, observation, withheld: false })
}

fn change_notice(
    desired: &DesiredTopic,
    observation: &TopicObservation,
    change: &TopicChange,
) -> Notice {
    let name = &desired.name;
    match (change, observation) {
        (TopicChange::Create { partitions, .. }, _) => {
            let note =
                format!("topic {name} created with {}", format_count(partitions, "partition"));
            Notice::normal(EventReason::TopicCreated, "Apply", note)
        }
        (TopicChange::Grow { partitions }, TopicObservation::Exists { partitions: had, .. }) => {
            // From now on, records of one key may be in two partitions, which deserves a warning.
            let note = format!(
                "topic {name} had {} and was grown to {partitions}",
                format_count(had, "partition")
            );
            Notice::warning(Reason::TopicTooFewPartitions, "Apply", note)
        }
        (TopicChange::Grow { partitions }, TopicObservation::Missing) => {
            let note =
                format!("topic {name} was grown to {}", format_count(partitions, "partition"));
            Notice::normal(EventReason::TopicPartitionsAdded, "Apply", note)
        }
        (TopicChange::Set { .. }, _) => {
            let names: Vec<&str> = desired.settings.keys().map(String::as_str).collect();
            let note = format!("settings of topic {name} changed: {}", names.join(", "));
            Notice::normal(EventReason::TopicSettingsChanged, "Apply", note)
        }
    }
}

/// Deletes the topic with all its records, unless another object holds it.
///
/// # Errors
/// When a Secret is missing, or Kafka or the API server refuse or can't be reached.
pub(super) async fn delete_topic(
    context: &Context,
    topic: &TelemetryTopic,
) -> Result<(), StepError> {
    let desired = validate::validate_topic(topic)?;
    let settings = observe::read_connection(context, topic).await?;
    let thing = validate::claimed_resource(topic, &desired, settings.clone());
    let checked = holders::check_claim(context, topic, &thing).await;
    if let Some(why) =
        holders::reason_to_retain(context, topic.spec.ownership.is_shared(), checked)?
    {
        let notice = Notice::deletion_skipped(REMAINS, &why);
        context.events.publish(&topic.object_ref(&()), notice).await;
        return Ok(());
    }
    let deleted = context.brokers.delete_topic(settings, desired.name.as_str());
    deleted.await.map_err(|failure| failure.at_step(ReconcileStep::Apply))?;
    let note = format!("topic {} and its records deleted", desired.name);
    let notice = Notice::normal(EventReason::TopicDeleted, "Delete", note);
    context.events.publish(&topic.object_ref(&()), notice).await;
    Ok(())
}
