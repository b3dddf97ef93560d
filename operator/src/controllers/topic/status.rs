//! Reports a topic: conditions, partitions; and events for what changed.

use kube::Resource;
use millrace_crds::v1alpha1::{TelemetryTopic, TelemetryTopicStatus};
use millrace_crds::{ConditionType, Reason};

use super::apply::Applied;
use super::plan::{Standing, judge};
use crate::cluster::{is_paused, patch_status};
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::TopicSeen;
use crate::report::conditions::Conditions;
use crate::report::plaintext;
use crate::report::unreachable::{state_failure, state_secrets};

/// Writes the status if it changed; returns whether the topic is settled.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report(
    context: &Context,
    topic: &TelemetryTopic,
    outcome: &Result<Applied, StepError>,
) -> Result<bool, StepError> {
    let before = topic.status.clone().unwrap_or_default();
    let mut conditions =
        Conditions::new(&before.conditions, topic.metadata.generation, context.clock.now());
    let mut status =
        TelemetryTopicStatus { observed_generation: topic.metadata.generation, ..before };
    let settled = match outcome {
        Ok(applied) => {
            state_secrets(&mut conditions, None);
            state_seen(&mut status, applied);
            state_topic(&mut conditions, applied)
        }
        Err(error) => {
            state_secrets(&mut conditions, Some(error));
            state_failure(&mut conditions, ConditionType::TopicReady, error);
            false
        }
    };
    plaintext::state(&mut conditions, Some(&topic.spec.kafka), None, None);
    conditions.paused(is_paused(topic));
    conditions.conclude(&[ConditionType::SecretsFound, ConditionType::TopicReady]);
    status.conditions = conditions.clone().into_conditions();
    if patch_status(context, topic, topic.status.as_ref(), &status).await? {
        for notice in conditions.notices() {
            context.events.publish(&topic.object_ref(&()), notice).await;
        }
    }
    Ok(settled)
}

fn state_seen(status: &mut TelemetryTopicStatus, applied: &Applied) {
    status.topic_name = Some(applied.wanted.name.to_string());
    (status.partitions, status.replication_factor) = match &applied.seen {
        TopicSeen::Missing => (None, None),
        TopicSeen::Found { partitions, replication_factor, .. } => {
            (i32::try_from(*partitions).ok(), Some(i32::from(*replication_factor)))
        }
    };
}

/// States TopicReady, Progressing and Stalled; returns whether nothing is left to do.
fn state_topic(conditions: &mut Conditions, applied: &Applied) -> bool {
    use ConditionType::{Progressing, Stalled, TopicReady};
    let Applied { wanted, seen, withheld } = applied;
    match judge(wanted, seen) {
        Standing::Fits(reason, message) => {
            conditions.holds(TopicReady, reason, message);
            conditions.fails(Progressing, Reason::Settled, "no change is under way");
            conditions.fails(Stalled, Reason::Settled, "nothing is stuck");
            true
        }
        Standing::Differs(_, message) if *withheld => {
            let message = format!("{message}; the object is paused");
            conditions.fails(TopicReady, Reason::PausedByAnnotation, message.as_str());
            conditions.fails(Progressing, Reason::PausedByAnnotation, message.as_str());
            conditions.fails(Stalled, Reason::PausedByAnnotation, "pausing is not being stuck");
            true
        }
        Standing::Differs(reason, message) => {
            conditions.fails(TopicReady, reason, message.as_str());
            conditions.holds(Progressing, Reason::Applying, message.as_str());
            conditions.fails(Stalled, Reason::Applying, "the change goes on by itself");
            false
        }
        Standing::Stuck(reason, message) => {
            conditions.fails(TopicReady, reason, message.as_str());
            conditions.fails(Progressing, reason, message.as_str());
            conditions.holds(Stalled, reason, message.as_str());
            true
        }
    }
}
