//! Checks and records in Kafka that a topic is this object's.

use millrace_crds::v1alpha1::{TelemetryTopic, TopicManagement};

use super::apply::Applied;
use super::observe::Observed;
use super::validate;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::StepError;
use crate::holders::{self, ClaimedResource, DueRecord};
use crate::kafka::TopicObservation;

/// The claim of a topic that no other object holds.
pub(super) struct TopicClaim {
    resource: ClaimedResource,
    record: ClaimRecord,
}

/// The record of a claim, before the topic's changes.
enum ClaimRecord {
    /// Nothing is recorded about an observed topic.
    Unneeded,
    /// The record is stored in the topic, which doesn't exist: no one can hold it yet.
    TopicMissing,
    /// The record is checked, and written if it is due.
    Checked(Option<DueRecord>),
}

impl TopicClaim {
    /// Checks the holder's record of a topic that exists.
    ///
    /// # Errors
    /// When another object holds the topic, or Kafka refuses or can't be reached.
    pub(super) async fn check(
        context: &Context,
        topic: &TelemetryTopic,
        observed: &Observed,
    ) -> Result<Self, StepError> {
        let Observed { declared, observation, settings } = observed;
        let resource = validate::claimed_resource(topic, declared, settings.clone());
        let record = match (declared.management, observation) {
            (TopicManagement::Observed, _) => ClaimRecord::Unneeded,
            (TopicManagement::Managed, TopicObservation::Missing) => ClaimRecord::TopicMissing,
            (TopicManagement::Managed, TopicObservation::Exists { .. }) => {
                ClaimRecord::Checked(holders::check_claim(context, topic, &resource).await?)
            }
        };
        Ok(Self { resource, record })
    }

    /// Writes the record if it is due; one of a topic that was created since is checked first.
    ///
    /// # Errors
    /// As [`TopicClaim::check`].
    pub(super) async fn record(
        self,
        context: &Context,
        topic: &TelemetryTopic,
        applied: &Applied,
    ) -> Result<(), StepError> {
        let Self { resource, record } = self;
        let is_missing = applied.observation == TopicObservation::Missing;
        let due = match record {
            ClaimRecord::Checked(due) => due,
            ClaimRecord::TopicMissing if !is_missing => {
                holders::check_claim(context, topic, &resource).await?
            }
            ClaimRecord::TopicMissing | ClaimRecord::Unneeded => None,
        };
        match due.filter(|_| !is_paused(topic)) {
            Some(due) => holders::write_claim(context, topic, &resource, due).await,
            None => Ok(()),
        }
    }
}
