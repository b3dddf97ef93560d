//! Batches queries to one cluster: topics in one request, offsets of thousands of partitions in a
//! few.
//!
//! It enforces the largest request, and that no request names a partition twice. If the client's
//! metadata of a topic is stale, it is refreshed, a bounded number of times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::native::{self, AdminRequest, AdminResponse, ListedOffset, Topic, TopicPartition};
use super::probe::BrokerClient;
use crate::kafka::Deadline;

/// Longest wait for one request.
pub(super) const QUESTION_MAX: Duration = Duration::from_secs(5);

/// Maximum number of topics with stale client metadata (they grew, or were recreated) that are
/// refreshed per observation, some milliseconds each; the others follow in the next.
const RELEARNED_MAX: usize = 16;

/// Described topics, by name.
pub(in crate::kafka) type DescribedTopics = HashMap<Arc<str>, Result<Topic, Code>>;

/// A partition, and the time or position to search in it.
pub(in crate::kafka) type OffsetQuery = (TopicPartition, i64);

/// The result for each [`OffsetQuery`]; a missing one was not answered.
pub(in crate::kafka) type ListedOffsets = HashMap<OffsetQuery, Result<ListedOffset, Code>>;

pub(in crate::kafka) type AdminResult = Result<AdminResponse, Code>;

/// Describes topics, one request per thousand.
pub(in crate::kafka) fn describe_topics<'a>(
    link: &BrokerClient,
    names: impl Iterator<Item = &'a Arc<str>>,
    deadline: Deadline,
) -> DescribedTopics {
    let names: BTreeSet<Arc<str>> = names.cloned().collect();
    let names: Vec<Arc<str>> = names.into_iter().collect();
    let chunks = names.chunks(native::TOPICS_MAX);
    let questions: Vec<AdminRequest> =
        chunks.map(|chunk| AdminRequest::Topics(chunk.to_vec())).collect();
    let mut topics = DescribedTopics::new();
    for (question, answer) in questions.iter().zip(send_requests(link, &questions, deadline)) {
        match (question, answer) {
            (_, Ok(AdminResponse::Topics(described))) => topics.extend(described),
            (AdminRequest::Topics(names), Err(code)) => {
                topics.extend(names.iter().map(|name| (name.clone(), Err(code))));
            }
            _ => {}
        }
    }
    topics
}

/// Finds the offsets of `queries`, and answers the `beside` requests, all at once. Queries of one
/// leader should be adjacent: a request goes to each leader it names.
pub(in crate::kafka) fn list_offsets(
    link: &BrokerClient,
    queries: &[OffsetQuery],
    extra: Vec<AdminRequest>,
    deadline: Deadline,
) -> (ListedOffsets, Vec<AdminResult>) {
    let mut questions = offset_requests(queries);
    let listed = questions.len();
    questions.extend(extra);
    let mut answers = send_requests(link, &questions, deadline);
    let beside = answers.split_off(listed);
    let mut located = ListedOffsets::with_capacity(queries.len());
    collect_offsets(&mut located, &questions, answers);
    let relearned = refresh_metadata(link, &located, deadline);
    if !relearned.is_empty() {
        let again = |query: &&OffsetQuery| relearned.contains(&query.0.0);
        let again: Vec<OffsetQuery> = queries.iter().filter(again).cloned().collect();
        let questions = offset_requests(&again);
        let answers = send_requests(link, &questions, deadline);
        collect_offsets(&mut located, &questions, answers);
    }
    (located, beside)
}

/// Sends requests unchanged; each has a timeout of [`QUESTION_MAX`].
pub(in crate::kafka) fn send_requests(
    link: &BrokerClient,
    questions: &[AdminRequest],
    deadline: Deadline,
) -> Vec<AdminResult> {
    native::send_requests(link, questions, deadline.at_most(QUESTION_MAX), deadline.as_instant())
}

