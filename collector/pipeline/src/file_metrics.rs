//! What a reader of files says about itself: a few sums, none by file, since names are unbounded.
//! Those by namespace are of a few at a time.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::telemetry::{Telemetry, TelemetryError};

/// The metrics of a reader of files.
#[derive(Debug, Clone)]
pub struct FileMetrics {
    /// Files that are open.
    pub open: IntGauge,
    /// Files that are known.
    pub known: IntGauge,
    /// Bytes that are there and not yet safe.
    behind_bytes: IntGauge,
    /// How long they have waited, and whose they are.
    pub backlog: BacklogMetrics,
    /// Bytes that are in records, each once.
    taken_bytes: IntCounter,
    /// Those of them that are safe.
    confirmed_bytes: IntCounter,
    /// Bytes read, with those read again.
    pub read_bytes: IntCounter,
    /// Records made of them.
    pub records: IntCounter,
    /// Records cut at the longest line.
    pub cut: IntCounter,
    /// Records in which bytes that aren't text were replaced.
    pub invalid_utf8: IntCounter,
    /// Container lines without the container's format.
    pub unparsed: IntCounter,
    /// Records whose text, time or severity isn't as the source's `parse` says, by reason: a few
    /// fixed ones.
    pub parse_failed: IntCounterVec,
    /// Records of containers that went without their pod's labels, which nobody knew in time.
    pub unlabeled: IntCounter,
    /// Times that a file was read without its pod's pattern, since there were too many.
    pub patterns_left_out: IntCounter,
    /// Bytes that were known to be there and went before they were read.
    pub lost_bytes: IntCounter,
    /// Tries at compressed files that are torn, damaged, or not whole yet.
    pub damaged: IntCounter,
    /// Directories that aren't watched, so that all are walked.
    pub unwatched: IntGauge,
    /// Times that the kernel's queue of events was full and all directories were walked instead.
    pub events_lost: IntCounter,
    /// Times that the positions could not be written.
    pub positions_failed: IntCounter,
}

/// How long bytes that aren't safe have waited, and whose they are.
#[derive(Debug, Clone)]
pub struct BacklogMetrics {
    /// For how many seconds the oldest of them have waited at least.
    pub seconds: IntGauge,
    /// Such bytes of containers' files, by the namespace that wrote them.
    pub namespace_bytes: IntGaugeVec,
    /// For how many seconds the oldest of those have waited at least, likewise.
    pub namespace_seconds: IntGaugeVec,
}

impl FileMetrics {
    /// Makes and registers them.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let gauge = |name, help| telemetry.gauge(name, help);
        let counter = |name, help| telemetry.counter(name, help);
        Ok(Self {
            parse_failed: parse_failed(telemetry)?,
            open: gauge("millrace_files_open", "Log files that are open.")?,
            known: gauge("millrace_files_known", "Log files whose positions are kept.")?,
            behind_bytes: gauge(
                "millrace_files_behind_bytes",
                "Bytes of log files that are there and not yet confirmed by the next system.",
            )?,
            backlog: BacklogMetrics::register(telemetry)?,
            taken_bytes: counter(
                "millrace_files_taken_bytes_total",
                "Bytes of log files that came into records, each once for a process.",
            )?,
            confirmed_bytes: counter(
                "millrace_files_confirmed_bytes_total",
                "Those of them whose records the next system has confirmed: taken bytes are \
                 confirmed, or among millrace_files_behind_bytes.",
            )?,
            read_bytes: counter(
                "millrace_files_read_bytes_total",
                "Bytes read from log files, with unfinished lines that were read again.",
            )?,
            records: counter("millrace_files_records_total", "Records made of log files' lines.")?,
            cut: counter("millrace_files_cut_total", "Records cut at maxLineBytes.")?,
            invalid_utf8: counter(
                "millrace_files_invalid_utf8_total",
                "Records in which bytes that are not UTF-8 were replaced.",
            )?,
            unparsed: unparsed(telemetry)?,
            unlabeled: unlabeled(telemetry)?,
            patterns_left_out: counter(
                "millrace_files_patterns_left_out_total",
                "Times that a file was read without the pattern in its pod's \
                 millrace.dev/logs-multiline, since 32 others were in use.",
            )?,
            lost_bytes: counter(
                "millrace_files_lost_bytes_total",
                "Bytes of log files that were deleted or truncated before they were read.",
            )?,
            damaged: counter(
                "millrace_files_damaged_total",
                "Times that a compressed log file was torn, damaged or not whole yet; it is tried \
                 again when it has changed.",
            )?,
            unwatched: gauge(
                "millrace_files_unwatched_directories",
                "Directories of log files that cannot be watched (a limit of inotify is reached, or \
                 a network file system): while there are any, all are walked every second at most.",
            )?,
            events_lost: counter(
                "millrace_files_events_lost_total",
                "Times that the kernel's queue of file events was full and all directories were \
                 walked instead.",
            )?,
            positions_failed: counter(
                "millrace_files_positions_failed_total",
                "Times that the positions of log files could not be written.",
            )?,
        })
    }
}

fn unparsed(telemetry: &Telemetry) -> Result<IntCounter, TelemetryError> {
    telemetry.counter(
        "millrace_files_unparsed_total",
        "Lines of container files without the container's format, kept as they stand.",
    )
}

fn unlabeled(telemetry: &Telemetry) -> Result<IntCounter, TelemetryError> {
    telemetry.counter(
        "millrace_files_unlabeled_total",
        "Records of containers sent without their pod's labels, which were not known within a \
         second.",
    )
}

fn parse_failed(telemetry: &Telemetry) -> Result<IntCounterVec, TelemetryError> {
    let parse_failed = IntCounterVec::new(
        Opts::new(
            "millrace_files_parse_failed_total",
            "Records whose text, time or severity is not as `parse` says; kept as they stand.",
        ),
        &["reason"],
    )?;
    telemetry.register(Box::new(parse_failed.clone()))?;
    Ok(parse_failed)
}

impl FileMetrics {
    /// Bytes that are behind now, and those taken and confirmed since the start: all of one moment,
    /// so that they can be compared.
    pub fn tally(&self, behind_bytes: u64, taken_bytes: u64, confirmed_bytes: u64) {
        let grow = |counter: &IntCounter, to: u64| counter.inc_by(to.saturating_sub(counter.get()));
        self.behind_bytes.set(i64::try_from(behind_bytes).unwrap_or(i64::MAX));
        grow(&self.taken_bytes, taken_bytes);
        grow(&self.confirmed_bytes, confirmed_bytes);
    }
}

impl BacklogMetrics {
    fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let by_namespace = |name, help| {
            let metric = IntGaugeVec::new(Opts::new(name, help), &["writer_namespace"])?;
            telemetry.register(Box::new(metric.clone()))?;
            Ok::<_, TelemetryError>(metric)
        };
        Ok(Self {
            seconds: telemetry.gauge(
                "millrace_files_behind_seconds",
                "Seconds for which the oldest bytes of log files that are not yet confirmed have \
                 waited at least; an unfinished line counts as no wait.",
            )?,
            namespace_bytes: by_namespace(
                "millrace_files_namespace_behind_bytes",
                "Bytes of containers' log files that are not yet confirmed, by the namespace that \
                 wrote them: the 20 with most, and the others as `_other`.",
            )?,
            namespace_seconds: by_namespace(
                "millrace_files_namespace_behind_seconds",
                "Seconds for which the oldest of these bytes have waited at least.",
            )?,
        })
    }
}
