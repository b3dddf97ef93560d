//! Whether pods of a new unit perform as well as those of the old one: a pure comparison of both
//! over the same time.
//!
//! Three checks need no comparison (records and bytes of files that are not accounted for, inserts
//! that fail where none did before); the others compare with the baseline and are left out when
//! there is none, or when either side did too little. Every threshold is a constant with its
//! reason.

use crate::fault::{Fault, FaultKind};

/// Records a canary must have taken before its figures mean anything. One message holds up to some
/// thousands: below this, whole figures hang on a handful of messages.
pub const RECORDS_MIN: u64 = 10_000;
/// Share of the records taken that may be missing from the sum: counters of one look are read one
/// after another while records move on.
const UNACCOUNTED_SHARE: f64 = 0.01;
/// Records that may be missing whatever the share: one batch that is counted out between two
/// counters of a look. Batches hold 100,000 rows by default.
const UNACCOUNTED_RECORDS: f64 = 100_000.0;
/// The least share of the baseline's records per CPU-second that passes. Pods of one unit differ by
/// up to a fifth, as their partitions do.
const THROUGHPUT_SHARE_MIN: f64 = 0.7;
/// Processor time below which records per CPU-second are mostly what a process does anyway.
const CPU_SECONDS_MIN: f64 = 2.0;
/// Memory may be this much of the baseline's: other allocators keep up to 40 % more.
const MEMORY_SHARE_MAX: f64 = 1.5;
/// And this much on top, so that small processes are not judged by a buffer: 64 MiB, two open
/// batches.
const MEMORY_SLACK_BYTES: f64 = 67_108_864.0;
/// Failed inserts that count; fewer are a server that was busy for a moment.
const INSERT_FAILURES_MIN: u64 = 5;
/// Failed inserts, lag: how much worse than the baseline passes, as a share of it.
const WORSE_SHARE_MAX: f64 = 2.0;
/// Messages by which lag must have grown to count: what waits between two polls of a busy
/// partition.
const LAG_MESSAGES_MIN: f64 = 100.0;
/// Bytes of files that may be in records, and neither confirmed nor behind: what a reader has in
/// flight of files that were truncated meanwhile, eight requests of 1 MB and the one it fills.
const UNACCOUNTED_BYTES: u64 = 9 << 20;
/// Bytes by which what is behind must have grown to count: twice that, since a busy node that keeps
/// up has so much in flight at any look.
const BEHIND_BYTES_MIN: f64 = (18 << 20) as f64;
/// Bytes that went unread that count: less is one file that a program truncated itself.
const LOST_BYTES_MIN: f64 = (1 << 20) as f64;

/// What one pod did in the time watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// The time watched, in seconds.
    pub seconds: f64,
    /// Records taken.
    pub records_in: u64,
    /// Records stored.
    pub records_out: u64,
    /// Records kept as dead letters, or refused and told.
    pub records_apart: u64,
    /// By how much the records held have grown.
    pub held_change: i64,
    /// Processor time used, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// Inserts that failed and were tried again.
    pub insert_failures: u64,
    /// By how many messages its partitions' lag grew, if that is known.
    pub lag_change: Option<i64>,
    /// What it did with its node's log files, if it reads any.
    pub files: Option<FilesLoad>,
}

/// What one pod did with the log files of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesLoad {
    /// Bytes that came into records since its process began, whose confirmation is not reported
    /// and that are no longer behind: none, if bytes read are bytes acknowledged and bytes behind.
    pub unaccounted_bytes: u64,
    /// By how much the bytes behind have grown in the time watched.
    pub behind_change: i64,
    /// Bytes that went unread in the time watched.
    pub lost_bytes: u64,
}

impl FilesLoad {
    /// Bytes that are in records, confirmed and behind, of one moment: those that are in records
    /// and not confirmed must be behind.
    #[must_use]
    pub fn unaccounted(taken_bytes: u64, confirmed_bytes: u64, behind_bytes: u64) -> u64 {
        let missing = taken_bytes.saturating_sub(confirmed_bytes).saturating_sub(behind_bytes);
        // Nor can more be confirmed than is in records.
        missing.max(confirmed_bytes.saturating_sub(taken_bytes))
    }
}

