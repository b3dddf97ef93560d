//! Metrics of the log file reader: a few sums, none per file, since names are unbounded. Those per
//! namespace cover a few at a time.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use millrace_pipeline::telemetry::{Telemetry, TelemetryError};

/// The metrics of the log file reader.
#[derive(Debug, Clone)]
pub(crate) struct FileMetrics {
    /// Open files.
    pub(crate) open: IntGauge,
    /// Known files.
    pub(crate) known: IntGauge,
    /// Bytes in the files that are not yet confirmed.
    behind_bytes: IntGauge,
    /// The age and namespaces of the backlog.
    pub(crate) backlog: BacklogMetrics,
    /// Bytes that were put into records, each once.
    accepted_bytes: IntCounter,
    /// Those of them that are confirmed.
    confirmed_bytes: IntCounter,
    /// Bytes read, including repeated reads.
    pub(crate) read_bytes: IntCounter,
    /// Records made of them.
    pub(crate) records: IntCounter,
    /// Records cut at the longest line.
    pub(crate) cut: IntCounter,
    /// Records in which invalid UTF-8 was replaced.
    pub(crate) invalid_utf8: IntCounter,
    /// Container lines without the container format.
    pub(crate) unparsed: IntCounter,
    /// Records whose text, time or severity doesn't match the source's `parse`, by reason (a few
    /// fixed ones).
    pub(crate) parse_failed: IntCounterVec,
    /// Container records sent without their pod's labels, which weren't known in time.
    pub(crate) unlabeled: IntCounter,
    /// Times that a file was read without its pod's pattern because there were too many patterns.
    pub(crate) patterns_omitted: IntCounter,
    /// Bytes that were observed and gone before they were read.
    pub(crate) lost_bytes: IntCounter,
    /// Attempts at compressed files that are torn, damaged or incomplete.
    pub(crate) damaged: IntCounter,
    /// Unwatched directories, because of which all directories are walked.
    pub(crate) unwatched: IntGauge,
    /// Times that the kernel's event queue was full and all directories were walked instead.
    pub(crate) events_lost: IntCounter,
    /// Times that the positions could not be written.
    pub(crate) positions_failed: IntCounter,
}

/// The age and namespaces of unconfirmed bytes.
#[derive(Debug, Clone)]
pub(crate) struct BacklogMetrics {
    /// The minimum age of the oldest, in seconds.
    pub(crate) seconds: IntGauge,
    /// Unconfirmed bytes of containers' files, by the namespace that wrote them.
    pub(crate) namespace_bytes: IntGaugeVec,
    /// The minimum age of the oldest of those, in seconds, by namespace.
    pub(crate) namespace_seconds: IntGaugeVec,
}

impl FileMetrics {
    /// Creates and registers the metrics.
    pub(crate) fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let gauge = |name, help| telemetry.gauge(name, help);
        let counter = |name, help| telemetry.counter(name, help);
        Ok(Self {
            parse_failed: parse_failed(telemetry)?,
            open: gauge("millrace_files_open", "Open log files.")?,
            known: gauge("millrace_files_known", "Log files whose positions are stored.")?,
            behind_bytes: gauge(
                "millrace_files_behind_bytes",
                "Bytes in log files that the next system has not yet confirmed.",
            )?,
            backlog: BacklogMetrics::register(telemetry)?,
            accepted_bytes: counter(
                "millrace_files_ingested_bytes_total",
                "Bytes of log files that became records, each counted once per process.",
            )?,
            confirmed_bytes: counter(
                "millrace_files_confirmed_bytes_total",
                "Bytes of log files whose records the next system has confirmed. Bytes counted in \
                 millrace_files_ingested_bytes_total are confirmed, or among \
                 millrace_files_behind_bytes.",
            )?,
            read_bytes: counter(
                "millrace_files_read_bytes_total",
                "Bytes read from log files, including unfinished lines that were read again.",
            )?,
            records: counter(
                "millrace_files_records_total",
                "Records made from lines of log files.",
            )?,
            cut: counter("millrace_files_cut_total", "Records cut at maxLineBytes.")?,
            invalid_utf8: counter(
                "millrace_files_invalid_utf8_total",
                "Records in which bytes that are not UTF-8 were replaced.",
            )?,
            unparsed: unparsed_counter(telemetry)?,
            unlabeled: unlabeled_counter(telemetry)?,
            patterns_omitted: counter(
                "millrace_files_patterns_skipped_total",
                "Times that a file was read without the pattern in its pod's \
                 millrace.dev/logs-multiline, because 32 others were in use.",
            )?,
            lost_bytes: counter(
                "millrace_files_lost_bytes_total",
                "Bytes of log files that were deleted or truncated before they were read.",
            )?,
            damaged: counter(
                "millrace_files_damaged_total",
                "Times that a compressed log file was truncated, corrupt or incomplete; it is \
                 retried when it changes.",
            )?,
            unwatched: gauge(
                "millrace_files_unwatched_directories",
                "Directories of log files that cannot be watched (the inotify limit is reached, or \
                 a network file system). While there are any, all directories are scanned at least \
                 every second.",
            )?,
            events_lost: counter(
                "millrace_files_events_lost_total",
                "Times that the kernel's queue of file events overflowed and all directories were \
                 scanned instead.",
            )?,
            positions_failed: counter(
                "millrace_files_positions_failed_total",
                "Times that the positions of log files could not be written.",
            )?,
        })
    }
}

fn unparsed_counter(telemetry: &Telemetry) -> Result<IntCounter, TelemetryError> {
    telemetry.counter(
        "millrace_files_unparsed_total",
        "Lines of container files without the container log format, stored unchanged.",
    )
}

fn unlabeled_counter(telemetry: &Telemetry) -> Result<IntCounter, TelemetryError> {
    telemetry.counter(
        "millrace_files_unlabeled_total",
        "Records of containers sent without their pod's labels, which were not known within 1 s.",
    )
}

fn parse_failed(telemetry: &Telemetry) -> Result<IntCounterVec, TelemetryError> {
    let parse_failed = IntCounterVec::new(
        Opts::new(
            "millrace_files_parse_failed_total",
            "Records whose text, time or severity doesn't match `parse`; stored unchanged.",
        ),
        &["reason"],
    )?;
    telemetry.register(Box::new(parse_failed.clone()))?;
    Ok(parse_failed)
}

impl FileMetrics {
    /// Sets the bytes of the current backlog, and those accepted and confirmed since the start, all
    /// at the same moment so that they can be compared.
    pub(crate) fn record_progress(
        &self,
        behind_bytes: u64,
        accepted_bytes: u64,
        confirmed_bytes: u64,
    ) {
        let grow = |counter: &IntCounter, to: u64| counter.inc_by(to.saturating_sub(counter.get()));
        self.behind_bytes.set(i64::try_from(behind_bytes).unwrap_or(i64::MAX));
        grow(&self.accepted_bytes, accepted_bytes);
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
                "Age of the oldest unconfirmed bytes of log files in seconds, at least; an \
                 unfinished line counts as 0.",
            )?,
            namespace_bytes: by_namespace(
                "millrace_files_namespace_behind_bytes",
                "Bytes of containers' log files that are not yet confirmed, by namespace: the 20 \
                 with the most, and all others as `_other`.",
            )?,
            namespace_seconds: by_namespace(
                "millrace_files_namespace_behind_seconds",
                "Age of the oldest unconfirmed bytes of containers' log files in seconds, at \
                 least, by namespace.",
            )?,
        })
    }
}
