//! Observes, changes and deletes topics, many at a time, each with its own outcome.
//!
//! Kafka's older call for settings replaces all of a topic's settings, so foreign ones are read
//! first and written back. Partitions are added, never removed; a replication factor never changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigResource, ConfigResourceResult, ConfigSource,
    NewPartitions, NewTopic, OwnedResourceSpecifier, ResourceSpecifier, TopicReplication,
    TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};

use super::Deadline;
use super::connection::Settings;
use super::failure::Failure;
use super::native::Topic;
use super::probe::Link;
use super::questions::describe;
use super::records::{self, Entry, Place};

/// Longest wait for one admin request; creating a topic on a busy controller takes seconds.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Topics in one request.
const TOPICS_MAX: usize = 100;

/// Partitions and settings that one request may make. A controller writes each as a record and
/// refuses a request of more than 10,000 of them.
const RECORDS_MAX: usize = 5_000;

/// A topic as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSeen {
    /// It does not exist.
    Missing,
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
    /// Replaces all of its own settings by these.
    Set {
        /// All of the topic's own settings.
        own_settings: BTreeMap<String, String>,
    },
}

/// Something to do with a topic.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) topic: Arc<str>,
    pub(super) kind: JobKind,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum JobKind {
    Observe,
    /// Read what is on record.
    Recorded(Place),
    Change(TopicChange),
    /// Records; those about a group lie at the job's topic.
    Record {
        place: Place,
        text: String,
        at_millis: i64,
    },
    Delete,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Done {
    Seen(TopicSeen),
    Records(Vec<Entry>),
    Made,
}

/// Records are written after creations, before deletions.
const RECORD_ORDER: u8 = 4;

type Outcome = Result<Done, Failure>;
type Admin = AdminClient<DefaultClientContext>;

impl Job {
    pub(super) fn is_change(&self) -> bool {
        !matches!(self.kind, JobKind::Observe | JobKind::Recorded(_))
    }

    pub(super) fn is_about_records(&self) -> bool {
        matches!(self.kind, JobKind::Recorded(_) | JobKind::Record { .. })
    }

    /// A verb phrase naming the topic.
    pub(super) fn what(&self) -> String {
        let topic = &self.topic;
        let thing = |place: &Place| match place {
            Place::Topic(topic) => format!("topic {topic}"),
            Place::Group(group) => format!("consumer group {group}"),
        };
        match &self.kind {
            JobKind::Recorded(place) => format!("read who holds {}", thing(place)),
            JobKind::Record { place, .. } => format!("put on record who holds {}", thing(place)),
            JobKind::Observe => format!("describe topic {topic}"),
            JobKind::Delete => format!("delete topic {topic}"),
            JobKind::Change(TopicChange::Create { partitions, .. }) => {
                format!("create topic {topic} with {partitions} partitions")
            }
            JobKind::Change(TopicChange::Grow { partitions }) => {
                format!("grow topic {topic} to {partitions} partitions")
            }
            JobKind::Change(TopicChange::Set { .. }) => {
                format!("change the settings of topic {topic}")
            }
        }
    }

    /// The outcome of a request for this topic alone.
    fn outcome(&self, told: Option<&Result<(), Code>>) -> Outcome {
        let code = match told {
            Some(Ok(())) => return Ok(Done::Made),
            Some(Err(code)) => *code,
            None => Code::BadMessage,
        };
        let was_so = match &self.kind {
            // Another replica, or our own retry, was faster: the next read finds it.
            JobKind::Change(TopicChange::Create { .. }) => code == Code::TopicAlreadyExists,
            JobKind::Delete => matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic),
            _ => false,
        };
        if was_so { Ok(Done::Made) } else { Err(Failure::answered(&self.what(), code)) }
    }

    /// The order of changes; equal for changes of one kind.
    fn order(&self) -> u8 {
        match &self.kind {
            JobKind::Observe | JobKind::Recorded(_) => 0,
            JobKind::Change(TopicChange::Create { .. }) => 1,
            JobKind::Change(TopicChange::Grow { .. }) => 2,
            JobKind::Change(TopicChange::Set { .. }) => 3,
            JobKind::Record { .. } => RECORD_ORDER,
            JobKind::Delete => 5,
        }
    }

    /// About how many records it makes a controller write.
    fn records(&self) -> usize {
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

/// Does all of `jobs`; their outcomes in the same order. No two of them change one topic.
pub(super) fn work(
    link: &Link,
    settings: &Settings,
    jobs: &[Job],
    deadline: Deadline,
) -> Vec<Outcome> {
    let admin = match link.admin(settings) {
        Ok(admin) => admin,
        Err(failure) => return jobs.iter().map(|_| Err(failure.clone())).collect(),
    };
    let mut outcomes: HashMap<usize, Outcome> = HashMap::with_capacity(jobs.len());
    let changes = jobs.iter().enumerate().filter(|(_, job)| job.is_change());
    let mut kinds: BTreeMap<u8, Vec<Numbered<'_>>> = BTreeMap::new();
    for (number, job) in changes {
        kinds.entry(job.order()).or_default().push((number, job));
    }
    for (order, changes) in &kinds {
        if *order == RECORD_ORDER {
            outcomes.extend(records::write(link, changes, deadline));
            continue;
        }
        for batch in batches(changes) {
            outcomes.extend(change(admin, batch, deadline));
        }
    }
    let looks = jobs.iter().enumerate().filter(|(_, job)| !job.is_change());
    let (looks, recorded): (Vec<Numbered<'_>>, Vec<Numbered<'_>>) =
        looks.partition(|(_, job)| matches!(job.kind, JobKind::Observe));
    outcomes.extend(records::read(link, &recorded, deadline));
    outcomes.extend(observe(link, admin, looks, deadline));
    let mut outcome =
        |number| outcomes.remove(&number).unwrap_or_else(|| Err(Failure::interrupted()));
    (0..jobs.len()).map(&mut outcome).collect()
}

/// A job and its place among all.
type Numbered<'a> = (usize, &'a Job);

/// Cuts changes of one kind into requests that a controller takes.
fn batches<'a, 'b>(changes: &'b [Numbered<'a>]) -> Vec<&'b [Numbered<'a>]> {
    let mut batches = Vec::new();
    let (mut begin, mut records) = (0, 0usize);
    for (at, (_, job)) in changes.iter().enumerate() {
        let more = records.saturating_add(job.records());
        if at > begin && (at - begin >= TOPICS_MAX || more > RECORDS_MAX) {
            batches.push(&changes[begin..at]);
            (begin, records) = (at, job.records());
        } else {
            records = more;
        }
    }
    if begin < changes.len() {
        batches.push(&changes[begin..]);
    }
    batches
}