/// What pods of one unit did, put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// Pods.
    pub pods: u32,
    /// Records taken by all of them.
    pub records: u64,
    /// Processor time used by all of them, in seconds.
    pub cpu_seconds: f64,
    /// The time watched, in seconds, of all pods together.
    pub pod_seconds: f64,
    /// The largest resident memory, in bytes.
    pub resident_bytes: u64,
    insert_failures: u64,
    unaccounted: f64,
    lag_change: Option<f64>,
    files: Option<FilesSum>,
}

/// The files of several pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FilesSum {
    /// The most of one pod.
    unaccounted_bytes: u64,
    behind_change: f64,
    lost_bytes: f64,
}

impl Sum {
    /// Puts pods together; `None` when there are none.
    #[must_use]
    pub fn of(loads: &[Load]) -> Option<Self> {
        let mut sum = Self::default();
        for load in loads {
            sum.pods = sum.pods.saturating_add(1);
            sum.records = sum.records.saturating_add(load.records_in);
            sum.cpu_seconds += positive(load.cpu_seconds);
            sum.pod_seconds += positive(load.seconds);
            sum.resident_bytes = sum.resident_bytes.max(load.resident_bytes);
            sum.insert_failures = sum.insert_failures.saturating_add(load.insert_failures);
            sum.unaccounted += load.records_in as f64
                - load.records_out as f64
                - load.records_apart as f64
                - load.held_change as f64;
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

    /// Records per second of processor time; `None` when too little of either was used to tell.
    #[must_use]
    pub fn records_per_cpu_second(&self) -> Option<f64> {
        let enough = self.cpu_seconds >= CPU_SECONDS_MIN && self.records >= RECORDS_MIN;
        enough.then(|| self.records as f64 / self.cpu_seconds)
    }

    /// Processors used by one pod on average; 1.0 is one whole.
    #[must_use]
    pub fn cpus_per_pod(&self) -> f64 {
        if self.pod_seconds > 0.0 { self.cpu_seconds / self.pod_seconds } else { 0.0 }
    }

    /// A count of all pods, per pod and second.
    fn rate(&self, count: f64) -> f64 {
        if self.pod_seconds > 0.0 { count / self.pod_seconds } else { 0.0 }
    }
}

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing is worse.
    Passed,
    /// The new pods took too few records to tell.
    TooFew {
        /// Records they took.
        records: u64,
    },
    /// Something is worse.
    Failed(Fault),
}

/// Compares new pods with old ones; `old` empty leaves out what needs a comparison.
#[must_use]
pub fn compare(new: &[Load], old: &[Load]) -> Judgement {
    let Some(new) = Sum::of(new) else { return Judgement::TooFew { records: 0 } };
    let old = Sum::of(old);
    let old = old.as_ref();
    let fault = inserts(&new, old)
        .or_else(|| accounts(&new))
        .or_else(|| lag(&new, old))
        .or_else(|| files(&new, old));
    if let Some(fault) = fault {
        return Judgement::Failed(fault);
    }
    if new.records < RECORDS_MIN {
        return Judgement::TooFew { records: new.records };
    }
    let fault = old.and_then(|old| throughput(&new, old).or_else(|| memory(&new, old)));
    fault.map_or(Judgement::Passed, Judgement::Failed)
}

fn accounts(new: &Sum) -> Option<Fault> {
    let allowed = (new.records as f64 * UNACCOUNTED_SHARE).max(UNACCOUNTED_RECORDS);
    (new.unaccounted.abs() > allowed).then(|| {
        let text = format!(
            "{} records were taken and {:.0} of them are neither stored, nor dead letters, nor held",
            new.records, new.unaccounted
        );
        Fault::new(FaultKind::CanaryUnaccounted, text)
    })
}

fn inserts(new: &Sum, old: Option<&Sum>) -> Option<Fault> {
    let of_old = old.map_or(0.0, |old| old.rate(old.insert_failures as f64));
    let of_new = new.rate(new.insert_failures as f64);
    let worse = new.insert_failures >= INSERT_FAILURES_MIN && of_new > of_old * WORSE_SHARE_MAX;
    worse.then(|| {
        let text = format!(
            "{} inserts failed; per pod and minute {:.1}, {:.1} in pods of the old unit",
            new.insert_failures,
            of_new * 60.0,
            of_old * 60.0
        );
        Fault::new(FaultKind::CanaryInsertsFail, text)
    })
}

fn lag(new: &Sum, old: Option<&Sum>) -> Option<Fault> {
    let grown = new.lag_change?;
    let of_new = new.rate(grown);
    let of_old = old.and_then(|old| Some(old.rate(old.lag_change?))).unwrap_or(0.0);
    let worse = grown >= LAG_MESSAGES_MIN && of_new > of_old.max(0.0) * WORSE_SHARE_MAX;
    worse.then(|| {
        let text = format!(
            "lag of its partitions grew by {of_new:.2} messages a second and pod, by {of_old:.2} in \
             pods of the old unit"
        );
        Fault::new(FaultKind::CanaryLagGrows, text)
    })
}

fn files(new: &Sum, old: Option<&Sum>) -> Option<Fault> {
    let files = new.files?;
    if files.unaccounted_bytes > UNACCOUNTED_BYTES {
        let text = format!(
            "{} bytes of a node's files were read, and are neither acknowledged nor behind",
            files.unaccounted_bytes
        );
        return Some(Fault::new(FaultKind::CanaryUnaccounted, text));
    }
    let of_old = |of: fn(FilesSum) -> f64| {
        old.and_then(|old| Some(old.rate(of(old.files?)))).unwrap_or(0.0).max(0.0)
    };
    let is_worse = |count: f64, least: f64, of_old: f64| {
        count >= least && new.rate(count) > of_old * WORSE_SHARE_MAX
    };
    let lost = of_old(|files| files.lost_bytes);
    if is_worse(files.lost_bytes, LOST_BYTES_MIN, lost) {
        let text = format!(
            "{:.0} bytes of files went unread; per pod and minute {:.0}, {:.0} in pods of the old \
             unit",
            files.lost_bytes,
            new.rate(files.lost_bytes) * 60.0,
            lost * 60.0
        );
        return Some(Fault::new(FaultKind::CanaryLosesLogs, text));
    }
    let behind = of_old(|files| files.behind_change);
    if is_worse(files.behind_change, BEHIND_BYTES_MIN, behind) {
        let text = format!(
            "what is behind grew by {:.0} bytes a second and pod, by {behind:.0} in pods of the \
             old unit",
            new.rate(files.behind_change)
        );
        return Some(Fault::new(FaultKind::CanaryFallsBehind, text));
    }
    None
}

/// Nothing came of the new pods' nodes, and much of the others': they don't find their files. Only
/// once time has shown it, since a quiet minute proves nothing.
#[must_use]
pub fn reads_nothing(new: &[Load], old: &[Load]) -> Option<Fault> {
    let (new, old) = (Sum::of(new)?, Sum::of(old)?);
    new.files?;
    let of_each = old.records / u64::from(old.pods.max(1));
    let is_silent = new.records == 0 && old.files.is_some() && of_each >= RECORDS_MIN;
    is_silent.then(|| {
        let text = format!("no record came of their nodes, {of_each} of each other node");
        Fault::new(FaultKind::CanaryReadsNothing, text)
    })
}

fn throughput(new: &Sum, old: &Sum) -> Option<Fault> {
    let (of_new, of_old) = (new.records_per_cpu_second()?, old.records_per_cpu_second()?);
    (of_new < of_old * THROUGHPUT_SHARE_MIN).then(|| {
        let text = format!(
            "{of_new:.0} records per CPU-second, {of_old:.0} in pods of the old unit; at least \
             {:.0} % are wanted",
            THROUGHPUT_SHARE_MIN * 100.0
        );
        Fault::new(FaultKind::CanarySlower, text)
    })
}

fn memory(new: &Sum, old: &Sum) -> Option<Fault> {
    let allowed = old.resident_bytes as f64 * MEMORY_SHARE_MAX + MEMORY_SLACK_BYTES;
    (new.resident_bytes as f64 > allowed).then(|| {
        let text = format!(
            "{} MiB of memory, at most {} in pods of the old unit",
            new.resident_bytes >> 20,
            old.resident_bytes >> 20
        );
        Fault::new(FaultKind::CanaryMemory, text)
    })
}

/// A figure that is not a number, or below nothing, counts as nothing.
fn positive(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}
