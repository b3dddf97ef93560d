//! Topics: observe one, change one, delete one.
//!
//! Kafka's older call for changing settings replaces all of a topic's own settings, so those that
//! are not ours are read first and written back. Partitions are added, never removed; a replication
//! factor is never changed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::executor::block_on;
use millrace_crds::Reason;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewPartitions, NewTopic,
    ResourceSpecifier, TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::MetadataTopic;

use super::connection::Settings;
use super::failure::Failure;
use super::probe::reach;
use super::{Deadline, converse};

/// Group of the client that only asks for metadata; it never joins.
const ADMIN_GROUP: &str = "millrace-operator";

/// Longest wait for one admin request; creating a topic on a busy controller takes seconds.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// A topic as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSeen {
    /// It does not exist.
    Missing {
        /// Brokers of the cluster: the most copies a partition can have.
        brokers: usize,
    },
    /// It exists.
    Found {
        /// Its partitions.
        partitions: u32,
        /// Copies of the partition that has the fewest.
        replication_factor: u16,
        /// Settings in effect, whatever their source.
        settings: BTreeMap<String, String>,
        /// Those set on the topic itself.
        own_settings: BTreeMap<String, String>,
    },
}

/// One change of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// Make it.
    Create {
        /// Its partitions.
        partitions: u32,
        /// Copies of each; `None`: the broker's default.
        replication_factor: Option<u16>,
        /// Its settings.
        settings: BTreeMap<String, String>,
    },
    /// Give it more partitions.
    Grow {
        /// How many it shall have.
        partitions: u32,
    },
    /// Replace its own settings by these: all of them, also those left alone.
    Set {
        /// Every setting the topic shall have of its own.
        own_settings: BTreeMap<String, String>,
    },
}

/// Observes a topic.
///
/// # Errors
/// When Kafka can't be reached or refuses.
pub async fn observe_topic(settings: Settings, topic: String) -> Result<TopicSeen, Failure> {
    converse(move |deadline| observe_now(&settings, &topic, deadline)).await
}

/// Makes one change of a topic. Made twice, it does no harm.
///
/// # Errors
/// When Kafka can't be reached or refuses.
pub async fn change_topic(
    settings: Settings,
    topic: String,
    change: TopicChange,
) -> Result<(), Failure> {
    converse(move |deadline| change_now(&settings, &topic, &change, deadline)).await
}

/// Deletes a topic with all its records. A topic that is gone already is fine.
///
/// # Errors
/// When Kafka can't be reached or refuses.
pub async fn delete_topic(settings: Settings, topic: String) -> Result<(), Failure> {
    converse(move |deadline| {
        // Finds out quickly, and why, if nobody can be reached.
        reach(&settings, ADMIN_GROUP, &topic, deadline)?;
        let admin = admin(&settings)?;
        let what = format!("delete topic {topic}");
        let outcome = block_on(admin.delete_topics(&[&topic], &options(deadline)));
        let outcome = outcome.map_err(|error| Failure::call(&what, &error))?;
        accept(&what, &outcome, RDKafkaErrorCode::UnknownTopicOrPartition)
    })
    .await
}

fn observe_now(settings: &Settings, topic: &str, deadline: Deadline) -> Result<TopicSeen, Failure> {
    let reached = reach(settings, ADMIN_GROUP, topic, deadline)?;
    let found = reached.metadata.topics().iter().find(|each| each.name() == topic);
    let Some(found) = exists(topic, found)? else {
        return Ok(TopicSeen::Missing { brokers: reached.metadata.brokers().len() });
    };
    let partitions = u32::try_from(found.partitions().len()).unwrap_or(u32::MAX);
    let copies = found.partitions().iter().map(|partition| partition.replicas().len()).min();
    let replication_factor = u16::try_from(copies.unwrap_or(0)).unwrap_or(u16::MAX);
    let (settings, own_settings) = settings_of(settings, topic, deadline)?;
    Ok(TopicSeen::Found { partitions, replication_factor, settings, own_settings })
}

