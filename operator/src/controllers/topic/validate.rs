//! Translates a spec to the desired topic. Pure: no client.

use std::collections::BTreeMap;

use kube::ResourceExt;
use millrace_crds::v1alpha1::{TelemetryTopic, TelemetryTopicSpec, TopicManagement, TopicSettings};
use millrace_crds::{BootstrapServer, Period, TopicName};

use crate::cache::claims::Claim;
use crate::error::StepError;
use crate::holders::ClaimedResource;
use crate::kafka::{ConnectionSettings, KafkaResource};

/// Selects whose clock dates a topic's messages. Kafka's default is the producers': it refuses an
/// edge whose clock is over an hour ahead, deletes early the messages of one whose clock is behind,
/// and mixes many clocks in a lag in seconds.
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
/// The brokers' clock.
const LOG_APPEND_TIME: &str = "LogAppendTime";

/// The advice for another object of the same topic.
const ADVICE: &str = "another topicName";

/// The desired topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredTopic {
    pub(super) name: TopicName,
    /// Who changes the topic.
    pub(super) management: TopicManagement,
    /// The minimum number of partitions.
    pub(super) partitions: u32,
    /// The copies of each partition, if the user sets them.
    pub(super) replication_factor: Option<u16>,
    /// Settings by Kafka's names, with messages dated by the brokers by default; others are
    /// unchanged.
    pub(super) settings: BTreeMap<String, String>,
}

/// Returns the desired topic.
///
/// # Errors
/// When the topic gets the object's own name and that is no topic name.
pub(super) fn validate_topic(topic: &TelemetryTopic) -> Result<DesiredTopic, StepError> {
    let TelemetryTopicSpec { topic_name, settings, .. } = &topic.spec;
    let (management, partitions) = (settings.management(), settings.partitions());
    let TopicSettings { management: _, partitions: _, replication_factor, retention, settings } =
        settings;
    let name = match topic_name {
        Some(name) => name.clone(),
        None => topic.name_any().parse().map_err(StepError::spec_invalid)?,
    };
    let mut settings = settings.clone();
    if let Some(retention) = retention {
        settings.insert("retention.ms".to_owned(), to_milliseconds(retention));
    }
    let times = || LOG_APPEND_TIME.to_owned();
    settings.entry(TIMESTAMP_TYPE.to_owned()).or_insert_with(times);
    Ok(DesiredTopic {
        name,
        management,
        partitions,
        replication_factor: *replication_factor,
        settings,
    })
}

pub(super) fn claim_of_topic(topic: &TelemetryTopic) -> Option<Claim> {
    let name = validate_topic(topic).ok()?.name;
    let servers = topic.spec.kafka.bootstrap_servers.iter();
    let thing = |server: &BootstrapServer| format!("topic {name} on {}", server.as_str());
    Some(Claim {
        things: servers.map(thing).collect(),
        shared: topic.spec.ownership.is_shared(),
        advice: ADVICE,
    })
}

/// Returns the claim in the form that Kafka stores.
pub(super) fn claimed_resource(
    topic: &TelemetryTopic,
    desired: &DesiredTopic,
    settings: ConnectionSettings,
) -> ClaimedResource {
    let name = desired.name.to_string();
    ClaimedResource {
        settings,
        resource: KafkaResource::Topic(name.clone()),
        topics: vec![name],
        shared: topic.spec.ownership.is_shared(),
        advice: ADVICE,
    }
}

fn to_milliseconds(period: &Period) -> String {
    period.seconds().saturating_mul(1_000).to_string()
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// Returns the desired topic of a spec, as the YAML that a user writes: through the real step.
    pub(in crate::controllers::topic) fn desired_topic(spec: &str) -> DesiredTopic {
        let text = format!(
            "apiVersion: millrace.dev/v1alpha1\nkind: TelemetryTopic\nmetadata: {{name: obj}}\n\
             spec: {{kafka: {{bootstrapServers: [k:9092]}}, {spec}}}"
        );
        validate_topic(&serde_norway::from_str(&text).unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::desired_topic;

    /// Scenario: a spec has only the connection. Guarantee: the topic has the object's name, the
    /// default partitions, messages dated by the brokers, and no other settings.
    #[test]
    fn what_is_not_said_is_left_to_the_broker() {
        let wanted = desired_topic("");
        assert_eq!(wanted.name.as_str(), "obj");
        assert_eq!(wanted.partitions, 12);
        assert_eq!(wanted.replication_factor, None);
        assert_eq!(wanted.settings.len(), 1);
        assert_eq!(wanted.settings["message.timestamp.type"], "LogAppendTime");
    }

    /// Scenario: a user wants messages dated by their senders. Guarantee: the setting is unchanged.
    #[test]
    fn whose_clock_dates_messages_can_be_said() {
        let wanted = desired_topic("topicName: t, settings: {message.timestamp.type: CreateTime}");
        assert_eq!(wanted.settings["message.timestamp.type"], "CreateTime");
    }

    /// Scenario: a spec has a retention and other settings. Guarantee: it becomes Kafka's own
    /// setting.
    #[test]
    fn retention_is_told_in_milliseconds() {
        let wanted =
            desired_topic("topicName: t, retention: 6h, settings: {min.insync.replicas: '2'}");
        assert_eq!(wanted.settings["retention.ms"], "21600000");
        assert_eq!(wanted.settings["min.insync.replicas"], "2");
    }
}
