//! Compares the pods of a new unit with those of the old one over the same time. Pure.
//!
//! Three checks need no comparison (records and bytes of files that are not accounted for, inserts
//! that fail where none did before). The others compare with the baseline and are skipped without
//! one, or when either side did too little. Every threshold is a constant with its reason.

use crate::fault::{FaultKind, UnitFault};

/// Records that a canary must have received before its figures count. One message holds up to some
/// thousands: below this, the figures depend on a handful of messages.
pub const RECORDS_MIN: u64 = 10_000;
/// Share of the received records that may be missing from the sum: the counters of one reading are
/// read one after another while records move on.
const UNACCOUNTED_SHARE: f64 = 0.01;
/// Records that may be missing whatever the share: one batch that moves between two counters of a
/// reading. Batches hold 100,000 rows by default.
const UNACCOUNTED_RECORDS: f64 = 100_000.0;
/// Minimum share of the baseline's records per CPU-second. Pods of one unit differ by up to a
/// fifth, as their partitions do.
const THROUGHPUT_SHARE_MIN: f64 = 0.7;
/// CPU time below which records per CPU-second mostly reflect the process's fixed cost.
const CPU_SECONDS_MIN: f64 = 2.0;
/// Memory may be this multiple of the baseline's: other allocators retain up to 40 % more.
const MEMORY_SHARE_MAX: f64 = 1.5;
/// And this much on top, so that a buffer does not fail a small process: 64 MiB, two open batches.
const MEMORY_SLACK_BYTES: f64 = 67_108_864.0;
/// Failed inserts that count; fewer mean that a server was briefly busy.
const INSERT_FAILURES_MIN: u64 = 5;
/// Failed inserts, lag: how much worse than the baseline is tolerated, as a multiple of it.
const WORSE_SHARE_MAX: f64 = 2.0;
/// Messages by which lag must have grown to count: the backlog between two polls of a busy
/// partition.
const LAG_MESSAGES_MIN: f64 = 100.0;
/// Bytes of files that may be in records, and neither confirmed nor behind: a reader's in-flight
/// bytes of files that were then truncated, eight requests of 1 MB and the one it fills.
const UNACCOUNTED_BYTES: u64 = 9 << 20;
/// Bytes by which the backlog must have grown to count: twice that, since a busy node that keeps up
/// has so much in flight at any time.
const BEHIND_BYTES_MIN: f64 = (18 << 20) as f64;
/// Lost bytes that count: fewer come from one file that a program truncated itself.
const LOST_BYTES_MIN: f64 = (1 << 20) as f64;
/// Share of the received records from which rules count as dropping all of them. A rule that drops
/// debug logs or health checks leaves more than one record in a hundred; one that leaves fewer
/// where the old pods stored more has a mistake in its condition.
const DROPPED_SHARE_MAX: f64 = 0.99;

/// The figures of one pod in the time watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadFigures {
    /// The time watched, in seconds.
    pub seconds: f64,
    /// Records received.
    pub records_in: u64,
    /// Records stored.
    pub records_out: u64,
    /// Records that became dead letters, or that were refused and reported.
    pub records_rejected: u64,
    /// Records that rules dropped.
    pub records_dropped: u64,
    /// The change in records held.
    pub held_change: i64,
    /// CPU time used, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// Inserts that failed and were retried.
    pub insert_failures: u64,
    /// The change of its partitions' lag in messages, if known.
    pub lag_change: Option<i64>,
    /// The figures of its node's log files, if it reads any.
    pub files: Option<FilesLoad>,
}

/// The figures of one pod for its node's log files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesLoad {
    /// Bytes that came into records since the process began and are neither reported as confirmed
    /// nor still behind; 0 if all bytes read are confirmed or behind.
    pub unaccounted_bytes: u64,
    /// The change in bytes behind in the time watched.
    pub behind_change: i64,
    /// Bytes lost in the time watched.
    pub lost_bytes: u64,
}

impl FilesLoad {
    /// Returns the unaccounted bytes of one moment: bytes in records that are not confirmed must be
    /// behind.
    #[must_use]
    pub fn count_unaccounted(accepted_bytes: u64, confirmed_bytes: u64, behind_bytes: u64) -> u64 {
        let missing = accepted_bytes.saturating_sub(confirmed_bytes).saturating_sub(behind_bytes);
        // No more can be confirmed than is in records.
        missing.max(confirmed_bytes.saturating_sub(accepted_bytes))
    }
}

/// The summed figures of one unit's pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadSum {
    /// The number of pods.
    pub pods: u32,
    /// Records received by all of them.
    pub records: u64,
    /// CPU time used by all of them, in seconds.
    pub cpu_seconds: f64,
    /// The time watched, in seconds, of all pods together.
    pub pod_seconds: f64,
    /// The largest resident memory, in bytes.
    pub resident_bytes: u64,
    insert_failures: u64,
    unaccounted: f64,
    dropped: u64,
    lag_change: Option<f64>,
    files: Option<FilesSum>,
}