/// The topic's metadata, unless it does not exist.
fn exists<'a>(
    topic: &str,
    found: Option<&'a MetadataTopic>,
) -> Result<Option<&'a MetadataTopic>, Failure> {
    let Some(found) = found else { return Ok(None) };
    match found.error().map(RDKafkaErrorCode::from) {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Ok(None)
        }
        // Just made: no leader yet, but the partitions are there.
        Some(RDKafkaErrorCode::LeaderNotAvailable) if !found.partitions().is_empty() => {
            Ok(Some(found))
        }
        Some(code) => Err(Failure::answered(&format!("describe topic {topic}"), code)),
        None => Ok(Some(found)),
    }
}

type TopicConfig = BTreeMap<String, String>;

/// Settings in effect, and those of the topic itself.
fn settings_of(
    settings: &Settings,
    topic: &str,
    deadline: Deadline,
) -> Result<(TopicConfig, TopicConfig), Failure> {
    let what = format!("describe the settings of topic {topic}");
    let admin = admin(settings)?;
    let resource = ResourceSpecifier::Topic(topic);
    let outcome = block_on(admin.describe_configs(&[resource], &options(deadline)));
    let resources = outcome.map_err(|error| Failure::call(&what, &error))?;
    let (mut effective, mut own) = (BTreeMap::new(), BTreeMap::new());
    for resource in resources {
        let resource = resource.map_err(|code| Failure::answered(&what, code))?;
        for entry in resource.entries {
            let Some(value) = entry.value else { continue };
            if entry.source == ConfigSource::DynamicTopic {
                own.insert(entry.name.clone(), value.clone());
            }
            effective.insert(entry.name, value);
        }
    }
    Ok((effective, own))
}

fn change_now(
    settings: &Settings,
    topic: &str,
    change: &TopicChange,
    deadline: Deadline,
) -> Result<(), Failure> {
    let admin = admin(settings)?;
    let options = options(deadline);
    match change {
        TopicChange::Create { partitions, replication_factor, settings } => {
            let what = format!("create topic {topic} with {partitions} partitions");
            let copies = replication_factor.map_or(-1, i32::from);
            let partitions = i32::try_from(*partitions).unwrap_or(i32::MAX);
            let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(copies));
            for (name, value) in settings {
                new = new.set(name, value);
            }
            let outcome = block_on(admin.create_topics(&[new], &options));
            let outcome = outcome.map_err(|error| Failure::call(&what, &error))?;
            // Another replica, or a retry of ours, was faster: the next look finds it.
            accept(&what, &outcome, RDKafkaErrorCode::TopicAlreadyExists)
        }
        TopicChange::Grow { partitions } => {
            let what = format!("grow topic {topic} to {partitions} partitions");
            let count = usize::try_from(*partitions).unwrap_or(usize::MAX);
            let more = NewPartitions::new(topic, count);
            let outcome = block_on(admin.create_partitions(&[more], &options));
            let outcome = outcome.map_err(|error| Failure::call(&what, &error))?;
            accept(&what, &outcome, RDKafkaErrorCode::NoError)
        }
        TopicChange::Set { own_settings } => {
            let what = format!("change the settings of topic {topic}");
            let mut alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
            for (name, value) in own_settings {
                alter = alter.set(name, value);
            }
            let outcome = block_on(admin.alter_configs(&[alter], &options));
            let outcome = outcome.map_err(|error| Failure::call(&what, &error))?;
            match outcome.into_iter().find_map(Result::err) {
                Some((_, code)) => Err(Failure::answered(&what, code)),
                None => Ok(()),
            }
        }
    }
}

/// Takes the answers of topic requests; `fine` is an error that means it was so already.
fn accept(what: &str, outcome: &[TopicResult], fine: RDKafkaErrorCode) -> Result<(), Failure> {
    let refused = outcome.iter().filter_map(|each| each.as_ref().err());
    match refused.map(|(_, code)| *code).find(|code| *code != fine) {
        Some(code) => Err(Failure::answered(what, code)),
        None => Ok(()),
    }
}

fn admin(settings: &Settings) -> Result<AdminClient<DefaultClientContext>, Failure> {
    settings.client_config().create().map_err(|error| {
        Failure::new(Reason::SpecInvalid, format!("unusable Kafka connection: {error}"))
    })
}

fn options(deadline: Deadline) -> AdminOptions {
    let limit = deadline.at_most(REQUEST_MAX);
    AdminOptions::new().request_timeout(Some(limit)).operation_timeout(Some(limit))
}
