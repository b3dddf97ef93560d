//! Records that took another way than to their table: refused, set aside, lost; by reason as far
//! as pods tell it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::facts::{Facts, Sample};

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Retention deleted them unread.
    Lost,
    /// They are in the dead-letter topic.
    DeadLetter,
    /// Their clients were told.
    Refused,
}

/// Records of one fate and cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aside {
    /// What became of them.
    pub fate: Fate,
    /// Their signal, or their topic where they were lost.
    pub of: String,
    /// Why, as a stable word; none where only the sum is known.
    pub reason: Option<String>,
    /// How many: with a reason since the processes began, without one since the pool was made.
    pub count: u64,
}

/// What took another way, the worst first.
#[must_use]
pub fn aside(facts: &Facts) -> Vec<Aside> {
    let mut all = tallies(facts);
    all.extend(by_reason(facts, Fate::DeadLetter, |sample| &sample.dead_lettered));
    all.extend(by_reason(facts, Fate::Refused, |sample| &sample.refused));
    all.sort();
    all
}

/// Sums that outlast processes, from the pool's status.
fn tallies(facts: &Facts) -> Vec<Aside> {
    let mut all = Vec::new();
    for status in facts.gateways.iter().filter_map(|pool| pool.status.as_ref()) {
        for (fate, tally) in
            [(Fate::Lost, &status.data_lost), (Fate::DeadLetter, &status.dead_letters)]
        {
            let parts = tally.iter().flat_map(|tally| &tally.parts);
            all.extend(parts.filter(|part| part.count > 0).map(|part| Aside {
                fate,
                of: part.name.clone(),
                reason: None,
                count: part.count.unsigned_abs(),
            }));
        }
    }
    all
}

fn by_reason(
    facts: &Facts,
    fate: Fate,
    counts: impl Fn(&Sample) -> &BTreeMap<(String, String), u64>,
) -> Vec<Aside> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for sample in facts.pods.iter().filter_map(|pod| pod.now.as_ref()) {
        for (key, count) in counts(sample) {
            let sum = sums.entry(key.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    let some = sums.into_iter().filter(|(_, count)| *count > 0);
    some.map(|((of, reason), count)| Aside { fate, of, reason: Some(reason), count }).collect()
}
