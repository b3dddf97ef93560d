//! Observes, changes and deletes topics, many at a time, each with its own outcome.
//!
//! Kafka's older call for settings replaces all of a topic's settings, so foreign ones are read
//! first and written back. Partitions are added, never removed; a replication factor never changes.

pub(super) mod job;
pub(super) mod queue;
pub(super) mod records;

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
use super::client::connection::ConnectionSettings;
use super::client::native::Topic;
use super::client::probe::BrokerClient;
use super::client::requests::describe_topics;
use super::failure::Failure;
use super::topics::job::{
    JobKind, JobOutcome, JobOutput, RECORD_ORDER, TopicChange, TopicJob, TopicObservation,
};

/// Longest wait for one admin request; creating a topic on a busy controller takes seconds.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Maximum number of topics in one request.
const TOPICS_MAX: usize = 100;

/// Maximum number of partitions and settings that one request may create. A controller writes each
/// as a record and refuses a request of more than 10,000 of them.
const RECORDS_MAX: usize = 5_000;

type TopicAdmin = AdminClient<DefaultClientContext>;

/// Performs all `jobs`, and returns their outcomes in the same order. No two of them change one
/// topic.
pub(super) fn run_jobs(
    link: &BrokerClient,
    settings: &ConnectionSettings,
    jobs: &[TopicJob],
    deadline: Deadline,
) -> Vec<JobOutcome> {
    let admin = match link.admin_client(settings) {
        Ok(admin) => admin,
        Err(failure) => return jobs.iter().map(|_| Err(failure.clone())).collect(),
    };
    let mut outcomes: HashMap<usize, JobOutcome> = HashMap::with_capacity(jobs.len());
    let changes = jobs.iter().enumerate().filter(|(_, job)| job.is_change());
    let mut kinds: BTreeMap<u8, Vec<Numbered<'_>>> = BTreeMap::new();
    for (number, job) in changes {
        kinds.entry(job.change_order()).or_default().push((number, job));
    }
    for (order, changes) in &kinds {
        if *order == RECORD_ORDER {
            outcomes.extend(records::write_records(link, changes, deadline));
            continue;
        }
        for batch in split_batches(changes) {
            outcomes.extend(apply_changes(admin, batch, deadline));
        }
    }
    let reads = jobs.iter().enumerate().filter(|(_, job)| !job.is_change());
    let (reads, recorded): (Vec<Numbered<'_>>, Vec<Numbered<'_>>) =
        reads.partition(|(_, job)| matches!(job.kind, JobKind::Observe));
    outcomes.extend(records::read_records(link, &recorded, deadline));
    outcomes.extend(observe_topics(link, admin, reads, deadline));
    let mut outcome =
        |number| outcomes.remove(&number).unwrap_or_else(|| Err(Failure::interrupted()));
    (0..jobs.len()).map(&mut outcome).collect()
}

/// A job and its index among all.
type Numbered<'a> = (usize, &'a TopicJob);

/// Splits changes of one kind into requests that a controller accepts.
fn split_batches<'a, 'b>(changes: &'b [Numbered<'a>]) -> Vec<&'b [Numbered<'a>]> {
    let mut batches = Vec::new();
    let (mut begin, mut records) = (0, 0usize);
    for (at, (_, job)) in changes.iter().enumerate() {
        let more = records.saturating_add(job.record_count());
        if at > begin && (at - begin >= TOPICS_MAX || more > RECORDS_MAX) {
            batches.push(&changes[begin..at]);
            (begin, records) = (at, job.record_count());
        } else {
            records = more;
        }
    }
    if begin < changes.len() {
        batches.push(&changes[begin..]);
    }
    batches
}

/// Applies changes of one kind in one request.
fn apply_changes(
    admin: &TopicAdmin,
    batch: &[Numbered<'_>],
    deadline: Deadline,
) -> Vec<(usize, JobOutcome)> {
    let results = send_request(admin, batch, &admin_options(deadline));
    if let Err(KafkaError::AdminOpCreation(_) | KafkaError::Nul(_)) = &results
        && batch.len() > 1
    {
        // One of them can't be encoded; the others are unaffected.
        let alone = batch.chunks(1).flat_map(|one| apply_changes(admin, one, deadline));
        return alone.collect();
    }
    let outcome = |(number, job): &Numbered<'_>| {
        let outcome = match &results {
            Ok(results) => job.outcome_of(results.get(&*job.topic)),
            Err(error) => Err(Failure::from_error(&job.describe_action(), error)),
        };
        (*number, outcome)
    };
    batch.iter().map(outcome).collect()
}

/// The outcome for each topic of a request.
type TopicResults = KafkaResult<HashMap<String, Result<(), Code>>>;