/// Combines `queries` into as few requests as possible.
fn offset_requests(queries: &[OffsetQuery]) -> Vec<AdminRequest> {
    // A layer names each partition once.
    let mut layers: Vec<(HashSet<&TopicPartition>, Vec<OffsetQuery>)> = Vec::new();
    for query in queries {
        let index = layers.iter().position(|(named, _)| !named.contains(&query.0));
        let index = index.unwrap_or_else(|| {
            layers.push((HashSet::new(), Vec::new()));
            layers.len() - 1
        });
        if let Some((named, layer)) = layers.get_mut(index) {
            named.insert(&query.0);
            layer.push(query.clone());
        }
    }
    let layers = layers.iter().flat_map(|(_, layer)| layer.chunks(native::PARTITIONS_MAX));
    layers.map(|chunk| AdminRequest::Offsets(chunk.to_vec())).collect()
}

/// Assigns responses to wants.
fn collect_offsets(
    located: &mut ListedOffsets,
    questions: &[AdminRequest],
    answers: Vec<AdminResult>,
) {
    for (question, answer) in questions.iter().zip(answers) {
        let AdminRequest::Offsets(queries) = question else { continue };
        match answer {
            Ok(AdminResponse::Offsets(found)) => {
                let specs: HashMap<&TopicPartition, i64> =
                    queries.iter().map(|(partition, spec)| (partition, *spec)).collect();
                for (partition, found) in found {
                    if let Some(spec) = specs.get(&partition) {
                        located.insert((partition, *spec), found);
                    }
                }
            }
            Ok(_) => {}
            Err(code) => {
                located.extend(queries.iter().map(|query| (query.clone(), Err(code))));
            }
        }
    }
}

/// Makes the client refresh stale topics, and returns those that it refreshed.
fn refresh_metadata(
    link: &BrokerClient,
    located: &ListedOffsets,
    deadline: Deadline,
) -> BTreeSet<Arc<str>> {
    let wrong = |code: &Code| {
        matches!(
            code,
            Code::UnknownPartition
                | Code::UnknownTopic
                | Code::UnknownTopicOrPartition
                | Code::NoEnt
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
        )
    };
    let failed = located.iter().filter(|(_, found)| found.as_ref().err().is_some_and(wrong));
    let topics: BTreeSet<Arc<str>> = failed.map(|(((topic, _), _), _)| topic.clone()).collect();
    let topics = topics.into_iter().take(RELEARNED_MAX);
    let refreshed = topics.filter(|topic| {
        let limit = deadline.at_most(QUESTION_MAX);
        !deadline.remaining_time().is_zero()
            && link.consumer.fetch_metadata(Some(topic), limit).is_ok()
    });
    refreshed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset_query(topic: &str, partition: i32, at: i64) -> OffsetQuery {
        ((Arc::from(topic), partition), at)
    }

    /// Scenario: queries for the first and last offsets of 2,500 partitions, and two groups that
    /// query one partition at different times. Guarantee: no request names a partition twice or
    /// more than a thousand, and there are as few as that allows.
    #[test]
    fn questions_are_few_and_name_no_partition_twice() {
        let all = |at| (0..2_500).map(move |number| offset_query("t", number, at));
        let wants: Vec<OffsetQuery> = all(native::EARLIEST).chain(all(native::LATEST)).collect();
        let questions = offset_requests(&wants);
        assert_eq!(questions.len(), 6);
        let mut named = 0;
        for question in &questions {
            let AdminRequest::Offsets(wants) = question else { panic!("{question:?}") };
            let distinct: HashSet<&TopicPartition> = wants.iter().map(|(it, _)| it).collect();
            assert_eq!(distinct.len(), wants.len());
            assert!(wants.len() <= native::PARTITIONS_MAX);
            named += wants.len();
        }
        assert_eq!(named, 5_000);
        assert_eq!(
            offset_requests(&[
                offset_query("t", 0, 5),
                offset_query("u", 0, 6),
                offset_query("t", 0, 7)
            ])
            .len(),
            2
        );
    }
}
