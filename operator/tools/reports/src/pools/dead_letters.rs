//! Lists the newest dead letters, without their content, as gateway pods report them.

use serde::Deserialize;

/// A pod's newest dead letters, as its page `/dead-letters` states them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterSample {
    /// The dead letters, the newest first.
    pub dead_letters: Vec<DeadLetterEntry>,
}

/// A dead letter in its topic, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterEntry {
    /// The signal of its records.
    pub signal: String,
    /// The dead-letter topic.
    pub topic: String,
    /// The partition of that topic.
    pub partition: i32,
    /// The offset in that partition, if the broker reported it.
    pub offset: Option<i64>,
    /// The topic from which it was read.
    pub source_topic: String,
    /// The partition from which it was read.
    pub source_partition: i32,
    /// The offset at which it was read.
    pub source_offset: i64,
    /// Why it can't be stored, as a stable word.
    pub reason: String,
    /// The bytes of its payload.
    pub bytes: u64,
    /// When the topic got it, in seconds since 1970.
    pub stored_at_seconds: i64,
}

/// The newest dead letters of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterReport {
    /// The dead letters, the newest first.
    pub dead_letters: Vec<DeadLetterEntry>,
    /// Gateway pods that reported.
    pub answered: usize,
    /// Gateway pods that run.
    pub pods: usize,
}

/// Merges the samples of `pods` gateway pods.
#[must_use]
pub fn merge_dead_letters(samples: Vec<DeadLetterSample>, pods: usize) -> DeadLetterReport {
    let answered = samples.len();
    let all = samples.into_iter().flat_map(|sample| sample.dead_letters);
    let mut dead_letters: Vec<_> = all.collect();
    // The sort is stable: those of one pod and second stay in its order.
    dead_letters.sort_by_key(|one| std::cmp::Reverse(one.stored_at_seconds));
    DeadLetterReport { dead_letters, answered, pods }
}

#[cfg(test)]
mod tests {
    use super::{DeadLetterEntry, DeadLetterSample, merge_dead_letters};

    /// Scenario: two of three pods report. Guarantee: the newest of both comes first, and those of
    /// one second stay in the order of their pod.
    #[test]
    fn dead_letters_of_pods_are_merged_by_time() {
        let sample = |all: &[(i64, i64)]| {
            let one = |(source_offset, stored_at_seconds): &(i64, i64)| DeadLetterEntry {
                source_offset: *source_offset,
                stored_at_seconds: *stored_at_seconds,
                ..DeadLetterEntry::default()
            };
            DeadLetterSample { dead_letters: all.iter().map(one).collect() }
        };
        let samples = vec![sample(&[(8, 30), (7, 30), (6, 10)]), sample(&[(3, 40), (2, 20)])];
        let report = merge_dead_letters(samples, 3);
        let order: Vec<_> = report.dead_letters.iter().map(|it| it.source_offset).collect();
        assert_eq!(order, [3, 8, 7, 2, 6]);
        assert_eq!((report.answered, report.pods), (2, 3));
    }
}
