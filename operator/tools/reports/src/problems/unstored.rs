//! Records that did not reach their table: refused, dead letters, lost; by reason as far as pods
//! report it.

use std::collections::BTreeMap;

use millrace_crds::TopicName;
use serde::Serialize;

use crate::facts::{CounterSample, Facts};

/// What happened to the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Retention deleted them unread.
    Lost,
    /// They are in the dead-letter topic.
    DeadLetter,
    /// They were refused, and their clients got the refusal.
    Refused,
}

/// Records of one fate and cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnstoredRecords {
    /// What happened to them.
    pub fate: Fate,
    /// Their signal, or the topic of lost records.
    pub of: String,
    /// The reason, as a stable word; `None` where only the sum is known.
    pub reason: Option<String>,
    /// The number: with a reason since the processes began, without one since the pool was created.
    pub count: u64,
    /// The bytes of dead letters since the processes began, if the pods report them.
    pub bytes: Option<u64>,
    /// When the number last grew, in seconds since 1970; only of sums.
    pub last_at_second: Option<i64>,
    /// The topic that has the dead letters, if it is one of the pipeline's.
    pub topic: Option<String>,
}

/// The ending of dead-letter topics.
const DEAD_LETTER_ENDING: &str = "_dead_letter";

/// Returns the records that were not stored, the worst first.
#[must_use]
pub fn unstored_records(facts: &Facts) -> Vec<UnstoredRecords> {
    let mut all = status_tallies(facts);
    all.extend(by_reason(facts, Fate::DeadLetter, |sample| &sample.dead_lettered));
    all.extend(by_reason(facts, Fate::Refused, |sample| &sample.refused));
    let bytes = sums(facts, |sample| &sample.dead_letter_bytes);
    for one in all.iter_mut().filter(|one| one.fate == Fate::DeadLetter) {
        one.topic = dead_letter_topic(facts, &one.of);
        let key = one.reason.clone().map(|reason| (one.of.clone(), reason));
        one.bytes = key.and_then(|key| bytes.get(&key).copied());
    }
    all.sort();
    all
}

/// Returns the topic with the dead letters of a signal.
fn dead_letter_topic(facts: &Facts, signal: &str) -> Option<String> {
    let mut signals = facts.pipeline.spec.signals.iter();
    let (signal, spec) = signals.find(|(one, _)| one.as_str() == signal)?;
    let source = spec.topic_name.as_ref().map_or(signal.default_topic(), TopicName::as_str);
    let topic = format!("{source}{DEAD_LETTER_ENDING}");
    let names = facts.topics.iter().filter_map(|it| it.status.as_ref()?.topic_name.as_deref());
    names.into_iter().any(|name| name == topic).then_some(topic)
}

/// Returns sums that outlast processes, from the pool's status.
fn status_tallies(facts: &Facts) -> Vec<UnstoredRecords> {
    let mut all = Vec::new();
    for status in facts.gateways.iter().filter_map(|pool| pool.status.as_ref()) {
        for (fate, tally) in
            [(Fate::Lost, &status.data_lost), (Fate::DeadLetter, &status.dead_letters)]
        {
            let parts = tally.iter().flat_map(|tally| &tally.parts);
            all.extend(parts.filter(|part| part.count > 0).map(|part| UnstoredRecords {
                fate,
                of: part.name.clone(),
                reason: None,
                count: part.count.unsigned_abs(),
                bytes: None,
                last_at_second: tally.as_ref().map(|it| it.last_increase_at.0.as_second()),
                topic: None,
            }));
        }
    }
    all
}

/// Returns counts by signal and reason, summed over pods.
fn sums(
    facts: &Facts,
    counts: impl Fn(&CounterSample) -> &BTreeMap<(String, String), u64>,
) -> BTreeMap<(String, String), u64> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for sample in facts.pods.iter().filter_map(|pod| pod.now.as_ref()) {
        for (key, count) in counts(sample) {
            let sum = sums.entry(key.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    sums
}

fn by_reason(
    facts: &Facts,
    fate: Fate,
    counts: impl Fn(&CounterSample) -> &BTreeMap<(String, String), u64>,
) -> Vec<UnstoredRecords> {
    let some = sums(facts, counts).into_iter().filter(|(_, count)| *count > 0);
    some.map(|((of, reason), count)| UnstoredRecords {
        fate,
        of,
        reason: Some(reason),
        count,
        bytes: None,
        last_at_second: None,
        topic: None,
    })
    .collect()
}
