//! From a spec to the desired topic. Pure: no client.

use std::collections::BTreeMap;

use kube::ResourceExt;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{TelemetryTopic, TelemetryTopicSpec, TopicSettings};
use millrace_crds::{BootstrapServer, Period, TopicName};

use crate::cache::claims::Claim;
use crate::error::{Category, Step, StepError};
use crate::holders::Thing;
use crate::kafka::{Place, Settings};

/// Whose clock dates a topic's messages. Kafka's default is the producers': it refuses an edge
/// whose clock is over an hour ahead, deletes early the messages of one whose clock is behind, and
/// mixes many clocks in a lag in seconds.
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
/// The brokers'.
const LOG_APPEND_TIME: &str = "LogAppendTime";

/// What another object of the same topic could write instead.
const ADVICE: &str = "another topicName";

/// A topic as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its name in Kafka.
    pub(super) name: TopicName,
    /// Its partitions, at least.
    pub(super) partitions: u32,
    /// Copies of each partition, if the user sets them.
    pub(super) replication_factor: Option<u16>,
    /// Settings by Kafka's names, with messages dated by the brokers unless the user says
    /// otherwise; others are left alone.
    pub(super) settings: BTreeMap<String, String>,
}

/// What the spec asks for.
///
/// # Errors
/// When the object's own name is to be the topic's and is no topic name.
pub(super) fn validate(topic: &TelemetryTopic) -> Result<Wanted, StepError> {
    let TelemetryTopicSpec { kafka: _, topic_name, settings, deletion_policy: _, shared: _ } =
        &topic.spec;
    let TopicSettings { partitions, replication_factor, retention, settings } = settings;
    let name = match topic_name {
        Some(name) => name.clone(),
        None => topic.name_any().parse().map_err(|error| {
            StepError::new(Step::Validate, Category::Invalid, Reason::SpecInvalid, error)
        })?,
    };
    let mut settings = settings.clone();
    if let Some(retention) = retention {
        settings.insert("retention.ms".to_owned(), milliseconds(retention));
    }
    let times = || LOG_APPEND_TIME.to_owned();
    settings.entry(TIMESTAMP_TYPE.to_owned()).or_insert_with(times);
    Ok(Wanted { name, partitions: *partitions, replication_factor: *replication_factor, settings })
}

/// What a topic's object claims in Kafka.
pub(super) fn claim(topic: &TelemetryTopic) -> Option<Claim> {
    let name = validate(topic).ok()?.name;
    let servers = topic.spec.kafka.bootstrap_servers.iter();
    let thing = |server: &BootstrapServer| format!("topic {name} on {}", server.as_str());
    Some(Claim { things: servers.map(thing).collect(), shared: topic.spec.shared, advice: ADVICE })
}

/// The same as it is on record in Kafka.
pub(super) fn thing(topic: &TelemetryTopic, wanted: &Wanted, settings: Settings) -> Thing {
    let name = wanted.name.to_string();
    Thing {
        settings,
        place: Place::Topic(name.clone()),
        topics: vec![name],
        shared: topic.spec.shared,
        advice: ADVICE,
    }
}

fn milliseconds(period: &Period) -> String {
    period.seconds().saturating_mul(1_000).to_string()
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// What a spec, as the YAML a user writes, asks for: through the real step.
    pub(in crate::controllers::topic) fn wanted(spec: &str) -> Wanted {
        let text = format!(
            "apiVersion: millrace.dev/v1alpha1\nkind: TelemetryTopic\nmetadata: {{name: obj}}\n\
             spec: {{kafka: {{bootstrapServers: [k:9092]}}, {spec}}}"
        );
        validate(&serde_norway::from_str(&text).unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::wanted;

    /// Scenario: nothing but the connection. Guarantee: the object's name, the default partitions,
    /// messages dated by the brokers, and no opinion on the rest.
    #[test]
    fn what_is_not_said_is_left_to_the_broker() {
        let wanted = wanted("");
        assert_eq!(wanted.name.as_str(), "obj");
        assert_eq!(wanted.partitions, 12);
        assert_eq!(wanted.replication_factor, None);
        assert_eq!(wanted.settings.len(), 1);
        assert_eq!(wanted.settings["message.timestamp.type"], "LogAppendTime");
    }

    /// Scenario: a user who wants messages dated by who sent them. Guarantee: it stays so.
    #[test]
    fn whose_clock_dates_messages_can_be_said() {
        let wanted = wanted("topicName: t, settings: {message.timestamp.type: CreateTime}");
        assert_eq!(wanted.settings["message.timestamp.type"], "CreateTime");
    }

    /// Scenario: a retention beside other settings. Guarantee: it becomes Kafka's own setting.
    #[test]
    fn retention_is_told_in_milliseconds() {
        let wanted = wanted("topicName: t, retention: 6h, settings: {min.insync.replicas: '2'}");
        assert_eq!(wanted.settings["retention.ms"], "21600000");
        assert_eq!(wanted.settings["min.insync.replicas"], "2");
    }
}