/// Sends the request for `batch`, whose changes are all of one kind.
fn send_request(
    admin: &TopicAdmin,
    batch: &[Numbered<'_>],
    options: &AdminOptions,
) -> TopicResults {
    let mut creations = Vec::new();
    let mut growths = Vec::new();
    let mut settings_set = Vec::new();
    let mut deletions: Vec<&str> = Vec::new();
    for (_, TopicJob { topic, kind }) in batch {
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
            JobKind::Observe | JobKind::ReadRecords(_) | JobKind::Record { .. } => {}
        }
    }
    let mut results = Vec::new();
    if !creations.is_empty() {
        results.extend(block_on(admin.create_topics(&creations, options))?);
    }
    if !growths.is_empty() {
        results.extend(block_on(admin.create_partitions(&growths, options))?);
    }
    if !deletions.is_empty() {
        results.extend(block_on(admin.delete_topics(&deletions, options))?);
    }
    if !settings_set.is_empty() {
        let name = |resource| match resource {
            OwnedResourceSpecifier::Topic(name) => name,
            _ => String::new(),
        };
        let altered = block_on(admin.alter_configs(&settings_set, options))?;
        results.extend(altered.into_iter().map(|each| match each {
            Ok(resource) => Ok(name(resource)),
            Err((resource, code)) => Err((name(resource), code)),
        }));
    }
    let results = results.into_iter().map(|each: TopicResult| match each {
        Ok(name) => (name, Ok(())),
        Err((name, code)) => (name, Err(code)),
    });
    Ok(results.collect())
}

/// Observes topics: one request for their descriptions, one (per hundred) for their settings.
fn observe_topics(
    link: &BrokerClient,
    admin: &TopicAdmin,
    reads: Vec<Numbered<'_>>,
    deadline: Deadline,
) -> Vec<(usize, JobOutcome)> {
    let described = describe_topics(link, reads.iter().map(|(_, job)| &job.topic), deadline);
    let there = described.iter().filter_map(|(name, topic)| topic.is_ok().then_some(name));
    let there: Vec<&Arc<str>> = there.collect();
    let mut settings: HashMap<&str, TopicConfigs> = HashMap::new();
    for names in there.chunks(TOPICS_MAX) {
        settings.extend(settings_of(admin, names, deadline));
    }
    let observation_of = |job: &TopicJob| match described.get(&job.topic) {
        None | Some(Err(Code::UnknownTopicOrPartition | Code::UnknownTopic)) => {
            Ok(TopicObservation::Missing)
        }
        Some(Err(code)) => Err(Failure::from_code(&job.describe_action(), *code)),
        Some(Ok(topic)) => {
            let settings = settings.get(&*job.topic).cloned();
            let (settings, own_settings) = settings.unwrap_or(Err(Failure::interrupted()))?;
            Ok(build_observation(topic, settings, own_settings))
        }
    };
    reads
        .iter()
        .map(|(number, job)| (*number, observation_of(job).map(JobOutput::Observed)))
        .collect()
}

fn build_observation(
    topic: &Topic,
    settings: TopicConfig,
    own_settings: TopicConfig,
) -> TopicObservation {
    let partitions = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    let copies = topic.partitions.iter().map(|partition| partition.copies).min();
    let replication_factor = u16::try_from(copies.unwrap_or(0)).unwrap_or(u16::MAX);
    TopicObservation::Exists { partitions, replication_factor, settings, own_settings }
}

type TopicConfig = BTreeMap<String, String>;

/// The settings in effect, and those of the topic itself.
type TopicConfigs = Result<(TopicConfig, TopicConfig), Failure>;

fn settings_of<'a>(
    admin: &TopicAdmin,
    names: &[&'a Arc<str>],
    deadline: Deadline,
) -> Vec<(&'a str, TopicConfigs)> {
    let what = |name: &str| format!("describe the settings of topic {name}");
    let resources: Vec<ResourceSpecifier<'_>> =
        names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    // Responses are in the order of the request.
    let answers = match block_on(admin.describe_configs(&resources, &admin_options(deadline))) {
        Ok(answers) => answers,
        Err(error) => {
            let failed =
                |name: &&'a Arc<str>| (&***name, Err(Failure::from_error(&what(name), &error)));
            return names.iter().map(failed).collect();
        }
    };
    let read = |(name, answer): (&&'a Arc<str>, ConfigResourceResult)| {
        let settings =
            answer.map_err(|code| Failure::from_code(&what(name), code)).and_then(|resource| {
                match &resource.specifier {
                    OwnedResourceSpecifier::Topic(topic) if **topic == ***name => {
                        Ok(split_settings(resource))
                    }
                    _ => Err(Failure::from_code(&what(name), Code::BadMessage)),
                }
            });
        (&***name, settings)
    };
    names.iter().zip(answers).map(read).collect()
}

fn split_settings(resource: ConfigResource) -> (TopicConfig, TopicConfig) {
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

fn admin_options(deadline: Deadline) -> AdminOptions {
    let limit = deadline.at_most(REQUEST_MAX);
    AdminOptions::new().request_timeout(Some(limit)).operation_timeout(Some(limit))
}

#[cfg(test)]
mod tests;
