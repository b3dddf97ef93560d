//! Makes the changes of a plan, and observes again.

use kube::Resource;
use millrace_crds::v1alpha1::TelemetryTopic;
use millrace_crds::{EventReason, Reason};

use super::observe::{self, Observed};
use super::plan::Plan;
use super::validate::{self, Wanted};
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::holders;
use crate::kafka::{TopicChange, TopicSeen};
use crate::report::events::Notice;

/// A topic after the changes.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) wanted: Wanted,
    /// As Kafka reported after the changes.
    pub(super) seen: TopicSeen,
    /// Changes were due and not made, because the object is paused.
    pub(super) withheld: bool,
}

/// Makes the changes, with an event for each; none while `paused`.
///
/// # Errors
/// The first change that Kafka refused.
pub(super) async fn apply(
    context: &Context,
    topic: &TelemetryTopic,
    observed: Observed,
    plan: Plan,
    paused: bool,
) -> Result<Applied, StepError> {
    let Observed { wanted, seen, settings } = observed;
    let Plan { changes } = plan;
    if changes.is_empty() || paused {
        return Ok(Applied { wanted, seen, withheld: !changes.is_empty() });
    }
    for change in changes {
        let notice = notice(&wanted, &seen, &change);
        let changed = context.brokers.change(settings.clone(), wanted.name.to_string(), change);
        changed.await.map_err(|failure| failure.at(Step::Apply))?;
        context.events.publish(&topic.object_ref(&()), notice).await;
    }
    let seen = observe::look(context, &settings, &wanted).await?;
    Ok(Applied { wanted, seen, withheld: false })
}

fn notice(wanted: &Wanted, seen: &TopicSeen, change: &TopicChange) -> Notice {
    let name = &wanted.name;
    match (change, seen) {
        (TopicChange::Create { partitions, .. }, _) => {
            let note = format!("topic {name} created with {partitions} partitions");
            Notice::normal(EventReason::TopicCreated, "Apply", note)
        }
        (TopicChange::Grow { partitions }, TopicSeen::Found { partitions: had, .. }) => {
            // From now on, records of one key may be in two partitions: worth a warning.
            let note = format!("topic {name} had {had} partitions and was grown to {partitions}");
            Notice::warning(Reason::TopicTooFewPartitions, "Apply", note)
        }
        (TopicChange::Grow { partitions }, TopicSeen::Missing) => {
            let note = format!("topic {name} was grown to {partitions} partitions");
            Notice::normal(EventReason::TopicGrown, "Apply", note)
        }
        (TopicChange::Set { .. }, _) => {
            let names: Vec<&str> = wanted.settings.keys().map(String::as_str).collect();
            let note = format!("settings of topic {name} brought about: {}", names.join(", "));
            Notice::normal(EventReason::TopicSettingsChanged, "Apply", note)
        }
    }
}

/// Deletes the topic with all its records, unless another holds it.
///
/// # Errors
/// When a Secret is missing, or Kafka or the API server refuse or can't be reached.
pub(super) async fn delete(context: &Context, topic: &TelemetryTopic) -> Result<(), StepError> {
    let wanted = validate::validate(topic)?;
    let settings = observe::connection(context, topic).await?;
    let thing = validate::thing(topic, &wanted, settings.clone());
    let looked = holders::look(context, topic, &thing).await;
    if let Some(why) = holders::keeps(context, topic.spec.shared, looked)? {
        let notice = Notice::kept(super::REMAINS, &why);
        context.events.publish(&topic.object_ref(&()), notice).await;
        return Ok(());
    }
    let deleted = context.brokers.delete(settings, wanted.name.to_string());
    deleted.await.map_err(|failure| failure.at(Step::Apply))?;
    let note = format!("topic {} and its records deleted", wanted.name);
    let notice = Notice::normal(EventReason::TopicDeleted, "Delete", note);
    context.events.publish(&topic.object_ref(&()), notice).await;
    Ok(())
}
