//! The lag of a consumer group, as the broker tells it.
//!
//! Three questions for all partitions at once: what is committed, what is there, and which offset
//! was the first at a given time. A group is within its bound exactly when every partition's
//! committed offset is at or past the first offset of `now - bound`. A partition without a commit
//! counts from its beginning, as the gateways read it. A failed question is an error, never zero.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use kube::Client;
use millrace_crds::Reason;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::connection::Settings;
use super::failure::Failure;
use super::probe::{Causes, Reached, reach};
use super::{Deadline, converse};
use crate::error::{Step, StepError};
use crate::lag::{LagObservation, LagQuery, LagSource, PartitionOffsets};

/// Longest wait for one question.
const QUESTION_MAX: Duration = Duration::from_secs(5);

/// Between two questions to a coordinator that isn't ready: it takes about a second to load.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Ages beyond this are told as this: 30 days, more than topics keep.
const AGE_SECONDS_MAX: u64 = 30 * 86_400;

/// Lag asked of real brokers.
pub struct KafkaLag {
    client: Client,
}

impl KafkaLag {
    /// Secrets of connections are read through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl LagSource for KafkaLag {
    fn observe<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        async move {
            let LagQuery { namespace, kafka, group, topics, bound } = query;
            let settings = Settings::resolve(&self.client, namespace, kafka).await?;
            observe_lag(settings, group.clone(), topics.clone(), *bound)
                .await
                .map_err(|failure| failure.at(Step::Observe))
        }
        .boxed()
    }
}

/// Observes the lag of `group` on `topics`; `bound` is the age held against it, a second at least.
///
/// # Errors
/// When a topic does not exist, or Kafka can't be reached or refuses.
pub async fn observe_lag(
    settings: Settings,
    group: String,
    topics: Vec<String>,
    bound: Duration,
) -> Result<LagObservation, Failure> {
    let now = Timestamp::now();
    converse(move |deadline| observe_now(&settings, &group, &topics, bound, now, deadline)).await
}

/// A partition of a topic.
type Partition = (String, i32);

/// Offsets by partition.
type Offsets = BTreeMap<Partition, i64>;

