//! Measures how long bytes of files have waited, in total and by namespace.
//!
//! The time at which a line was written is unknown; only the time at which a file had grown is. So
//! a file's wait is the age of a mark: at that moment the file had a certain size, and those bytes
//! aren't all confirmed. The reported time is never too long; under a steady lag it is at least
//! half of it. Bytes that only wait for a line's end don't count. Limits: [`MARKS_MAX`] marks for
//! each file with a backlog, 160 bytes with its map entry: 5 MiB for all files that may be known;
//! [`NAMESPACES_MAX`] namespaces.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::metrics::BacklogMetrics;
use millrace_tail::{FileId, Tail};

use super::find::source::FileSource;

/// Marks per file: the oldest, and some younger ones that replace it.
const MARKS_MAX: usize = 4;
/// A mark is added once this fraction (1/n) of the oldest mark's age has passed since the last.
const MARK_SHARE: u32 = 3;
/// Namespaces with their own metrics: 2 series each.
const NAMESPACES_MAX: usize = 20;
/// The label of all other namespaces together. No namespace has this name.
const OTHER: &str = "_other";

#[derive(Debug, Default)]
pub(super) struct Backlog {
    marks: HashMap<FileId, Marks>,
    /// The namespaces that have metrics now.
    reported: HashSet<String>,
}

/// The sizes of a file and when they were observed, oldest first.
#[derive(Debug, Default)]
struct Marks(Vec<(u64, Instant)>);

/// The backlog of several files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct BacklogSum {
    bytes: u64,
    waited: Duration,
}

impl Backlog {
    /// Updates the time gauge (seconds) and the gauges by namespace.
    pub(super) fn update_metrics(
        &mut self,
        tail: &Tail,
        sources: &[FileSource],
        metrics: &BacklogMetrics,
        now: Instant,
    ) {
        let mut before = std::mem::take(&mut self.marks);
        let mut waited_longest = Duration::ZERO;
        let mut namespaces: BTreeMap<&str, BacklogSum> = BTreeMap::new();
        for behind in tail.backlog_entries() {
            let mut waited = Duration::ZERO;
            if behind.waits {
                let mut marks = before.remove(&behind.file).unwrap_or_default();
                waited = marks.record_size(behind.size, behind.committed, now);
                self.marks.insert(behind.file, marks);
            }
            waited_longest = waited_longest.max(waited);
            let source = sources.get(behind.source);
            if let Some(namespace) = source.and_then(|source| source.namespace_of(behind.path)) {
                let bytes = behind.size - behind.committed;
                namespaces.entry(namespace).or_default().merge_sum(BacklogSum { bytes, waited });
            }
        }
        metrics.seconds.set(gauge_seconds(waited_longest));
        self.set_namespace_metrics(&top_namespaces(namespaces), metrics);
    }

    /// Sets the gauges by namespace, and removes those of namespaces without a backlog.
    fn set_namespace_metrics(
        &mut self,
        namespaces: &BTreeMap<&str, BacklogSum>,
        metrics: &BacklogMetrics,
    ) {
        let [bytes, waited] = [&metrics.namespace_bytes, &metrics.namespace_seconds];
        for (namespace, sum) in namespaces {
            bytes.with_label_values(&[namespace]).set(gauge_value(sum.bytes));
            waited.with_label_values(&[namespace]).set(gauge_seconds(sum.waited));
        }
        for ended in self.reported.iter().filter(|it| !namespaces.contains_key(it.as_str())) {
            // An error means that the series doesn't exist, as intended.
            let _ = bytes.remove_label_values(&[ended]);
            let _ = waited.remove_label_values(&[ended]);
        }
        self.reported = namespaces.keys().map(|&namespace| namespace.to_owned()).collect();
    }
}

