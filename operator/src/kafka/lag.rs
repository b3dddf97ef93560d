//! One observation of the lag of many consumer groups of one cluster.
//!
//! One request describes the topics of all groups. First offsets, last offsets and commits are
//! requested together. Then the groups' searches for the age of their lag run in parallel, one
//! request for all at a time. A group is within its bound exactly when every partition's committed
//! offset is at or past the first offset of `now - bound`. A partition without a commit counts from
//! its beginning, as gateways read it. A failed request is an error of its groups, never zero.

mod age;
pub mod lag_cache;
pub(super) mod queue;
pub(super) mod rotation;
mod time_marks;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use millrace_crds::Reason;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::Deadline;
use super::client::native::{
    AdminRequest, AdminResponse, EARLIEST, LATEST, ListedOffset, Topic, TopicPartition,
};
use super::client::probe::BrokerClient;
use super::client::requests::{
    DescribedTopics, ListedOffsets, OffsetQuery, describe_topics, list_offsets,
};
use super::failure::Failure;
use super::lag::age::{Age, LagRanges, Offsets, Search, SearchStep};
use super::lag::time_marks::Marks;
use crate::kafka::lag::lag_cache::{LagObservation, PartitionOffsets};

/// Maximum number of sequential queries by time. A search takes at most some twelve; see its tests.
const WAVES_MAX: usize = 32;

/// A request for a group's lag on some topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LagRequest {
    pub(super) group: String,
    pub(super) topics: Vec<Arc<str>>,
    /// The bound of the lag's age.
    pub(super) bound: Duration,
}

type LagResult = Result<LagObservation, Failure>;

/// Observes the lag of each group, in their order, and records offsets by time in `marks`.
pub(super) fn observe_groups(
    link: &BrokerClient,
    all: &[LagRequest],
    marks: &mut Marks,
    deadline: Deadline,
) -> Vec<LagResult> {
    let topics = describe_topics(link, all.iter().flat_map(|request| &request.topics), deadline);
    let now = Timestamp::now();
    let mut groups: Vec<GroupObservation<'_>> =
        all.iter().map(|request| GroupObservation::new(request, &topics, marks, now)).collect();
    fetch_offsets(link, &mut groups, &topics, deadline);
    for group in &mut groups {
        group.compute_lag(marks);
    }
    search_ages(link, &mut groups, marks, deadline);
    marks.drop_unused();
    groups.into_iter().map(|group| group.into_result(now)).collect()
}

/// One group's state during an observation.
struct GroupObservation<'a> {
    request: &'a LagRequest,
    /// The partitions of all topics; the first failure ends the observation for this group.
    partitions: Result<Vec<TopicPartition>, Failure>,
    partitions_max: u32,
    begins: Offsets,
    ends: Offsets,
    committed: Offsets,
    behind: LagRanges,
    search: Search,
    age: Option<Age>,
}

