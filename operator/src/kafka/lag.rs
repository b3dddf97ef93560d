//! One observation of the lag of many consumer groups of one cluster.
//!
//! One request describes the topics of all groups. First offsets, last offsets and commits are
//! asked for together. Then the groups' searches for the age of their lag run in parallel, one
//! request for all at a time. A group is within its bound exactly when every partition's committed
//! offset is at or past the first offset of `now - bound`. A partition without a commit counts from
//! its beginning, as gateways read it. A failed request is an error of its groups, never zero.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use millrace_crds::Reason;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::Deadline;
use super::failure::Failure;
use super::lag_age::{Age, Behind, Next, Offsets, Search};
use super::native::{Answer, EARLIEST, Found, LATEST, Partition, Question, Topic};
use super::probe::Link;
use super::questions::{Located, Topics, Want, describe, locate};
use super::time_marks::Marks;
use crate::kafka::lag_board::{LagObservation, PartitionOffsets};

/// Questions by time in a row. A search takes at most some twelve; see its tests.
const WAVES_MAX: usize = 32;

/// Which group's lag on which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The consumer group.
    pub(super) group: String,
    /// The topics it reads.
    pub(super) topics: Vec<Arc<str>>,
    /// The age held against it.
    pub(super) bound: Duration,
}

type Seen = Result<LagObservation, Failure>;

/// Observes the lag of each group, in their order; what it learns goes into `marks`.
pub(super) fn look(link: &Link, all: &[Asked], marks: &mut Marks, deadline: Deadline) -> Vec<Seen> {
    let topics = describe(link, all.iter().flat_map(|asked| &asked.topics), deadline);
    let now = Timestamp::now();
    let mut groups: Vec<Group<'_>> =
        all.iter().map(|asked| Group::new(asked, &topics, marks, now)).collect();
    place(link, &mut groups, &topics, deadline);
    for group in &mut groups {
        group.note_places(marks);
    }
    search(link, &mut groups, marks, deadline);
    marks.forget();
    groups.into_iter().map(|group| group.seen(now)).collect()
}

/// One group's state during an observation.
struct Group<'a> {
    asked: &'a Asked,
    /// Partitions of each topic; the first failure ends the observation for this group.
    partitions: Result<Vec<Partition>, Failure>,
    partitions_max: u32,
    begins: Offsets,
    ends: Offsets,
    committed: Offsets,
    behind: Behind,
    search: Search,
    age: Option<Age>,
}

impl<'a> Group<'a> {
    fn new(asked: &'a Asked, topics: &Topics, marks: &mut Marks, now: Timestamp) -> Self {
        let found: Result<Vec<(&Arc<str>, &Topic)>, Failure> =
            asked.topics.iter().map(|name| Ok((name, found(name, topics)?))).collect();
        let found = match asked.topics.is_empty() {
            true => Err(Failure::new(Reason::SpecInvalid, "no topic to read: name a signal")),
            false => found,
        };
        let counts = found.iter().flatten().map(|(_, topic)| topic.partitions.len()).max();
        if let Ok(found) = &found {
            let marks = marks.group(&asked.group);
            marks.only(&asked.topics);
            for (name, topic) in found {
                marks.topic(name, topic.id, topic.partitions.len());
            }
        }
        let partitions = found.map(|found| {
            let numbered = |(name, topic): (&Arc<str>, &Topic)| {
                let (name, numbers) = (name.clone(), 0i32..);
                numbers.take(topic.partitions.len()).map(move |number| (name.clone(), number))
            };
            found.into_iter().flat_map(numbered).collect()
        });
        let none = Offsets::new();
        Self {
            asked,
            partitions,
            partitions_max: u32::try_from(counts.unwrap_or(0)).unwrap_or(u32::MAX),
            behind: Behind::of(&none, &none, &none),
            begins: none.clone(),
            ends: none.clone(),
            committed: none,
            search: Search::new(now.as_millisecond(), asked.bound.as_secs()),
            age: None,
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.partitions = Err(failure);
    }

    /// The question for the group's commits.
    fn commits(&self) -> Option<Question> {
        let partitions = self.partitions.as_ref().ok()?.clone();
        Some(Question::Commits { group: self.asked.group.clone(), partitions })
    }

    /// Takes the first and last offsets of its partitions.
    fn take_places(&mut self, located: &Located) {
        let Ok(partitions) = &self.partitions else { return };
        let offset = |what, partition: &Partition, spec| {
            let found = located.get(&(partition.clone(), spec)).copied();
            let found = found.unwrap_or(Err(Code::OperationTimedOut));
            let offset = found.and_then(|found| found.offset.ok_or(Code::BadMessage));
            offset.map_err(|code| Failure::answered(what, code))
        };
        let all = |what, spec| -> Result<Offsets, Failure> {
            partitions.iter().map(|it| Ok((it.clone(), offset(what, it, spec)?))).collect()
        };
        let begins = all("ask for first offsets", EARLIEST);
        match begins.and_then(|begins| Ok((begins, all("ask for last offsets", LATEST)?))) {
            Ok((begins, ends)) => (self.begins, self.ends) = (begins, ends),
            Err(failure) => self.fail(failure),
        }
    }

    /// Takes the offsets found at a time.
    fn take_time(&mut self, want: &Want, found: Option<Result<Found, Code>>, marks: &mut Marks) {
        let (partition, at) = want;
        match (found.unwrap_or(Err(Code::OperationTimedOut)), self.behind.end(partition)) {
            (Ok(found), Some(end)) => {
                marks.group(&self.asked.group).note(partition, *at, found, end);
            }
            (Ok(_), None) => {}
            (Err(code), _) => self.fail(Failure::answered("ask for offsets by time", code)),
        }
    }

    /// Takes the group's commits.
    fn take_commits(&mut self, answer: Result<Answer, Code>) {
        let what = "ask for committed offsets";
        let told = match answer {
            Ok(Answer::Commits(told)) => told,
            Ok(_) => return self.fail(Failure::answered(what, Code::BadMessage)),
            Err(code) => return self.fail(Failure::answered(what, code)),
        };
        for (partition, commit) in told {
            match commit {
                Ok(Some(commit)) => {
                    self.committed.insert(partition, commit.offset);
                }
                Ok(None) => {}
                Err(code) => return self.fail(Failure::answered(what, code)),
            }
        }
    }

    /// Computes the lag, and drops marks that are no longer useful.
    fn note_places(&mut self, marks: &mut Marks) {
        if self.partitions.is_err() {
            return;
        }
        self.behind = Behind::of(&self.begins, &self.ends, &self.committed);
        let known = marks.group(&self.asked.group);
        for at in self.offsets() {
            known.keep(&(Arc::from(at.topic.as_str()), at.partition), at.committed, at.end);
        }
    }

    /// Every partition's position, ordered by topic and number.
    fn offsets(&self) -> Vec<PartitionOffsets> {
        let of = |(key, end): (&Partition, &i64)| {
            let begin = self.begins.get(key).copied().unwrap_or(0);
            let from = self.committed.get(key).copied().unwrap_or(begin).max(begin);
            let (topic, partition) = (key.0.to_string(), key.1);
            PartitionOffsets { topic, partition, committed: from.min(*end), end: *end }
        };
        self.ends.iter().map(of).collect()
    }

    fn seen(self, now: Timestamp) -> Seen {
        let offsets = self.offsets();
        let partitions = self.partitions?;
        let Some(Age { seconds, within_bound }) = self.age else {
            // Only for a topic that changes faster than it is described.
            return Err(Failure::answered("ask for offsets by time", Code::OperationTimedOut));
        };
        Ok(LagObservation {
            partitions: u32::try_from(partitions.len()).unwrap_or(u32::MAX),
            partitions_max: self.partitions_max,
            messages: self.behind.messages(),
            seconds: Some(seconds),
            within_bound,
            offsets,
            observed_at: now,
        })
    }
}

/// A topic that exists and has a leader for each partition.
fn found<'a>(name: &Arc<str>, topics: &'a Topics) -> Result<&'a Topic, Failure> {
    let what = format!("describe topic {name}");
    match topics.get(name) {
        Some(Ok(topic)) if topic.partitions.is_empty() => Err(missing(name)),
        Some(Ok(topic)) if topic.partitions.iter().any(|it| it.leader.is_none()) => {
            // Asking for its offsets would delay all groups in the same request.
            Err(Failure::answered(&what, Code::LeaderNotAvailable))
        }
        Some(Ok(topic)) => Ok(topic),
        Some(Err(code)) => Err(Failure::answered(&what, *code)),
        None => Err(missing(name)),
    }
}