impl Marks {
    /// Records a size and returns the minimum time that the oldest unconfirmed byte has waited.
    fn record_size(&mut self, size: u64, committed: u64, now: Instant) -> Duration {
        let Self(marks) = self;
        // A copy from which the text continues may be shorter than the observed size.
        marks.retain(|(bytes, _)| (committed + 1..=size).contains(bytes));
        let oldest = marks.first().map(|(_, at)| now.duration_since(*at));
        let since_last = marks.last().map(|(_, at)| now.duration_since(*at));
        let has_grown = marks.last().is_none_or(|(bytes, _)| size > *bytes);
        if has_grown && since_last >= oldest.map(|oldest| oldest / MARK_SHARE) {
            if marks.len() >= MARKS_MAX {
                marks.remove(1);
            }
            marks.push((size, now));
        }
        oldest.unwrap_or_default()
    }
}

impl BacklogSum {
    fn merge_sum(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.waited = self.waited.max(other.waited);
    }
}

/// Returns the namespaces with the most bytes, and the others merged into one.
fn top_namespaces(namespaces: BTreeMap<&str, BacklogSum>) -> BTreeMap<&str, BacklogSum> {
    let mut all: Vec<(&str, BacklogSum)> = namespaces.into_iter().collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
    let mut top = BTreeMap::new();
    for (at, (namespace, sum)) in all.into_iter().enumerate() {
        let name = if at < NAMESPACES_MAX { namespace } else { OTHER };
        top.entry(name).or_insert_with(BacklogSum::default).merge_sum(sum);
    }
    top
}

fn gauge_seconds(time: Duration) -> i64 {
    gauge_value(time.as_secs())
}

fn gauge_value(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Scenario: a file grows by a byte a second, and each byte is confirmed after a constant lag.
    /// Guarantee: once the lag has lasted, the reported time is at least half of it, and never
    /// more.
    #[test]
    fn a_steady_lag_is_told_as_half_of_it_or_more() {
        let began = Instant::now();
        for lag in [2, 5, 30, 600] {
            let mut marks = Marks::default();
            for second in 1..lag * 6 {
                let now = began + SECOND * u32::try_from(second).unwrap();
                let waited = marks.record_size(second, second.saturating_sub(lag), now).as_secs();
                assert!(waited <= lag.min(second), "{waited} s of {lag}");
                assert!(second < lag * 2 || waited >= lag / 2, "{waited} s of {lag} at {second}");
                assert!(marks.0.len() <= MARKS_MAX);
            }
        }
    }

    /// Scenario: nothing is confirmed for ten minutes while a file grows; then all of its initial
    /// bytes are; then the text continues in a shorter copy. Guarantee: the time is exactly the
    /// first mark's age, then shorter, and marks beyond the copy's end don't count.
    #[test]
    fn the_time_is_that_of_the_oldest_bytes() {
        let (began, mut marks) = (Instant::now(), Marks::default());
        for second in 0..=600 {
            let waited = marks.record_size(
                100 + second,
                40,
                began + SECOND * u32::try_from(second).unwrap(),
            );
            assert_eq!(waited.as_secs(), second);
        }
        let now = began + SECOND * 601;
        let waited = marks.record_size(701, 100, now);
        assert!(waited < SECOND * 600 && waited > SECOND * 100, "{waited:?}");
        assert_eq!(marks.record_size(101, 100, now), Duration::ZERO);
    }

    /// Scenario: more namespaces have a backlog than have their own metrics. Guarantee: those with
    /// the most bytes have them, the others are merged, and no byte is missing.
    #[test]
    fn namespaces_beyond_the_bound_are_one() {
        let names: Vec<String> = (0..NAMESPACES_MAX + 5).map(|at| format!("n{at:02}")).collect();
        let sum =
            |at: usize| BacklogSum { bytes: at as u64 + 1, waited: SECOND * (30 - at as u32) };
        let all = names.iter().enumerate().map(|(at, name)| (name.as_str(), sum(at)));
        let top = top_namespaces(all.collect());
        assert_eq!(top.len(), NAMESPACES_MAX + 1);
        assert_eq!(top[OTHER], BacklogSum { bytes: 1 + 2 + 3 + 4 + 5, waited: SECOND * 30 });
        assert_eq!(top["n05"], sum(5));
        assert_eq!(top.values().map(|sum| sum.bytes).sum::<u64>(), (1..=25).sum::<u64>());
    }
}