fn observe_now(
    settings: &Settings,
    group: &str,
    topics: &[String],
    bound: Duration,
    now: Timestamp,
    deadline: Deadline,
) -> Result<LagObservation, Failure> {
    let Some(first) = topics.first() else {
        return Err(Failure::new(Reason::SpecInvalid, "no topic to read: name a signal"));
    };
    let Reached { consumer, metadata: _ } = reach(settings, group, first, deadline)?;
    let asked = Asked { consumer: &consumer, deadline };
    let counts = topics
        .iter()
        .map(|topic| Ok((topic.clone(), asked.partitions(topic)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let all: Vec<Partition> = counts
        .iter()
        .flat_map(|(topic, count)| (0..*count).map(move |partition| (topic.clone(), partition)))
        .collect();

    let begins = asked.listed("ask for first offsets", &all, Offset::Beginning)?;
    let ends = asked.listed("ask for last offsets", &all, Offset::End)?;
    let committed = asked.committed(&all)?;
    let behind = Behind::of(&begins, &ends, &committed);
    let first_at = |age_seconds: u64| -> Result<Offsets, Failure> {
        let at = now.as_millisecond().saturating_sub_unsigned(age_seconds.saturating_mul(1_000));
        asked.listed("ask for offsets by time", &behind.partitions(), Offset::Offset(at.max(0)))
    };
    let bound_seconds = bound.as_secs().max(1);
    let within_bound = behind.is_none() || !behind.holds_before(&first_at(bound_seconds)?);
    let seconds = oldest_age(&behind, bound_seconds, within_bound, first_at)?;
    let counts = counts.iter().map(|(_, count)| u32::try_from(*count).unwrap_or(0));
    Ok(LagObservation {
        partitions: counts.clone().sum(),
        partitions_max: counts.max().unwrap_or(0),
        messages: behind.messages(),
        seconds: Some(seconds),
        within_bound,
        offsets: offsets_of(&begins, &ends, &committed),
        observed_at: now,
    })
}

/// Where every partition stands, in the order of topics and numbers.
fn offsets_of(begins: &Offsets, ends: &Offsets, committed: &Offsets) -> Vec<PartitionOffsets> {
    let of = |((topic, partition), end): (&Partition, &i64)| {
        let key = (topic.clone(), *partition);
        let begin = begins.get(&key).copied().unwrap_or(0);
        let from = committed.get(&key).copied().unwrap_or(begin).max(begin);
        let committed = from.min(*end);
        PartitionOffsets { topic: topic.clone(), partition: *partition, committed, end: *end }
    };
    ends.iter().map(of).collect()
}

/// Partitions with something uncommitted: from where to where.
struct Behind(BTreeMap<Partition, (i64, i64)>);

impl Behind {
    fn of(begins: &Offsets, ends: &Offsets, committed: &Offsets) -> Self {
        let behind = ends.iter().filter_map(|(partition, end)| {
            let begin = begins.get(partition).copied().unwrap_or(0);
            // What retention took is not lag any more, and nothing can be past the end.
            let from = committed.get(partition).copied().unwrap_or(begin).max(begin);
            (from < *end).then(|| (partition.clone(), (from, *end)))
        });
        Self(behind.collect())
    }

    fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn partitions(&self) -> Vec<Partition> {
        self.0.keys().cloned().collect()
    }

    fn messages(&self) -> u64 {
        self.0.values().map(|(from, end)| end.abs_diff(*from)).sum()
    }

    /// Whether something uncommitted lies before these offsets; a partition that has none listed
    /// has no message at or after that time, so all of it does.
    fn holds_before(&self, first: &Offsets) -> bool {
        self.0.iter().any(|(partition, (from, end))| {
            first.get(partition).copied().filter(|offset| *offset >= 0).unwrap_or(*end) > *from
        })
    }
}

/// Age of the oldest uncommitted message in seconds: doubled from one second until nothing is that
/// old, then halved in between to a tenth. Two questions when there is next to no lag, some twenty
/// at a month of it.
fn oldest_age(
    behind: &Behind,
    bound_seconds: u64,
    within_bound: bool,
    first_at: impl Fn(u64) -> Result<Offsets, Failure>,
) -> Result<f64, Failure> {
    let older_than = |age| Ok::<bool, Failure>(behind.holds_before(&first_at(age)?));
    if behind.is_none() || !older_than(1)? {
        return Ok(0.0);
    }
    // The bound was asked for already: it is one end of the search.
    let (mut low, mut high) = if within_bound { (1, bound_seconds) } else { (bound_seconds, 0) };
    if high == 0 {
        high = low.saturating_mul(2);
        while high < AGE_SECONDS_MAX && older_than(high)? {
            low = high;
            high = high.saturating_mul(2);
        }
        high = high.min(AGE_SECONDS_MAX);
    }
    while high > low + (low / 10).max(1) {
        let middle = low + (high - low) / 2;
        if older_than(middle)? { low = middle } else { high = middle }
    }
    Ok(low as f64)
}

/// A client to put questions to.
struct Asked<'a> {
    consumer: &'a BaseConsumer<Causes>,
    deadline: Deadline,
}

impl Asked<'_> {
    fn partitions(&self, topic: &str) -> Result<i32, Failure> {
        let what = format!("describe topic {topic}");
        let metadata = self
            .consumer
            .fetch_metadata(Some(topic), self.deadline.at_most(QUESTION_MAX))
            .map_err(|error| Failure::call(&what, &error))?;
        let found = metadata.topics().iter().find(|each| each.name() == topic);
        let count = found.map_or(0, |found| found.partitions().len());
        match found.and_then(|found| found.error()) {
            Some(error) if count == 0 => Err(Failure::answered(&what, error.into())),
            None if count == 0 => {
                Err(Failure::new(Reason::TopicMissing, format!("topic {topic} does not exist")))
            }
            _ => Ok(i32::try_from(count).unwrap_or(i32::MAX)),
        }
    }

    /// The offsets that a time, the beginning or the end stands for.
    fn listed(&self, what: &str, all: &[Partition], at: Offset) -> Result<Offsets, Failure> {
        let list = list_of(all, at).map_err(|error| Failure::call(what, &error))?;
        let answer = self
            .consumer
            .offsets_for_times(list, self.deadline.at_most(QUESTION_MAX))
            .map_err(|error| Failure::call(what, &error))?;
        offsets_in(what, &answer)
    }

    /// The group's commits. Its coordinator may still be loading or moving (a broker just started,
    /// the first group of a cluster): that is asked again while the conversation's time lasts.
    fn committed(&self, all: &[Partition]) -> Result<Offsets, Failure> {
        loop {
            match self.committed_once(all) {
                Err(failure) if failure.passes && !self.deadline.left().is_zero() => {
                    std::thread::sleep(self.deadline.at_most(ASK_AGAIN));
                }
                answer => return answer,
            }
        }
    }

    fn committed_once(&self, all: &[Partition]) -> Result<Offsets, Failure> {
        let what = "ask for committed offsets";
        let list = list_of(all, Offset::Invalid).map_err(|error| Failure::call(what, &error))?;
        let answer = self
            .consumer
            .committed_offsets(list, self.deadline.at_most(QUESTION_MAX))
            .map_err(|error| Failure::call(what, &error))?;
        offsets_in(what, &answer)
    }
}

fn list_of(all: &[Partition], at: Offset) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(all.len());
    for (topic, partition) in all {
        list.add_partition_offset(topic, *partition, at)?;
    }
    Ok(list)
}