fn missing(name: &str) -> Failure {
    Failure::new(Reason::TopicMissing, format!("topic {name} does not exist"))
}

/// Asks for first offsets, last offsets and commits of all groups at once.
fn place(link: &Link, groups: &mut [Group<'_>], topics: &Topics, deadline: Deadline) {
    let partitions = groups.iter().filter_map(|group| group.partitions.as_ref().ok()).flatten();
    let partitions: BTreeSet<&Partition> = partitions.collect();
    let mut partitions: Vec<Partition> = partitions.into_iter().cloned().collect();
    // Those of one leader next to each other.
    partitions.sort_by_key(|(topic, number)| {
        let number = usize::try_from(*number).ok()?;
        topics.get(topic)?.as_ref().ok()?.partitions.get(number)?.leader
    });
    let specs = [EARLIEST, LATEST].into_iter();
    let wants = specs.flat_map(|spec| partitions.iter().map(move |it| (it.clone(), spec)));
    let wants: Vec<Want> = wants.collect();
    let commits: Vec<Question> = groups.iter().filter_map(Group::commits).collect();
    let (located, commits) = locate(link, &wants, commits, deadline);
    let mut commits = commits.into_iter();
    for group in groups.iter_mut().filter(|group| group.partitions.is_ok()) {
        let commits = commits.next();
        group.take_places(&located);
        if group.partitions.is_ok() {
            group.take_commits(commits.unwrap_or(Err(Code::OperationTimedOut)));
        }
    }
}

/// Finds the age of each group's lag, all in parallel.
fn search(link: &Link, groups: &mut [Group<'_>], marks: &mut Marks, deadline: Deadline) {
    for _ in 0..WAVES_MAX {
        let mut asking: Vec<(&mut Group<'_>, Vec<Want>)> = Vec::new();
        for group in groups.iter_mut().filter(|group| group.age.is_none()) {
            if group.partitions.is_err() {
                continue;
            }
            match group.search.next(&group.behind, marks.group(&group.asked.group)) {
                Next::Known(age) => group.age = Some(age),
                Next::Ask(at, partitions) => {
                    let wants = partitions.into_iter().map(|partition| (partition, at));
                    asking.push((group, wants.collect()));
                }
            }
        }
        if asking.is_empty() {
            return;
        }
        // Groups that read the same topic often ask the same question.
        let wants: BTreeSet<&Want> = asking.iter().flat_map(|(_, wants)| wants).collect();
        let wants: Vec<Want> = wants.into_iter().cloned().collect();
        let (located, _) = locate(link, &wants, Vec::new(), deadline);
        for (group, wants) in asking {
            for want in wants {
                group.take_time(&want, located.get(&want).copied(), marks);
            }
        }
    }
}