/// The summed figures of several pods' files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FilesSum {
    /// The maximum of one pod.
    unaccounted_bytes: u64,
    behind_change: f64,
    lost_bytes: f64,
}

impl LoadSum {
    /// Sums up the pods; `None` when there are none.
    #[must_use]
    pub fn from_loads(loads: &[LoadFigures]) -> Option<Self> {
        let mut sum = Self::default();
        for load in loads {
            sum.pods = sum.pods.saturating_add(1);
            sum.records = sum.records.saturating_add(load.records_in);
            sum.cpu_seconds += non_negative(load.cpu_seconds);
            sum.pod_seconds += non_negative(load.seconds);
            sum.resident_bytes = sum.resident_bytes.max(load.resident_bytes);
            sum.insert_failures = sum.insert_failures.saturating_add(load.insert_failures);
            sum.unaccounted += load.records_in as f64
                - load.records_out as f64
                - load.records_rejected as f64
                - load.records_dropped as f64
                - load.held_change as f64;
            sum.dropped = sum.dropped.saturating_add(load.records_dropped);
            if let Some(change) = load.lag_change {
                sum.lag_change = Some(sum.lag_change.unwrap_or(0.0) + change as f64);
            }
            if let Some(files) = load.files {
                let all = sum.files.get_or_insert_default();
                all.unaccounted_bytes = all.unaccounted_bytes.max(files.unaccounted_bytes);
                all.behind_change += files.behind_change as f64;
                all.lost_bytes += files.lost_bytes as f64;
            }
        }
        (sum.pods > 0).then_some(sum)
    }

    /// Returns records per second of CPU time; `None` when too little of either was used.
    #[must_use]
    pub fn records_per_cpu_second(&self) -> Option<f64> {
        let enough = self.cpu_seconds >= CPU_SECONDS_MIN && self.records >= RECORDS_MIN;
        enough.then(|| self.records as f64 / self.cpu_seconds)
    }

    /// Returns the CPUs that one pod used on average; 1.0 is one core.
    #[must_use]
    pub fn cpus_per_pod(&self) -> f64 {
        if self.pod_seconds > 0.0 { self.cpu_seconds / self.pod_seconds } else { 0.0 }
    }

    /// Returns whether rules dropped nearly all of enough records; `None` with too few records.
    fn drops_all(&self) -> Option<bool> {
        let share = self.dropped as f64 / self.records as f64;
        (self.records >= RECORDS_MIN).then_some(share >= DROPPED_SHARE_MAX)
    }