impl<'a> GroupObservation<'a> {
    fn new(
        request: &'a LagRequest,
        topics: &DescribedTopics,
        marks: &mut Marks,
        now: Timestamp,
    ) -> Self {
        let found: Result<Vec<(&Arc<str>, &Topic)>, Failure> =
            request.topics.iter().map(|name| Ok((name, find_topic(name, topics)?))).collect();
        let found = match request.topics.is_empty() {
            true => Err(Failure::new(Reason::SpecInvalid, "no topic to read: name a signal")),
            false => found,
        };
        let counts = found.iter().flatten().map(|(_, topic)| topic.partitions.len()).max();
        if let Ok(found) = &found {
            let marks = marks.group_marks(&request.group);
            marks.retain_topics(&request.topics);
            for (name, topic) in found {
                marks.set_topic(name, topic.id, topic.partitions.len());
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
            request,
            partitions,
            partitions_max: u32::try_from(counts.unwrap_or(0)).unwrap_or(u32::MAX),
            behind: LagRanges::from_offsets(&none, &none, &none),
            begins: none.clone(),
            ends: none.clone(),
            committed: none,
            search: Search::new(now.as_millisecond(), request.bound.as_secs()),
            age: None,
        }
    }

    fn set_failure(&mut self, failure: Failure) {
        self.partitions = Err(failure);
    }

    fn commits_request(&self) -> Option<AdminRequest> {
        let partitions = self.partitions.as_ref().ok()?.clone();
        Some(AdminRequest::Commits { group: self.request.group.clone(), partitions })
    }

    /// Records the first and last offsets of its partitions.
    fn accept_offsets(&mut self, located: &ListedOffsets) {
        let Ok(partitions) = &self.partitions else { return };
        let offset = |what, partition: &TopicPartition, spec| {
            let found = located.get(&(partition.clone(), spec)).copied();
            let found = found.unwrap_or(Err(Code::OperationTimedOut));
            let offset = found.and_then(|found| found.offset.ok_or(Code::BadMessage));
            offset.map_err(|code| Failure::from_code(what, code))
        };
        let all = |what, spec| -> Result<Offsets, Failure> {
            partitions.iter().map(|it| Ok((it.clone(), offset(what, it, spec)?))).collect()
        };
        let begins = all("list first offsets", EARLIEST);
        match begins.and_then(|begins| Ok((begins, all("list last offsets", LATEST)?))) {
            Ok((begins, ends)) => (self.begins, self.ends) = (begins, ends),
            Err(failure) => self.set_failure(failure),
        }
    }

    /// Records the offset found at a time.
    fn accept_time_offset(
        &mut self,
        query: &OffsetQuery,
        found: Option<Result<ListedOffset, Code>>,
        marks: &mut Marks,
    ) {
        let (partition, at) = query;
        match (found.unwrap_or(Err(Code::OperationTimedOut)), self.behind.end_of(partition)) {
            (Ok(found), Some(end)) => {
                marks.group_marks(&self.request.group).record_offset(partition, *at, found, end);
            }
            (Ok(_), None) => {}
            (Err(code), _) => self.set_failure(Failure::from_code("list offsets by time", code)),
        }
    }

    fn accept_commits(&mut self, answer: Result<AdminResponse, Code>) {
        let what = "fetch committed offsets";
        let commits = match answer {
            Ok(AdminResponse::Commits(commits)) => commits,
            Ok(_) => return self.set_failure(Failure::from_code(what, Code::BadMessage)),
            Err(code) => return self.set_failure(Failure::from_code(what, code)),
        };
        for (partition, commit) in commits {
            match commit {
                Ok(Some(commit)) => {
                    self.committed.insert(partition, commit.offset);
                }
                Ok(None) => {}
                Err(code) => return self.set_failure(Failure::from_code(what, code)),
            }
        }
    }

    /// Computes the lag, and drops marks that are no longer useful.
    fn compute_lag(&mut self, marks: &mut Marks) {
        if self.partitions.is_err() {
            return;
        }
        self.behind = LagRanges::from_offsets(&self.begins, &self.ends, &self.committed);
        let known = marks.group_marks(&self.request.group);
        for at in self.partition_offsets() {
            known.prune_before(&(Arc::from(at.topic.as_str()), at.partition), at.committed, at.end);
        }
    }

    /// Returns every partition's position, ordered by topic and number.
    fn partition_offsets(&self) -> Vec<PartitionOffsets> {
        let of = |(key, end): (&TopicPartition, &i64)| {
            let begin = self.begins.get(key).copied().unwrap_or(0);
            let from = self.committed.get(key).copied().unwrap_or(begin).max(begin);
            let (topic, partition) = (key.0.to_string(), key.1);
            PartitionOffsets { topic, partition, committed: from.min(*end), end: *end }
        };
        self.ends.iter().map(of).collect()
    }

    fn into_result(self, now: Timestamp) -> LagResult {
        let offsets = self.partition_offsets();
        let partitions = self.partitions?;
        let Some(Age { seconds, within_bound }) = self.age else {
            // This only happens for a topic that changes faster than it is described.
            return Err(Failure::from_code("list offsets by time", Code::OperationTimedOut));
        };
        Ok(LagObservation {
            partitions: u32::try_from(partitions.len()).unwrap_or(u32::MAX),
            partitions_max: self.partitions_max,
            messages: self.behind.message_count(),
            seconds: Some(seconds),
            within_bound,
            offsets,
            observed_at: now,
        })
    }
}

/// Returns a topic that exists and has a leader for each partition.
fn find_topic<'a>(name: &Arc<str>, topics: &'a DescribedTopics) -> Result<&'a Topic, Failure> {
    let what = format!("describe topic {name}");
    match topics.get(name) {
        Some(Ok(topic)) if topic.partitions.is_empty() => Err(missing_topic(name)),
        Some(Ok(topic)) if topic.partitions.iter().any(|it| it.leader.is_none()) => {
            // A query for its offsets would delay all groups in the same request.
            Err(Failure::from_code(&what, Code::LeaderNotAvailable))
        }
        Some(Ok(topic)) => Ok(topic),
        Some(Err(code)) => Err(Failure::from_code(&what, *code)),
        None => Err(missing_topic(name)),
    }
}

