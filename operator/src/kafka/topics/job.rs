//! Jobs on topics and on the records of their holders, and their outcomes. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_reports::units::format_plural;
use rdkafka::error::RDKafkaErrorCode as Code;

use crate::kafka::failure::Failure;

/// The observed state of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicObservation {
    /// It does not exist.
    Missing,
    /// It exists.
    Exists {
        /// The number of partitions.
        partitions: u32,
        /// The replicas of the partition that has the fewest.
        replication_factor: u16,
        /// The settings in effect, whatever their source.
        settings: BTreeMap<String, String>,
        /// The settings of the topic itself.
        own_settings: BTreeMap<String, String>,
    },
}

/// One change of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// Creates the topic.
    Create {
        /// The number of partitions.
        partitions: u32,
        /// The replicas of each; `None`: the broker's default.
        replication_factor: Option<u16>,
        /// The topic's settings.
        settings: BTreeMap<String, String>,
    },
    /// Adds partitions.
    Grow {
        /// The new total number of partitions.
        partitions: u32,
    },
    /// Replaces all of the topic's own settings.
    Set {
        /// All of the topic's own settings.
        own_settings: BTreeMap<String, String>,
    },
}

/// A job on a topic.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct TopicJob {
    pub(in crate::kafka) topic: Arc<str>,
    pub(in crate::kafka) kind: JobKind,
}

#[derive(Clone, Debug)]
pub(in crate::kafka) enum JobKind {
    Observe,
    /// Reads the records of holders.
    ReadRecords(KafkaResource),
    Change(TopicChange),
    /// Writes a record of a holder; those about a group are stored at the job's topic.
    Record {
        resource: KafkaResource,
        text: String,
        at_millis: i64,
    },
    Delete,
}

#[derive(Clone, Debug)]
pub(in crate::kafka) enum JobOutput {
    Observed(TopicObservation),
    Records(Vec<HolderRecord>),
    Made,
}

/// The subject of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KafkaResource {
    /// A topic.
    Topic(String),
    /// A consumer group.
    Group(String),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderRecord {
    /// The topic of the commit that stores it.
    pub topic: String,
    /// The content.
    pub text: String,
    /// When it was written, by its writer's clock. This is the commit's offset: past the end of any
    /// partition, so lag monitors report none.
    pub at_millis: i64,
}

/// Records are written after creations, before deletions.
pub(super) const RECORD_ORDER: u8 = 4;

pub(in crate::kafka) type JobOutcome = Result<JobOutput, Failure>;

impl TopicJob {
    pub(super) fn is_change(&self) -> bool {
        !matches!(self.kind, JobKind::Observe | JobKind::ReadRecords(_))
    }

    pub(super) fn is_about_records(&self) -> bool {
        matches!(self.kind, JobKind::ReadRecords(_) | JobKind::Record { .. })
    }

    /// Returns a verb phrase that names the topic.
    pub(super) fn describe_action(&self) -> String {
        let topic = &self.topic;
        let thing = |resource: &KafkaResource| match resource {
            KafkaResource::Topic(topic) => format!("topic {topic}"),
            KafkaResource::Group(group) => format!("consumer group {group}"),
        };
        match &self.kind {
            JobKind::ReadRecords(resource) => format!("read the holder of {}", thing(resource)),
            JobKind::Record { resource, .. } => {
                format!("record the holder of {}", thing(resource))
            }
            JobKind::Observe => format!("describe topic {topic}"),
            JobKind::Delete => format!("delete topic {topic}"),
            JobKind::Change(TopicChange::Create { partitions, .. }) => {
                format!("create topic {topic} with {}", format_plural(*partitions, "partition"))
            }
            JobKind::Change(TopicChange::Grow { partitions }) => {
                format!("grow topic {topic} to {}", format_plural(*partitions, "partition"))
            }
            JobKind::Change(TopicChange::Set { .. }) => {
                format!("change the settings of topic {topic}")
            }
        }
    }

    /// Returns the outcome for this topic from the response to its request.
    pub(super) fn outcome_of(&self, result: Option<&Result<(), Code>>) -> JobOutcome {
        let code = match result {
            Some(Ok(())) => return Ok(JobOutput::Made),
            Some(Err(code)) => *code,
            None => Code::BadMessage,
        };
        let was_so = match &self.kind {
            // Another replica, or our own retry, was faster: the next read finds it.
            JobKind::Change(TopicChange::Create { .. }) => code == Code::TopicAlreadyExists,
            JobKind::Delete => matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic),
            _ => false,
        };
        if was_so {
            Ok(JobOutput::Made)
        } else {
            Err(Failure::from_code(&self.describe_action(), code))
        }
    }

    /// Returns the order of changes; equal for changes of one kind.
    pub(super) fn change_order(&self) -> u8 {
        match &self.kind {
            JobKind::Observe | JobKind::ReadRecords(_) => 0,
            JobKind::Change(TopicChange::Create { .. }) => 1,
            JobKind::Change(TopicChange::Grow { .. }) => 2,
            JobKind::Change(TopicChange::Set { .. }) => 3,
            JobKind::Record { .. } => RECORD_ORDER,
            JobKind::Delete => 5,
        }
    }

    /// Estimates how many records the controller writes for the job.
    pub(in crate::kafka) fn record_count(&self) -> usize {
        match &self.kind {
            JobKind::Change(TopicChange::Create { partitions, settings, .. }) => {
                1 + usize::try_from(*partitions).unwrap_or(usize::MAX / 2) + settings.len()
            }
            JobKind::Change(TopicChange::Grow { partitions }) => {
                usize::try_from(*partitions).unwrap_or(usize::MAX / 2)
            }
            _ => 1,
        }
    }
}