    /// Returns a count of all pods, per pod and second.
    fn rate_per_pod(&self, count: f64) -> f64 {
        if self.pod_seconds > 0.0 { count / self.pod_seconds } else { 0.0 }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryVerdict {
    /// Nothing is worse.
    Passed,
    /// The new pods received too few records for a comparison.
    TooFew {
        /// Records they received.
        records: u64,
    },
    /// Something is worse.
    Failed(UnitFault),
}

/// Compares new pods with old ones; an empty `old` skips the checks that need a baseline.
#[must_use]
pub fn compare_loads(new: &[LoadFigures], old: &[LoadFigures]) -> CanaryVerdict {
    let Some(new) = LoadSum::from_loads(new) else { return CanaryVerdict::TooFew { records: 0 } };
    let old = LoadSum::from_loads(old);
    let old = old.as_ref();
    let fault = check_inserts(&new, old)
        .or_else(|| check_accounting(&new))
        .or_else(|| check_lag(&new, old))
        .or_else(|| check_files(&new, old));
    if let Some(fault) = fault {
        return CanaryVerdict::Failed(fault);
    }
    if new.records < RECORDS_MIN {
        return CanaryVerdict::TooFew { records: new.records };
    }
    let fault = old.and_then(|old| {
        check_drops(&new, old)
            .or_else(|| check_throughput(&new, old))
            .or_else(|| check_memory(&new, old))
    });
    fault.map_or(CanaryVerdict::Passed, CanaryVerdict::Failed)
}

fn check_accounting(new: &LoadSum) -> Option<UnitFault> {
    let allowed = (new.records as f64 * UNACCOUNTED_SHARE).max(UNACCOUNTED_RECORDS);
    (new.unaccounted.abs() > allowed).then(|| {
        let text = format!(
            "of {} received records, {:.0} are neither stored, nor dead letters, nor dropped by a \
             rule, nor in flight",
            new.records, new.unaccounted
        );
        UnitFault::new(FaultKind::CanaryRecordsUnaccounted, text)
    })
}

/// Finds rules that drop nearly all records, where those of the old pods, if any, did not.
fn check_drops(new: &LoadSum, old: &LoadSum) -> Option<UnitFault> {
    let is_new = new.drops_all() == Some(true) && old.drops_all() == Some(false);
    is_new.then(|| {
        let text = format!(
            "rules dropped {} of {} received records, and {} of {} in the old pods; to drop them \
             all, remove the signal or the pool",
            new.dropped, new.records, old.dropped, old.records
        );
        UnitFault::new(FaultKind::CanaryDropsAll, text)
    })
}

fn check_inserts(new: &LoadSum, old: Option<&LoadSum>) -> Option<UnitFault> {
    let of_old = old.map_or(0.0, |old| old.rate_per_pod(old.insert_failures as f64));
    let of_new = new.rate_per_pod(new.insert_failures as f64);
    let worse = new.insert_failures >= INSERT_FAILURES_MIN && of_new > of_old * WORSE_SHARE_MAX;
    worse.then(|| {
        let text = format!(
            "{} inserts failed; per pod and minute {:.1}, {:.1} in the old pods",
            new.insert_failures,
            of_new * 60.0,
            of_old * 60.0
        );
        UnitFault::new(FaultKind::CanaryInsertsFail, text)
    })
}

fn check_lag(new: &LoadSum, old: Option<&LoadSum>) -> Option<UnitFault> {
    let grown = new.lag_change?;
    let of_new = new.rate_per_pod(grown);
    let of_old = old.and_then(|old| Some(old.rate_per_pod(old.lag_change?))).unwrap_or(0.0);
    let worse = grown >= LAG_MESSAGES_MIN && of_new > of_old.max(0.0) * WORSE_SHARE_MAX;
    worse.then(|| {
        let text = format!(
            "lag of its partitions grew by {of_new:.2} messages a second and pod, by {of_old:.2} \
             in the old pods"
        );
        UnitFault::new(FaultKind::CanaryLagGrows, text)
    })
}

fn check_files(new: &LoadSum, old: Option<&LoadSum>) -> Option<UnitFault> {
    let files = new.files?;
    if files.unaccounted_bytes > UNACCOUNTED_BYTES {
        let text = format!(
            "{} bytes of a node's files were read, and are neither acknowledged nor behind",
            files.unaccounted_bytes
        );
        return Some(UnitFault::new(FaultKind::CanaryRecordsUnaccounted, text));
    }
    let of_old = |of: fn(FilesSum) -> f64| {
        old.and_then(|old| Some(old.rate_per_pod(of(old.files?)))).unwrap_or(0.0).max(0.0)
    };
    let is_worse = |count: f64, least: f64, of_old: f64| {
        count >= least && new.rate_per_pod(count) > of_old * WORSE_SHARE_MAX
    };
    let lost = of_old(|files| files.lost_bytes);
    if is_worse(files.lost_bytes, LOST_BYTES_MIN, lost) {
        let text = format!(
            "{:.0} bytes of files were lost unread; per pod and minute {:.0}, {:.0} in the old \
             pods",
            files.lost_bytes,
            new.rate_per_pod(files.lost_bytes) * 60.0,
            lost * 60.0
        );
        return Some(UnitFault::new(FaultKind::CanaryLosesLogs, text));
    }
    let behind = of_old(|files| files.behind_change);
    if is_worse(files.behind_change, BEHIND_BYTES_MIN, behind) {
        let text = format!(
            "the backlog of files grew by {:.0} bytes a second and pod, by {behind:.0} in the old \
             pods",
            new.rate_per_pod(files.behind_change)
        );
        return Some(UnitFault::new(FaultKind::CanaryFallsBehind, text));
    }
    None
}

/// Returns a fault if the new pods' nodes gave nothing and the others much: they don't find their
/// files. Call it only after the analysis time, since a quiet minute proves nothing.
#[must_use]
pub fn reads_nothing(new: &[LoadFigures], old: &[LoadFigures]) -> Option<UnitFault> {
    let (new, old) = (LoadSum::from_loads(new)?, LoadSum::from_loads(old)?);
    new.files?;
    let of_each = old.records / u64::from(old.pods.max(1));
    let is_silent = new.records == 0 && old.files.is_some() && of_each >= RECORDS_MIN;
    is_silent.then(|| {
        let text = format!("their nodes sent no record, each other node {of_each}");
        UnitFault::new(FaultKind::CanaryReadsNothing, text)
    })
}

fn check_throughput(new: &LoadSum, old: &LoadSum) -> Option<UnitFault> {
    let (of_new, of_old) = (new.records_per_cpu_second()?, old.records_per_cpu_second()?);
    (of_new < of_old * THROUGHPUT_SHARE_MIN).then(|| {
        let text = format!(
            "{of_new:.0} records per CPU-second, {of_old:.0} in the old pods; at least {:.0} % are \
             required",
            THROUGHPUT_SHARE_MIN * 100.0
        );
        UnitFault::new(FaultKind::CanarySlower, text)
    })
}

fn check_memory(new: &LoadSum, old: &LoadSum) -> Option<UnitFault> {
    let allowed = old.resident_bytes as f64 * MEMORY_SHARE_MAX + MEMORY_SLACK_BYTES;
    (new.resident_bytes as f64 > allowed).then(|| {
        let text = format!(
            "{} MiB of memory, at most {} in the old pods",
            new.resident_bytes >> 20,
            old.resident_bytes >> 20
        );
        UnitFault::new(FaultKind::CanaryMemoryHigher, text)
    })
}

/// Replaces a figure that is negative or not a number with 0.
fn non_negative(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}