fn missing_topic(name: &str) -> Failure {
    Failure::new(Reason::TopicMissing, format!("topic {name} does not exist"))
}

/// Requests first offsets, last offsets and commits of all groups at once.
fn fetch_offsets(
    link: &BrokerClient,
    groups: &mut [GroupObservation<'_>],
    topics: &DescribedTopics,
    deadline: Deadline,
) {
    let partitions = groups.iter().filter_map(|group| group.partitions.as_ref().ok()).flatten();
    let partitions: BTreeSet<&TopicPartition> = partitions.collect();
    let mut partitions: Vec<TopicPartition> = partitions.into_iter().cloned().collect();
    // Partitions of one leader are adjacent.
    partitions.sort_by_key(|(topic, number)| {
        let number = usize::try_from(*number).ok()?;
        topics.get(topic)?.as_ref().ok()?.partitions.get(number)?.leader
    });
    let specs = [EARLIEST, LATEST].into_iter();
    let queries = specs.flat_map(|spec| partitions.iter().map(move |it| (it.clone(), spec)));
    let queries: Vec<OffsetQuery> = queries.collect();
    let commits: Vec<AdminRequest> =
        groups.iter().filter_map(GroupObservation::commits_request).collect();
    let (located, commits) = list_offsets(link, &queries, commits, deadline);
    let mut commits = commits.into_iter();
    for group in groups.iter_mut().filter(|group| group.partitions.is_ok()) {
        let commits = commits.next();
        group.accept_offsets(&located);
        if group.partitions.is_ok() {
            group.accept_commits(commits.unwrap_or(Err(Code::OperationTimedOut)));
        }
    }
}

/// Finds the age of each group's lag, all in parallel.
fn search_ages(
    link: &BrokerClient,
    groups: &mut [GroupObservation<'_>],
    marks: &mut Marks,
    deadline: Deadline,
) {
    for _ in 0..WAVES_MAX {
        let mut asking: Vec<(&mut GroupObservation<'_>, Vec<OffsetQuery>)> = Vec::new();
        for group in groups.iter_mut().filter(|group| group.age.is_none()) {
            if group.partitions.is_err() {
                continue;
            }
            match group.search.next(&group.behind, marks.group_marks(&group.request.group)) {
                SearchStep::Known(age) => group.age = Some(age),
                SearchStep::Query(at, partitions) => {
                    let queries = partitions.into_iter().map(|partition| (partition, at));
                    asking.push((group, queries.collect()));
                }
            }
        }
        if asking.is_empty() {
            return;
        }
        // Groups that read the same topic often need the same offsets.
        let queries: BTreeSet<&OffsetQuery> =
            asking.iter().flat_map(|(_, queries)| queries).collect();
        let queries: Vec<OffsetQuery> = queries.into_iter().cloned().collect();
        let (located, _) = list_offsets(link, &queries, Vec::new(), deadline);
        for (group, queries) in asking {
            for query in queries {
                group.accept_time_offset(&query, located.get(&query).copied(), marks);
            }
        }
    }
}
