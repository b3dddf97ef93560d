//! Batches questions to one cluster: topics in one request, offsets of thousands of partitions in a
//! few.
//!
//! It knows the largest request, and that none may name a partition twice. If the client's metadata
//! of a topic is stale, it is refreshed, a bounded number of times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::Deadline;
use super::native::{self, Answer, Found, Partition, Question, Topic};
use super::probe::Link;

/// Longest wait for one question.
pub(super) const QUESTION_MAX: Duration = Duration::from_secs(5);

/// Topics with stale client metadata (they grew, or were recreated) that are refreshed per
/// observation, some milliseconds each; the rest follow in the next.
const RELEARNED_MAX: usize = 16;

/// Topics as they were described.
pub(super) type Topics = HashMap<Arc<str>, Result<Topic, Code>>;

/// A partition, and the time or position to look up in it.
pub(super) type Want = (Partition, i64);

/// What was found for each [`Want`]; none without an answer.
pub(super) type Located = HashMap<Want, Result<Found, Code>>;

/// An answer or none.
pub(super) type Answered = Result<Answer, Code>;

/// Describes topics, all in one question (per thousand).
pub(super) fn describe<'a>(
    link: &Link,
    names: impl Iterator<Item = &'a Arc<str>>,
    deadline: Deadline,
) -> Topics {
    let names: BTreeSet<Arc<str>> = names.cloned().collect();
    let names: Vec<Arc<str>> = names.into_iter().collect();
    let chunks = names.chunks(native::TOPICS_MAX);
    let questions: Vec<Question> = chunks.map(|chunk| Question::Topics(chunk.to_vec())).collect();
    let mut topics = Topics::new();
    for (question, answer) in questions.iter().zip(ask(link, &questions, deadline)) {
        match (question, answer) {
            (_, Ok(Answer::Topics(told))) => topics.extend(told),
            (Question::Topics(names), Err(code)) => {
                topics.extend(names.iter().map(|name| (name.clone(), Err(code))));
            }
            _ => {}
        }
    }
    topics
}

/// Finds the offsets of `wants`, and answers the `beside` questions, all at once. Wants of one
/// leader should be adjacent: a request goes to each leader it names.
pub(super) fn locate(
    link: &Link,
    wants: &[Want],
    beside: Vec<Question>,
    deadline: Deadline,
) -> (Located, Vec<Answered>) {
    let mut questions = listings(wants);
    let listed = questions.len();
    questions.extend(beside);
    let mut answers = ask(link, &questions, deadline);
    let beside = answers.split_off(listed);
    let mut located = Located::with_capacity(wants.len());
    take(&mut located, &questions, answers);
    let relearned = relearn(link, &located, deadline);
    if !relearned.is_empty() {
        let again = |want: &&Want| relearned.contains(&want.0.0);
        let again: Vec<Want> = wants.iter().filter(again).cloned().collect();
        let questions = listings(&again);
        let answers = ask(link, &questions, deadline);
        take(&mut located, &questions, answers);
    }
    (located, beside)
}

/// Puts questions as they are; each is given [`QUESTION_MAX`].
pub(super) fn ask(link: &Link, questions: &[Question], deadline: Deadline) -> Vec<Answered> {
    native::ask(link, questions, deadline.at_most(QUESTION_MAX), deadline.end())
}

/// As few questions as can be made of `wants`.
fn listings(wants: &[Want]) -> Vec<Question> {
    // A layer names each partition once.
    let mut layers: Vec<(HashSet<&Partition>, Vec<Want>)> = Vec::new();
    for want in wants {
        let place = layers.iter().position(|(named, _)| !named.contains(&want.0));
        let place = place.unwrap_or_else(|| {
            layers.push((HashSet::new(), Vec::new()));
            layers.len() - 1
        });
        if let Some((named, layer)) = layers.get_mut(place) {
            named.insert(&want.0);
            layer.push(want.clone());
        }
    }
    let layers = layers.iter().flat_map(|(_, layer)| layer.chunks(native::PARTITIONS_MAX));
    layers.map(|chunk| Question::Offsets(chunk.to_vec())).collect()
}

/// Assigns answers to wants.
fn take(located: &mut Located, questions: &[Question], answers: Vec<Answered>) {
    for (question, answer) in questions.iter().zip(answers) {
        let Question::Offsets(wants) = question else { continue };
        match answer {
            Ok(Answer::Offsets(found)) => {
                let specs: HashMap<&Partition, i64> =
                    wants.iter().map(|(partition, spec)| (partition, *spec)).collect();
                for (partition, found) in found {
                    if let Some(spec) = specs.get(&partition) {
                        located.insert((partition, *spec), found);
                    }
                }
            }
            Ok(_) => {}
            Err(code) => {
                located.extend(wants.iter().map(|want| (want.clone(), Err(code))));
            }
        }
    }
}

/// Makes the client refresh stale topics; returns which it refreshed.
fn relearn(link: &Link, located: &Located, deadline: Deadline) -> BTreeSet<Arc<str>> {
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
    let asked = topics.filter(|topic| {
        let limit = deadline.at_most(QUESTION_MAX);
        !deadline.left().is_zero() && link.consumer.fetch_metadata(Some(topic), limit).is_ok()
    });
    asked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(topic: &str, partition: i32, at: i64) -> Want {
        ((Arc::from(topic), partition), at)
    }

    /// Scenario: 2,500 partitions whose beginnings and ends are asked for, and two groups that ask
    /// about one partition at different times. Guarantee: no question names a partition twice or
    /// more than a thousand, and there are as few as that allows.
    #[test]
    fn questions_are_few_and_name_no_partition_twice() {
        let all = |at| (0..2_500).map(move |number| want("t", number, at));
        let wants: Vec<Want> = all(native::EARLIEST).chain(all(native::LATEST)).collect();
        let questions = listings(&wants);
        assert_eq!(questions.len(), 6);
        let mut named = 0;
        for question in &questions {
            let Question::Offsets(wants) = question else { panic!("{question:?}") };
            let distinct: HashSet<&Partition> = wants.iter().map(|(it, _)| it).collect();
            assert_eq!(distinct.len(), wants.len());
            assert!(wants.len() <= native::PARTITIONS_MAX);
            named += wants.len();
        }
        assert_eq!(named, 5_000);
        assert_eq!(listings(&[want("t", 0, 5), want("u", 0, 6), want("t", 0, 7)]).len(), 2);
    }
}