/// Real offsets of an answer; what has none (no commit, no message that late) is left out.
fn offsets_in(what: &str, answer: &TopicPartitionList) -> Result<Offsets, Failure> {
    let mut offsets = BTreeMap::new();
    for element in answer.elements() {
        element.error().map_err(|error| Failure::call(what, &error))?;
        if let Offset::Offset(offset) = element.offset() {
            offsets.insert((element.topic().to_owned(), element.partition()), offset);
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(values: &[i64]) -> Offsets {
        let numbered = values.iter().zip(0..).map(|(offset, at)| (("t".to_owned(), at), *offset));
        numbered.collect()
    }

    /// Scenario: no commit yet, retention past the commit, and nothing left. Guarantee: lag counts
    /// from what can still be read.
    #[test]
    fn lag_counts_from_what_can_still_be_read() {
        let behind = Behind::of(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &Offsets::new());
        assert_eq!(behind.messages(), 20);
        let committed = offsets(&[4, 20, 9]);
        let behind = Behind::of(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &committed);
        assert_eq!(behind.messages(), 6 + 10);
        assert_eq!(behind.partitions().len(), 2);
    }

    /// Scenario: the first offset of a time is the committed one, and one more. Guarantee: at the
    /// bound counts as within it, past it does not.
    #[test]
    fn the_bound_is_kept_when_the_commit_reaches_it() {
        let behind = Behind::of(&offsets(&[0]), &offsets(&[10]), &offsets(&[5]));
        assert!(!behind.holds_before(&offsets(&[5])));
        assert!(behind.holds_before(&offsets(&[6])));
        assert!(behind.holds_before(&Offsets::new()), "nothing is younger: all of it is older");
    }

    proptest! {
        /// Scenario: messages one a second, the oldest uncommitted of any age, any bound.
        /// Guarantee: the age found is within a tenth of it (or a second), in few questions.
        #[test]
        fn the_age_found_is_near_the_true_one(age in 0u64..2_000_000, bound in 1u64..100_000) {
            let end = 3_000_000i64;
            let from = end - i64::try_from(age).unwrap();
            let behind = Behind::of(&offsets(&[0]), &offsets(&[end]), &offsets(&[from]));
            let questions = std::cell::Cell::new(0);
            let first_at = |ask: u64| {
                questions.set(questions.get() + 1);
                // The message of age `a` has offset `end - a`.
                Ok(offsets(&[end - i64::try_from(ask).unwrap()]))
            };
            let within = !behind.holds_before(&first_at(bound).unwrap());
            prop_assert_eq!(within, age <= bound);
            let found = oldest_age(&behind, bound, within, first_at).unwrap();
            let off = (found - age as f64).abs();
            prop_assert!(off <= (age as f64 / 10.0).max(1.0) + 1.0, "{} for {}", found, age);
            prop_assert!(questions.get() <= 48, "{} questions", questions.get());
        }
    }
}
