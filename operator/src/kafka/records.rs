//! Records of who holds a topic or a consumer group, kept in Kafka: the metadata of a commit for
//! partition 0, by a group that has no members.
//!
//! A topic's record is the commit of the group [`HOLDERS_GROUP`], deleted with the topic. A
//! consumer group has its own record group, since its holder may change topics: a record there
//! counts under any topic. Kafka drops a record that is not renewed within
//! `offsets.retention.minutes` (seven days by default). The content belongs to the caller; it is at
//! most as long as a commit's metadata (4,096 bytes by default).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdkafka::error::RDKafkaErrorCode as Code;

use super::Deadline;
use super::failure::Failure;
use super::native::{Answer, Commit, PARTITIONS_MAX, Partition, Question};
use super::probe::Link;
use super::questions::ask;
use super::topics::{Done, Job, JobKind};

/// The group whose commits record who holds topics; with a dot and a group's name appended, who
/// holds that group.
pub const HOLDERS_GROUP: &str = "millrace-holders";

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A topic.
    Topic(String),
    /// A consumer group.
    Group(String),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The topic it lies at.
    pub topic: String,
    /// What it says.
    pub text: String,
    /// When it was written, by its writer's clock. This is the commit's offset: past the end of any
    /// partition, so lag monitors see none.
    pub at_millis: i64,
}

impl Place {
    /// The group whose commits are the records.
    fn group(&self) -> String {
        match self {
            Self::Topic(_) => HOLDERS_GROUP.to_owned(),
            Self::Group(group) => format!("{HOLDERS_GROUP}.{group}"),
        }
    }
}

/// A job about records and its index among all jobs.
type Numbered<'a> = (usize, &'a Job);
type Outcome = Result<Done, Failure>;

/// Reads records: those of topics in one request, each group's in its own.
pub(super) fn read(
    link: &Link,
    looks: &[Numbered<'_>],
    deadline: Deadline,
) -> Vec<(usize, Outcome)> {
    let mut questions = Vec::new();
    let (mut of_topics, mut of_groups) = (Vec::new(), Vec::new());
    for (number, job) in looks {
        match &job.kind {
            JobKind::Recorded(Place::Topic(_)) => of_topics.push((*number, *job)),
            JobKind::Recorded(place) => {
                of_groups.push((*number, *job));
                questions.push(Question::Commits { group: place.group(), partitions: Vec::new() });
            }
            _ => {}
        }
    }
    for chunk in of_topics.chunks(PARTITIONS_MAX) {
        let mut partitions: Vec<Partition> =
            chunk.iter().map(|(_, job)| (job.topic.clone(), 0)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        questions.push(Question::Commits { group: HOLDERS_GROUP.to_owned(), partitions });
    }
    let mut answers = ask(link, &questions, deadline).into_iter();
    let mut outcomes: Vec<(usize, Outcome)> = of_groups
        .iter()
        .zip(answers.by_ref())
        .map(|((number, job), answer)| {
            let all = commits(job, answer).and_then(|all| all.into_values().collect());
            (*number, all.map(|all: Vec<_>| all.into_iter().flatten().collect()).map(Done::Records))
        })
        .collect();
    for (chunk, answer) in of_topics.chunks(PARTITIONS_MAX).zip(answers) {
        for (number, job) in chunk {
            // A topic without an answer says nothing about the others.
            let told = answer.as_ref().map_err(|code| *code);
            let found = told.map_err(|code| failed(job, code)).and_then(|answer| {
                let Answer::Commits(told) = answer else {
                    return Err(failed(job, Code::BadMessage));
                };
                let own = told.iter().find(|(partition, _)| partition.0 == job.topic);
                let (partition, commit) = own.ok_or_else(|| failed(job, Code::BadMessage))?;
                entry(job, partition, commit.clone())
            });
            outcomes.push((*number, found.map(|it| Done::Records(it.into_iter().collect()))));
        }
    }
    outcomes
}

/// Writes records: those of one group in one request.
pub(super) fn write(
    link: &Link,
    changes: &[Numbered<'_>],
    deadline: Deadline,
) -> Vec<(usize, Outcome)> {
    let mut groups: BTreeMap<String, Vec<Numbered<'_>>> = BTreeMap::new();
    for (number, job) in changes {
        if let JobKind::Record { place, .. } = &job.kind {
            groups.entry(place.group()).or_default().push((*number, *job));
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
        Question::Commit { group: group.clone(), commits: commits.collect() }
    };
    let questions: Vec<Question> = groups.iter().map(question).collect();
    let answers = ask(link, &questions, deadline);
    let mut outcomes = Vec::with_capacity(changes.len());
    for (jobs, answer) in groups.values().zip(answers) {
        let told: Result<HashMap<Arc<str>, Result<(), Code>>, Code> = match answer {
            Ok(Answer::Commit(told)) => {
                Ok(told.into_iter().map(|((topic, _), told)| (topic, told)).collect())
            }
            Ok(_) => Err(Code::BadMessage),
            Err(code) => Err(code),
        };
        for (number, job) in jobs {
            let own = |told: &HashMap<Arc<str>, Result<(), Code>>| {
                told.get(&job.topic).copied().unwrap_or(Err(Code::BadMessage))
            };
            let told = told.as_ref().map_err(|code| *code).and_then(own);
            outcomes.push((*number, told.map(|()| Done::Made).map_err(|code| failed(job, code))));
        }
    }
    outcomes
}

type Found = Result<Option<Entry>, Failure>;

/// A group's records by topic.
fn commits(job: &Job, answer: Result<Answer, Code>) -> Result<BTreeMap<Arc<str>, Found>, Failure> {
    match answer {
        Ok(Answer::Commits(told)) => Ok(told
            .into_iter()
            .map(|(partition, commit)| (partition.0.clone(), entry(job, &partition, commit)))
            .collect()),
        Ok(_) => Err(failed(job, Code::BadMessage)),
        Err(code) => Err(failed(job, code)),
    }
}

fn entry(job: &Job, partition: &Partition, commit: Result<Option<Commit>, Code>) -> Found {
    match commit {
        Ok(commit) => Ok(commit.map(|Commit { offset, metadata }| Entry {
            topic: partition.0.to_string(),
            text: metadata,
            at_millis: offset,
        })),
        // A topic that is not there has no record.
        Err(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            Ok(None)
        }
        Err(code) => Err(failed(job, code)),
    }
}

fn failed(job: &Job, code: Code) -> Failure {
    Failure::answered(&job.what(), code)
}
