//! Since when bytes of files have waited, and of which namespaces they are.
//!
//! Nobody knows when a line was written, only when a file was seen to have grown. So a file's time
//! is that of a mark: at that moment it had so many bytes, and they aren't all confirmed. It is
//! never too long; under a steady lag it is half of it at least. What only waits for a line's end
//! doesn't count. Limits: [`MARKS_MAX`] marks for each file that is behind, with its place in the
//! map 160 bytes: 5 MiB for all files that may be known; [`NAMESPACES_MAX`] namespaces.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use millrace_pipeline::file_metrics::BacklogMetrics;
use millrace_tail::{FileId, Tail};

use super::source::Source;

/// Marks of one file: the oldest, and some younger ones that take its place.
const MARKS_MAX: usize = 4;
/// A mark is made once this part of the oldest one's time has passed since the last.
const MARK_SHARE: u32 = 3;
/// Namespaces with figures of their own: 2 series each.
const NAMESPACES_MAX: usize = 20;
/// All others together. No namespace is called that.
const OTHER: &str = "_other";

/// What is behind, as it was counted last.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    marks: HashMap<FileId, Marks>,
    /// The namespaces that have figures now.
    shown: HashSet<String>,
}

/// When a file had how many bytes, the oldest first.
#[derive(Debug, Default)]
struct Marks(Vec<(u64, Instant)>);

/// What is behind of some files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    waited: Duration,
}

impl Backlog {
    /// Sets the figures in seconds, and those by namespace.
    pub(super) fn count(
        &mut self,
        tail: &Tail,
        sources: &[Source],
        metrics: &BacklogMetrics,
        now: Instant,
    ) {
        let mut before = std::mem::take(&mut self.marks);
        let mut waited_longest = Duration::ZERO;
        let mut namespaces: BTreeMap<&str, Sum> = BTreeMap::new();
        for behind in tail.behind() {
            let mut waited = Duration::ZERO;
            if behind.waits {
                let mut marks = before.remove(&behind.file).unwrap_or_default();
                waited = marks.note(behind.size, behind.committed, now);
                self.marks.insert(behind.file, marks);
            }
            waited_longest = waited_longest.max(waited);
            let source = sources.get(behind.source);
            if let Some(namespace) = source.and_then(|source| source.namespace(behind.path)) {
                let bytes = behind.size - behind.committed;
                namespaces.entry(namespace).or_default().add(Sum { bytes, waited });
            }
        }
        metrics.seconds.set(seconds(waited_longest));
        self.show(&shortened(namespaces), metrics);
    }

    /// Sets the figures by namespace, and takes out those of namespaces that have none now.
    fn show(&mut self, namespaces: &BTreeMap<&str, Sum>, metrics: &BacklogMetrics) {
        let [bytes, waited] = [&metrics.namespace_bytes, &metrics.namespace_seconds];
        for (namespace, sum) in namespaces {
            bytes.with_label_values(&[namespace]).set(whole(sum.bytes));
            waited.with_label_values(&[namespace]).set(seconds(sum.waited));
        }
        for gone in self.shown.iter().filter(|it| !namespaces.contains_key(it.as_str())) {
            // What isn't there needn't be removed.
            let _ = bytes.remove_label_values(&[gone]);
            let _ = waited.remove_label_values(&[gone]);
        }
        self.shown = namespaces.keys().map(|&namespace| namespace.to_owned()).collect();
    }
}

impl Marks {
    /// For how long the oldest byte that isn't confirmed has waited at least.
    fn note(&mut self, size: u64, committed: u64, now: Instant) -> Duration {
        let Self(marks) = self;
        // A copy that the text is read on from may be shorter than what was seen of it.
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

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.waited = self.waited.max(other.waited);
    }
}

/// Those with the most bytes, and the others as one.
fn shortened(namespaces: BTreeMap<&str, Sum>) -> BTreeMap<&str, Sum> {
    let mut all: Vec<(&str, Sum)> = namespaces.into_iter().collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
    let mut kept = BTreeMap::new();
    for (at, (namespace, sum)) in all.into_iter().enumerate() {
        let name = if at < NAMESPACES_MAX { namespace } else { OTHER };
        kept.entry(name).or_insert_with(Sum::default).add(sum);
    }
    kept
}

fn seconds(time: Duration) -> i64 {
    whole(time.as_secs())
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Scenario: a file grows by a byte a second, and each is confirmed after a lag that stays the
    /// same. Guarantee: once it has lasted, the time is half of the lag at least, and never more
    /// than it.
    #[test]
    fn a_steady_lag_is_told_as_half_of_it_or_more() {
        let began = Instant::now();
        for lag in [2, 5, 30, 600] {
            let mut marks = Marks::default();
            for second in 1..lag * 6 {
                let now = began + SECOND * u32::try_from(second).unwrap();
                let waited = marks.note(second, second.saturating_sub(lag), now).as_secs();
                assert!(waited <= lag.min(second), "{waited} s of {lag}");
                assert!(second < lag * 2 || waited >= lag / 2, "{waited} s of {lag} at {second}");
                assert!(marks.0.len() <= MARKS_MAX);
            }
        }
    }

    /// Scenario: nothing is confirmed for ten minutes while a file grows; then all that was there
    /// at first is; then the text goes on in a copy that is shorter. Guarantee: the time is exactly
    /// that of the first mark, then shorter, and marks beyond the copy's end don't count.
    #[test]
    fn the_time_is_that_of_the_oldest_bytes() {
        let (began, mut marks) = (Instant::now(), Marks::default());
        for second in 0..=600 {
            let waited =
                marks.note(100 + second, 40, began + SECOND * u32::try_from(second).unwrap());
            assert_eq!(waited.as_secs(), second);
        }
        let now = began + SECOND * 601;
        let waited = marks.note(701, 100, now);
        assert!(waited < SECOND * 600 && waited > SECOND * 100, "{waited:?}");
        assert_eq!(marks.note(101, 100, now), Duration::ZERO);
    }

    /// Scenario: more namespaces are behind than have figures of their own. Guarantee: those with
    /// the most bytes have them, the others are one, and no byte is missing.
    #[test]
    fn namespaces_beyond_the_bound_are_one() {
        let names: Vec<String> = (0..NAMESPACES_MAX + 5).map(|at| format!("n{at:02}")).collect();
        let sum = |at: usize| Sum { bytes: at as u64 + 1, waited: SECOND * (30 - at as u32) };
        let all = names.iter().enumerate().map(|(at, name)| (name.as_str(), sum(at)));
        let kept = shortened(all.collect());
        assert_eq!(kept.len(), NAMESPACES_MAX + 1);
        assert_eq!(kept[OTHER], Sum { bytes: 1 + 2 + 3 + 4 + 5, waited: SECOND * 30 });
        assert_eq!(kept["n05"], sum(5));
        assert_eq!(kept.values().map(|sum| sum.bytes).sum::<u64>(), (1..=25).sum::<u64>());
    }
}