/// Makes changes of one kind by one request.
fn change(admin: &Admin, batch: &[Numbered<'_>], deadline: Deadline) -> Vec<(usize, Outcome)> {
    let told = request(admin, batch, &options(deadline));
    if let Err(KafkaError::AdminOpCreation(_) | KafkaError::Nul(_)) = &told
        && batch.len() > 1
    {
        // One of them can't be encoded; the others are unaffected.
        let alone = batch.chunks(1).flat_map(|one| change(admin, one, deadline));
        return alone.collect();
    }
    let outcome = |(number, job): &Numbered<'_>| {
        let outcome = match &told {
            Ok(told) => job.outcome(told.get(&*job.topic)),
            Err(error) => Err(Failure::call(&job.what(), error)),
        };
        (*number, outcome)
    };
    batch.iter().map(outcome).collect()
}

/// What became of each topic of a request.
type Told = KafkaResult<HashMap<String, Result<(), Code>>>;

/// Sends the request for `batch`, whose changes are all of one kind.
fn request(admin: &Admin, batch: &[Numbered<'_>], options: &AdminOptions) -> Told {
    let mut creations = Vec::new();
    let mut growths = Vec::new();
    let mut settings_set = Vec::new();
    let mut deletions: Vec<&str> = Vec::new();
    for (_, Job { topic, kind }) in batch {
        match kind {
            JobKind::Change(TopicChange::Create { partitions, replication_factor, settings }) => {
                let copies = TopicReplication::Fixed(replication_factor.map_or(-1, i32::from));
                let partitions = i32::try_from(*partitions).unwrap_or(i32::MAX);
                let new = NewTopic::new(topic, partitions, copies);
                creations
                    .push(settings.iter().fold(new, |new, (name, value)| new.set(name, value)));
            }
            JobKind::Change(TopicChange::Grow { partitions }) => {
                let count = usize::try_from(*partitions).unwrap_or(usize::MAX);
                growths.push(NewPartitions::new(topic, count));
            }
            JobKind::Change(TopicChange::Set { own_settings }) => {
                let alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
                let all = own_settings.iter();
                settings_set.push(all.fold(alter, |alter, (name, value)| alter.set(name, value)));
            }
            JobKind::Delete => deletions.push(topic),
            JobKind::Observe | JobKind::Recorded(_) | JobKind::Record { .. } => {}
        }
    }
    let mut told = Vec::new();
    if !creations.is_empty() {
        told.extend(block_on(admin.create_topics(&creations, options))?);
    }
    if !growths.is_empty() {
        told.extend(block_on(admin.create_partitions(&growths, options))?);
    }
    if !deletions.is_empty() {
        told.extend(block_on(admin.delete_topics(&deletions, options))?);
    }
    if !settings_set.is_empty() {
        let name = |resource| match resource {
            OwnedResourceSpecifier::Topic(name) => name,
            _ => String::new(),
        };
        let altered = block_on(admin.alter_configs(&settings_set, options))?;
        told.extend(altered.into_iter().map(|each| match each {
            Ok(resource) => Ok(name(resource)),
            Err((resource, code)) => Err((name(resource), code)),
        }));
    }
    let told = told.into_iter().map(|each: TopicResult| match each {
        Ok(name) => (name, Ok(())),
        Err((name, code)) => (name, Err(code)),
    });
    Ok(told.collect())
}

/// Observes topics: one request for their descriptions, one (per hundred) for their settings.
fn observe(
    link: &Link,
    admin: &Admin,
    looks: Vec<Numbered<'_>>,
    deadline: Deadline,
) -> Vec<(usize, Outcome)> {
    let described = describe(link, looks.iter().map(|(_, job)| &job.topic), deadline);
    let there = described.iter().filter_map(|(name, topic)| topic.is_ok().then_some(name));
    let there: Vec<&Arc<str>> = there.collect();
    let mut settings: HashMap<&str, TopicSettings> = HashMap::new();
    for names in there.chunks(TOPICS_MAX) {
        settings.extend(settings_of(admin, names, deadline));
    }
    let seen = |job: &Job| match described.get(&job.topic) {
        None | Some(Err(Code::UnknownTopicOrPartition | Code::UnknownTopic)) => {
            Ok(TopicSeen::Missing)
        }
        Some(Err(code)) => Err(Failure::answered(&job.what(), *code)),
        Some(Ok(topic)) => {
            let settings = settings.get(&*job.topic).cloned();
            let (settings, own_settings) = settings.unwrap_or(Err(Failure::interrupted()))?;
            Ok(found(topic, settings, own_settings))
        }
    };
    looks.iter().map(|(number, job)| (*number, seen(job).map(Done::Seen))).collect()
}

fn found(topic: &Topic, settings: TopicConfig, own_settings: TopicConfig) -> TopicSeen {
    let partitions = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    let copies = topic.partitions.iter().map(|partition| partition.copies).min();
    let replication_factor = u16::try_from(copies.unwrap_or(0)).unwrap_or(u16::MAX);
    TopicSeen::Found { partitions, replication_factor, settings, own_settings }
}

type TopicConfig = BTreeMap<String, String>;

/// Settings in effect, and those of the topic itself.
type TopicSettings = Result<(TopicConfig, TopicConfig), Failure>;

/// The settings of each topic.
fn settings_of<'a>(
    admin: &Admin,
    names: &[&'a Arc<str>],
    deadline: Deadline,
) -> Vec<(&'a str, TopicSettings)> {
    let what = |name: &str| format!("describe the settings of topic {name}");
    let resources: Vec<ResourceSpecifier<'_>> =
        names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    // Answers are in the order of the request.
    let answers = match block_on(admin.describe_configs(&resources, &options(deadline))) {
        Ok(answers) => answers,
        Err(error) => {
            let failed = |name: &&'a Arc<str>| (&***name, Err(Failure::call(&what(name), &error)));
            return names.iter().map(failed).collect();
        }
    };
    let read = |(name, answer): (&&'a Arc<str>, ConfigResourceResult)| {
        let settings =
            answer.map_err(|code| Failure::answered(&what(name), code)).and_then(|resource| {
                match &resource.specifier {
                    OwnedResourceSpecifier::Topic(told) if **told == ***name => Ok(split(resource)),
                    _ => Err(Failure::answered(&what(name), Code::BadMessage)),
                }
            });
        (&***name, settings)
    };
    names.iter().zip(answers).map(read).collect()
}

fn split(resource: ConfigResource) -> (TopicConfig, TopicConfig) {
    let (mut effective, mut own) = (BTreeMap::new(), BTreeMap::new());
    for entry in resource.entries {
        let Some(value) = entry.value else { continue };
        if entry.source == ConfigSource::DynamicTopic {
            own.insert(entry.name.clone(), value.clone());
        }
        effective.insert(entry.name, value);
    }
    (effective, own)
}

fn options(deadline: Deadline) -> AdminOptions {
    let limit = deadline.at_most(REQUEST_MAX);
    AdminOptions::new().request_timeout(Some(limit)).operation_timeout(Some(limit))
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/topics.rs"]
mod tests;
