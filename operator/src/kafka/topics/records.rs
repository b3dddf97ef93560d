//! Records of the holders of topics and consumer groups, in Kafka: the metadata of a commit for
//! partition 0, by a group that has no members.
//!
//! A topic's record is the commit of the group [`HOLDERS_GROUP`], deleted with the topic. A
//! consumer group has its own record group, since its holder may change topics: a record there
//! counts under any topic. Kafka drops a record that is not renewed within
//! `offsets.retention.minutes` (seven days by default). The content belongs to the caller; its
//! limit is that of a commit's metadata (4,096 bytes by default).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdkafka::error::RDKafkaErrorCode as Code;

use super::job::{HolderRecord, JobKind, JobOutcome, JobOutput, KafkaResource, TopicJob};
use crate::kafka::Deadline;
use crate::kafka::client::native::{
    AdminRequest, AdminResponse, Commit, PARTITIONS_MAX, TopicPartition,
};
use crate::kafka::client::probe::BrokerClient;
use crate::kafka::client::requests::send_requests;
use crate::kafka::failure::Failure;

/// The group whose commits record the holders of topics; with a dot and a group's name appended,
/// the holder of that group.
pub const HOLDERS_GROUP: &str = "millrace-holders";

impl KafkaResource {
    /// Returns the group whose commits are the records.
    fn holders_group(&self) -> String {
        match self {
            Self::Topic(_) => HOLDERS_GROUP.to_owned(),
            Self::Group(group) => format!("{HOLDERS_GROUP}.{group}"),
        }
    }
}

/// A job about records and its index among all jobs.
type Numbered<'a> = (usize, &'a TopicJob);

/// Reads records: those of topics in one request, each group's in its own.
pub(in crate::kafka) fn read_records(
    link: &BrokerClient,
    reads: &[Numbered<'_>],
    deadline: Deadline,
) -> Vec<(usize, JobOutcome)> {
    let mut questions = Vec::new();
    let (mut of_topics, mut of_groups) = (Vec::new(), Vec::new());
    for (number, job) in reads {
        match &job.kind {
            JobKind::ReadRecords(KafkaResource::Topic(_)) => of_topics.push((*number, *job)),
            JobKind::ReadRecords(resource) => {
                of_groups.push((*number, *job));
                questions.push(AdminRequest::Commits {
                    group: resource.holders_group(),
                    partitions: Vec::new(),
                });
            }
            _ => {}
        }
    }
    for chunk in of_topics.chunks(PARTITIONS_MAX) {
        let mut partitions: Vec<TopicPartition> =
            chunk.iter().map(|(_, job)| (job.topic.clone(), 0)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        questions.push(AdminRequest::Commits { group: HOLDERS_GROUP.to_owned(), partitions });
    }
    let mut answers = send_requests(link, &questions, deadline).into_iter();
    let mut outcomes: Vec<(usize, JobOutcome)> = of_groups
        .iter()
        .zip(answers.by_ref())
        .map(|((number, job), answer)| {
            let all = parse_commits(job, answer).and_then(|all| all.into_values().collect());
            (
                *number,
                all.map(|all: Vec<_>| all.into_iter().flatten().collect()).map(JobOutput::Records),
            )
        })
        .collect();
    for (chunk, answer) in of_topics.chunks(PARTITIONS_MAX).zip(answers) {
        for (number, job) in chunk {
            // A missing topic in the response does not affect the others.
            let response = answer.as_ref().map_err(|code| *code);
            let found = response.map_err(|code| job_failure(job, code)).and_then(|answer| {
                let AdminResponse::Commits(commits) = answer else {
                    return Err(job_failure(job, Code::BadMessage));
                };
                let own = commits.iter().find(|(partition, _)| partition.0 == job.topic);
                let (partition, commit) = own.ok_or_else(|| job_failure(job, Code::BadMessage))?;
                parse_record(job, partition, commit.clone())
            });
            outcomes.push((*number, found.map(|it| JobOutput::Records(it.into_iter().collect()))));
        }
    }
    outcomes
}

/// Writes records: those of one group in one request.
pub(super) fn write_records(
    link: &BrokerClient,
    changes: &[Numbered<'_>],
    deadline: Deadline,
) -> Vec<(usize, JobOutcome)> {
    let mut groups: BTreeMap<String, Vec<Numbered<'_>>> = BTreeMap::new();
    for (number, job) in changes {
        if let JobKind::Record { resource, .. } = &job.kind {
            groups.entry(resource.holders_group()).or_default().push((*number, *job));
        }
    }
    let question = |(group, jobs): (&String, &Vec<Numbered<'_>>)| {
        let commits = jobs.iter().filter_map(|(_, job)| match &job.kind {
            JobKind::Record { text, at_millis, .. } => {
                let commit = Commit { offset: (*at_millis).max(0), metadata: text.clone() };
                Some(((job.topic.clone(), 0), commit))
            }
            _ => None,
        });
        AdminRequest::Commit { group: group.clone(), commits: commits.collect() }
    };
    let questions: Vec<AdminRequest> = groups.iter().map(question).collect();
    let answers = send_requests(link, &questions, deadline);
    let mut outcomes = Vec::with_capacity(changes.len());
    for (jobs, answer) in groups.values().zip(answers) {
        let results: Result<HashMap<Arc<str>, Result<(), Code>>, Code> = match answer {
            Ok(AdminResponse::Commit(results)) => {
                Ok(results.into_iter().map(|((topic, _), result)| (topic, result)).collect())
            }
            Ok(_) => Err(Code::BadMessage),
            Err(code) => Err(code),
        };
        for (number, job) in jobs {
            let own = |results: &HashMap<Arc<str>, Result<(), Code>>| {
                results.get(&job.topic).copied().unwrap_or(Err(Code::BadMessage))
            };
            let result = results.as_ref().map_err(|code| *code).and_then(own);
            outcomes.push((
                *number,
                result.map(|()| JobOutput::Made).map_err(|code| job_failure(job, code)),
            ));
        }
    }
    outcomes
}

type RecordResult = Result<Option<HolderRecord>, Failure>;

fn parse_commits(
    job: &TopicJob,
    answer: Result<AdminResponse, Code>,
) -> Result<BTreeMap<Arc<str>, RecordResult>, Failure> {
    match answer {
        Ok(AdminResponse::Commits(commits)) => Ok(commits
            .into_iter()
            .map(|(partition, commit)| (partition.0.clone(), parse_record(job, &partition, commit)))
            .collect()),
        Ok(_) => Err(job_failure(job, Code::BadMessage)),
        Err(code) => Err(job_failure(job, code)),
    }
}

fn parse_record(
    job: &TopicJob,
    partition: &TopicPartition,
    commit: Result<Option<Commit>, Code>,
) -> RecordResult {
    match commit {
        Ok(commit) => Ok(commit.map(|Commit { offset, metadata }| HolderRecord {
            topic: partition.0.to_string(),
            text: metadata,
            at_millis: offset,
        })),
        // A topic that does not exist has no record.
        Err(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            Ok(None)
        }
        Err(code) => Err(job_failure(job, code)),
    }
}

fn job_failure(job: &TopicJob, code: Code) -> Failure {
    Failure::from_code(&job.describe_action(), code)
}
