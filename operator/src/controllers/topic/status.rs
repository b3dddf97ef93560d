//! Reports a topic: conditions, partitions; and events for changes.

use millrace_crds::ConditionType;
use millrace_crds::v1alpha1::{TelemetryTopic, TelemetryTopicStatus};

use super::apply::Applied;
use super::plan::{TopicComparison, compare_topic, has_settings, is_ours_to_set};
use crate::cluster::write_status;
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::TopicObservation;
use crate::report::conditions::Conditions;
use crate::report::declared::conclude_conditions;
use crate::report::unreachable::{state_failure, state_secrets};

/// Writes the status if it changed; returns whether the topic is settled.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report_status(
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
            set_observed(&mut status, applied);
            state_topic(&mut conditions, applied, is_ours_to_set(topic))
        }
        Err(error) => {
            state_secrets(&mut conditions, Some(error));
            state_failure(&mut conditions, ConditionType::TopicReady, error);
            false
        }
    };
    let required = [ConditionType::SecretsFound, ConditionType::TopicReady];
    conclude_conditions(&mut conditions, topic, &required);
    write_status(context, topic, topic.status.as_ref(), &status, conditions).await?;
    Ok(settled)
}

fn set_observed(status: &mut TelemetryTopicStatus, applied: &Applied) {
    if has_settings(&applied.declared, &applied.observation) {
        status.settings_generation = status.observed_generation;
    }
    status.topic_name = Some(applied.declared.name.to_string());
    (status.partitions, status.replication_factor) = match &applied.observation {
        TopicObservation::Missing => (None, None),
        TopicObservation::Exists { partitions, replication_factor, .. } => {
            (i32::try_from(*partitions).ok(), Some(i32::from(*replication_factor)))
        }
    };
}

/// Sets TopicReady, Progressing and Stalled; returns whether nothing is left to do.
fn state_topic(conditions: &mut Conditions, applied: &Applied, ours_to_set: bool) -> bool {
    use ConditionType::TopicReady;
    let Applied { declared, observation, withheld } = applied;
    match compare_topic(declared, observation, ours_to_set) {
        TopicComparison::Fits(reason, message) => {
            conditions.set_true(TopicReady, reason, message);
            conditions.set_idle();
            true
        }
        TopicComparison::Differs(_, message) if *withheld => {
            conditions.set_withheld(TopicReady, &message);
            true
        }
        TopicComparison::Differs(reason, message) => {
            conditions.set_moving(TopicReady, reason, &message);
            false
        }
        TopicComparison::Stuck(reason, message) => {
            conditions.set_stuck(TopicReady, reason, &message);
            true
        }
    }
}
