//! The process's metrics under fixed names: one struct, registered once.
//!
//! Labels take values only from enums and assigned partitions, so the number of series is bounded:
//! three signals, the variants below, and the partitions this process owns, whose series are
//! removed with the partition. No value from a record ever becomes a label.

use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, core::Collector, proto::MetricFamily,
};

use millrace_observe::exemplars::Exemplars;
use millrace_observe::otlp::{Export, TraceId, Tracer};
use millrace_observe::process::{self, BuildInfo};
use millrace_observe::text::MetricsFormat;
use millrace_wire::Signal;
use millrace_wire::otlp::TIME_OUT_OF_RANGE;

use crate::budget::Budget;
use crate::figures::MetricsSnapshot;

/// The reason why a receiver refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// Bad protobuf, compression or framing.
    Malformed,
    /// Longer than the limit, as sent or after expansion.
    TooLarge,
    /// An unsupported content type, encoding or method.
    Unsupported,
    /// A signal that has no topic here.
    Unconfigured,
    /// The byte budget or a queue is full.
    Full,
    /// The next system did not accept it.
    Unavailable,
    /// The process is shutting down.
    Draining,
    /// The client took longer than allowed, or its answer was due before its records were sent.
    Timeout,
    /// The records' times are not accepted; the other records of the request were.
    TimeOutOfRange,
    /// A rule failed whose step has the error mode `Propagate`.
    RuleFailed,
    /// The records were sent and not confirmed in time: they may be stored, and are sent again.
    Unconfirmed,
}

impl RefusalReason {
    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
            Self::Unconfigured => "unconfigured",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
            Self::Draining => "draining",
            Self::Timeout => "timeout",
            Self::TimeOutOfRange => TIME_OUT_OF_RANGE,
            Self::RuleFailed => "rule_failed",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

/// The reason why a receiver closed a connection that its client would have left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The byte budget had no capacity for it.
    BudgetFull,
    /// The client's data isn't the protocol, or exceeds its limits.
    Fault,
    /// No handshake, head or request arrived in time.
    Timeout,
}

impl CloseReason {
    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BudgetFull => "no_room",
            Self::Fault => "fault",
            Self::Timeout => "timeout",
        }
    }
}

/// Bounds of the histograms of waiting, in seconds: from a local answer to a long time-out.
const WAIT_BUCKETS: [f64; 12] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The reason why an insert counts as stored although its number of rows doesn't confirm it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unverified {
    /// The server's answer has no number of rows.
    NoCount,
    /// The answer repeatedly has fewer rows than were sent, and further retries would store them
    /// twice.
    ShortCount,
}

impl Unverified {
    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCount => "no_count",
            Self::ShortCount => "short_count",
        }
    }
}

/// The metrics could not be registered because two of them share a name, which is a fault in this
/// file.
#[derive(Debug, thiserror::Error)]
#[error("cannot register the metrics: {0}")]
pub struct TelemetryError(#[from] prometheus::Error);

/// All metrics of a collector.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    budget: Budget,
    signals: [SignalMetrics; 3],
    refused: IntCounterVec,
    connections_closed: IntCounterVec,
    dead_lettered: IntCounterVec,
    dead_letter_bytes: IntCounterVec,
    lag_messages: IntGaugeVec,
    lag_seconds: GaugeVec,
    lost_to_retention: IntCounterVec,
    commit_metadata_ignored: IntCounter,
    commits_refused: IntCounterVec,
    insert_seconds: Histogram,
    insert_retries: IntCounterVec,
    tables: TableMetrics,
    produce_seconds: Histogram,
    produce_failures: IntCounterVec,
    buffer: BufferMetrics,
    bytes_in_flight: IntGauge,
    budget_bytes: IntGauge,
    exemplars: Exemplars,
    tracer: Tracer,
}

/// Metrics of live tables.
#[derive(Debug)]
struct TableMetrics {
    inserts_unverified: IntCounterVec,
    columns_missing: IntGaugeVec,
    deduplicates: IntGaugeVec,
    inserts_allowed: IntGaugeVec,
    circuits_open: IntGaugeVec,
    inserts: IntCounterVec,
    remembers_inserts: IntGaugeVec,
    remembers_seconds: IntGaugeVec,
}

/// Metrics of the edge's buffer on disk.
#[derive(Debug)]
struct BufferMetrics {
    bytes: IntGauge,
    records: IntGauge,
    set_aside: IntGauge,
    damaged: IntCounter,
    age: Gauge,
}

/// The metrics updated for each batch, looked up once.
#[derive(Debug)]
struct SignalMetrics {
    records_in: IntCounter,
    records_out: IntCounter,
    buffered: IntGauge,
}

impl Telemetry {
    /// Registers all metrics. `allocator` is the name of the compiled-in one.
    ///
    /// # Errors
    /// If two metrics share a name.
    pub fn new(budget: Budget, version: &str, allocator: &str) -> Result<Self, TelemetryError> {
        let register = Register(Registry::new());
        register.register_constants(version, allocator)?;
        Ok(Self {
            signals: register.register_signals()?,
            refused: register.register_refused()?,
            connections_closed: register.counter_vec(
                "millrace_connections_closed_total",
                "Connections of clients that the collector closed.",
                &["listener", "reason"],
            )?,
            dead_lettered: register.counter_vec(
                "millrace_records_dead_lettered_total",
                "Records written to a dead-letter topic; an unreadable message counts as one.",
                &["signal", "reason"],
            )?,
            dead_letter_bytes: register.register_dead_letter_bytes()?,
            lag_messages: register.gauge_vec(
                "millrace_consumer_lag_messages",
                "Messages in the partition after the last committed one.",
                &["topic", "partition"],
            )?,
            lag_seconds: register.lag_seconds()?,
            lost_to_retention: register.counter_vec(
                "millrace_records_lost_to_retention_total",
                "Messages that Kafka deleted before they were read; each holds many records.",
                &["topic"],
            )?,
            commit_metadata_ignored: register.counter(
                "millrace_commit_metadata_ignored_total",
                "Commits whose metadata is foreign, truncated or of a newer version.",
            )?,
            commits_refused: register.counter_vec(
                "millrace_commits_refused_total",
                "Offset commits that the brokers refused or did not answer; they are retried.",
                &["error"],
            )?,
            insert_seconds: register.histogram(
                "millrace_insert_duration_seconds",
                "Time from an insert's start to its answer.",
            )?,
            insert_retries: register.counter_vec(
                "millrace_insert_retries_total",
                "Retried inserts, by class of the answer.",
                &["class"],
            )?,
            tables: register.register_tables()?,
            produce_seconds: register.histogram(
                "millrace_produce_duration_seconds",
                "Time from a message's hand-over to Kafka's confirmation.",
            )?,
            produce_failures: register.counter_vec(
                "millrace_produce_failures_total",
                "Messages that Kafka did not confirm, by class of the failure.",
                &["class"],
            )?,
            buffer: register.register_buffer()?,
            bytes_in_flight: register.gauge(
                "millrace_bytes_in_flight",
                "Bytes of records, requests and connections in flight.",
            )?,
            budget_bytes: register
                .gauge("millrace_budget_bytes", "Memory budget for records in flight in bytes.")?,
            registry: register.0,
            budget,
            exemplars: Exemplars::default(),
            tracer: Tracer::default(),
        })
    }

    /// Uses an export's sampler of traces, and adds its metric of results.
    ///
    /// # Errors
    /// If that metric's name is in use.
    pub fn with_export(mut self, export: &Export) -> Result<Self, TelemetryError> {
        export.register(&self.registry)?;
        self.tracer = export.tracer();
        Ok(self)
    }

    /// Returns the sampler of this process's own traces.
    #[must_use]
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Counts received records.
    pub fn records_in(&self, signal: Signal, records: u64) {
        self.signals[signal.index()].records_in.inc_by(records);
    }

    /// Counts records that the next system has confirmed.
    pub fn records_out(&self, signal: Signal, records: u64) {
        self.signals[signal.index()].records_out.inc_by(records);
    }

    /// Changes the number of buffered records: positive when they come, negative when they leave.
    pub fn add_buffered(&self, signal: Signal, change: i64) {
        self.signals[signal.index()].buffered.add(change);
    }

    /// Counts records answered with an error.
    pub fn record_refused(&self, signal: Signal, reason: RefusalReason, records: u64) {
        self.refused.with_label_values(&[signal.as_str(), reason.as_str()]).inc_by(records);
    }

    /// Counts a connection that was closed. `listener` is one of a fixed set of names.
    pub fn connection_closed(&self, listener: &'static str, reason: CloseReason) {
        self.connections_closed.with_label_values(&[listener, reason.as_str()]).inc();
    }

    /// Counts a record that became a dead letter. `reason` is one of a fixed set of names.
    pub fn dead_lettered(&self, signal: Signal, reason: &'static str) {
        self.dead_lettered.with_label_values(&[signal.as_str(), reason]).inc();
    }

    /// Counts the bytes of a dead letter that Kafka has stored.
    pub fn dead_letter_stored(&self, signal: Signal, reason: &'static str, bytes: u64) {
        self.dead_letter_bytes.with_label_values(&[signal.as_str(), reason]).inc_by(bytes);
    }

    /// Sets a partition's lag: in messages, and in seconds between now and the time of the oldest
    /// message not yet stored.
    pub fn record_lag(&self, topic: &str, partition: i32, messages: u64, age: Duration) {
        let partition = partition.to_string();
        let labels = &[topic, partition.as_str()];
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        self.lag_messages.with_label_values(labels).set(messages);
        self.lag_seconds.with_label_values(labels).set(age.as_secs_f64());
    }

    /// Removes the series of a partition that this process no longer owns.
    pub fn remove_lag(&self, topic: &str, partition: i32) {
        let partition = partition.to_string();
        let labels = &[topic, partition.as_str()];
        // An error means that no such series existed, which is fine.
        let _ = self.lag_messages.remove_label_values(labels);
        let _ = self.lag_seconds.remove_label_values(labels);
    }

    /// Counts messages of a topic that were deleted before they were read.
    pub fn lost_to_retention(&self, topic: &str, messages: u64) {
        self.lost_to_retention.with_label_values(&[topic]).inc_by(messages);
    }

    /// Counts a commit with unusable metadata.
    pub fn commit_metadata_ignored(&self) {
        self.commit_metadata_ignored.inc();
    }

    /// Counts a commit that a broker refused, by the client library's name of the error.
    pub fn commit_refused(&self, error: &str) {
        self.commits_refused.with_label_values(&[error]).inc();
    }

    /// Records the duration of an insert, whatever its answer, with its trace if sampled.
    pub fn record_insert_time(&self, time: Duration, trace: Option<TraceId>) {
        self.insert_seconds.observe(time.as_secs_f64());
        self.record_exemplar("millrace_insert_duration_seconds", time, trace);
    }

    /// Counts a retried insert. `class` is one of a fixed set of names.
    pub fn insert_retried(&self, class: &'static str) {
        self.insert_retries.with_label_values(&[class]).inc();
    }

    /// Sets how many inserts into a table may run at once, at the shard with fewest, and how many
    /// endpoints currently accept none. `table` is one of the sink's own tables.
    pub fn record_insert_routes(&self, table: &str, allowed: usize, endpoints_open: usize) {
        let to_gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.tables.inserts_allowed.with_label_values(&[table]).set(to_gauge(allowed));
        self.tables.circuits_open.with_label_values(&[table]).set(to_gauge(endpoints_open));
    }

    /// Counts an insert that counts as stored although no row count confirms it.
    pub fn insert_unverified(&self, cause: Unverified) {
        self.tables.inserts_unverified.with_label_values(&[cause.as_str()]).inc();
    }

    /// Sets the result of a check of a live table: how many of our columns it lacks, and whether it
    /// recognises repeated inserts. `table` is one of the sink's own tables.
    pub fn record_table_check(&self, table: &str, columns_missing: usize, deduplicates: bool) {
        let missing = i64::try_from(columns_missing).unwrap_or(i64::MAX);
        self.tables.columns_missing.with_label_values(&[table]).set(missing);
        self.tables.deduplicates.with_label_values(&[table]).set(i64::from(deduplicates));
    }

    /// Counts a stored insert.
    pub fn insert_stored(&self, table: &str) {
        self.tables.inserts.with_label_values(&[table]).inc();
    }

    /// Sets how many inserts a live table remembers, and the maximum time if it states one.
    pub fn record_dedup_window(&self, table: &str, inserts: u64, seconds: Option<u64>) {
        let to_gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.tables.remembers_inserts.with_label_values(&[table]).set(to_gauge(inserts));
        if let Some(seconds) = seconds {
            self.tables.remembers_seconds.with_label_values(&[table]).set(to_gauge(seconds));
        }
    }

    /// Records the time that Kafka took to confirm a message, with its trace if sampled.
    pub fn record_produce_time(&self, time: Duration, trace: Option<TraceId>) {
        self.produce_seconds.observe(time.as_secs_f64());
        self.record_exemplar("millrace_produce_duration_seconds", time, trace);
    }

    fn record_exemplar(&self, name: &'static str, time: Duration, trace: Option<TraceId>) {
        if let Some(trace) = trace {
            self.exemplars.record_exemplar(name, &[], &WAIT_BUCKETS, time.as_secs_f64(), trace);
        }
    }

    /// Counts a message that Kafka did not confirm. `class` is one of a fixed set of names.
    pub fn produce_failed(&self, class: &'static str) {
        self.produce_failures.with_label_values(&[class]).inc();
    }

    /// Sets the content of the edge's buffer on disk: bytes of its files, records, and the age of
    /// the oldest.
    pub fn disk_buffer(&self, bytes: u64, records: u64, age: Duration) {
        self.buffer.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.buffer.records.set(i64::try_from(records).unwrap_or(i64::MAX));
        self.buffer.age.set(age.as_secs_f64());
    }

    /// Sets how many of the buffer's records are set aside.
    pub fn disk_buffer_set_aside(&self, records: u64) {
        self.buffer.set_aside.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// Counts records that were damaged on the buffer's disk and are lost.
    pub fn disk_buffer_damaged(&self, records: u64) {
        self.buffer.damaged.inc_by(records);
    }

    /// Adds a part's own metric, such as a client library's.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn register(&self, collector: Box<dyn Collector>) -> Result<(), TelemetryError> {
        Ok(self.registry.register(collector)?)
    }

    /// Creates and adds a part's own counter.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, TelemetryError> {
        let metric = IntCounter::new(name, help)?;
        self.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Creates and adds a part's own gauge.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, TelemetryError> {
        let metric = IntGauge::new(name, help)?;
        self.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Returns all metrics in the Prometheus text format.
    ///
    /// # Errors
    /// If a part's own metric can't be written.
    pub fn render(&self) -> Result<String, TelemetryError> {
        self.render_as(MetricsFormat::Prometheus)
    }

    /// Returns all metrics in the requested format.
    ///
    /// # Errors
    /// If a part's own metric can't be written.
    pub fn render_as(&self, format: MetricsFormat) -> Result<String, TelemetryError> {
        Ok(format.render_families(&self.gather(), &self.exemplars)?)
    }

    /// Returns all metrics as plain numbers.
    #[must_use]
    pub fn figures(&self) -> MetricsSnapshot {
        MetricsSnapshot::from_families(&self.gather())
    }

    fn gather(&self) -> Vec<MetricFamily> {
        let used = i64::try_from(self.budget.used_bytes()).unwrap_or(i64::MAX);
        self.bytes_in_flight.set(used);
        self.budget_bytes.set(i64::try_from(self.budget.limit_bytes()).unwrap_or(i64::MAX));
        self.registry.gather()
    }
}

/// Creates and registers metrics in one step.
struct Register(Registry);

impl Register {
    fn register_signals(&self) -> Result<[SignalMetrics; 3], TelemetryError> {
        let records_in = self.counter_vec(
            "millrace_records_in_total",
            "Records accepted from clients or read from Kafka.",
            &["signal"],
        )?;
        let records_out = self.counter_vec(
            "millrace_records_out_total",
            "Records that the next system has confirmed.",
            &["signal"],
        )?;
        let buffered = self.gauge_vec(
            "millrace_records_in_flight",
            "Records accepted and not yet confirmed, dead-lettered or refused.",
            &["signal"],
        )?;
        Ok(Signal::ALL.map(|signal| {
            let label = &[signal.as_str()];
            SignalMetrics {
                records_in: records_in.with_label_values(label),
                records_out: records_out.with_label_values(label),
                buffered: buffered.with_label_values(label),
            }
        }))
    }

    /// Registers the build and the kernel's figures of the process.
    fn register_constants(&self, version: &str, allocator: &str) -> Result<(), TelemetryError> {
        process::register_metrics(&self.0)?;
        let build = BuildInfo { version, allocator };
        Ok(build.register(
            &self.0,
            "millrace_build_info",
            "Always 1; the labels state the version, commit and allocator.",
        )?)
    }

    fn register_metric<M: Collector + Clone + 'static>(
        &self,
        made: prometheus::Result<M>,
    ) -> Result<M, TelemetryError> {
        let metric = made?;
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter_vec(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, TelemetryError> {
        self.register_metric(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauge_vec(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, TelemetryError> {
        self.register_metric(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, TelemetryError> {
        self.register_metric(IntCounter::new(name, help))
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, TelemetryError> {
        self.register_metric(IntGauge::new(name, help))
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, TelemetryError> {
        let options = HistogramOpts::new(name, help).buckets(WAIT_BUCKETS.to_vec());
        self.register_metric(Histogram::with_opts(options))
    }

    fn register_dead_letter_bytes(&self) -> Result<IntCounterVec, TelemetryError> {
        self.counter_vec(
            "millrace_dead_letter_bytes_total",
            "Bytes of stored dead letters before compression, keys and headers included.",
            &["signal", "reason"],
        )
    }

    fn register_refused(&self) -> Result<IntCounterVec, TelemetryError> {
        self.counter_vec(
            "millrace_records_refused_total",
            "Records answered with an error, or rejected for their timestamps; a request that \
             could not be read counts as one. Records with the reason timeout were not sent; \
             unconfirmed ones may be stored. Records stored after their client was answered \
             also count as out.",
            &["signal", "reason"],
        )
    }

    fn lag_seconds(&self) -> Result<GaugeVec, TelemetryError> {
        let options = Opts::new(
            "millrace_consumer_lag_seconds",
            "Age of the oldest message in the partition that is not yet stored, in seconds.",
        );
        self.register_metric(GaugeVec::new(options, &["topic", "partition"]))
    }

    fn register_tables(&self) -> Result<TableMetrics, TelemetryError> {
        Ok(TableMetrics {
            inserts_unverified: self.counter_vec(
                "millrace_inserts_unverified_total",
                "Inserts counted as stored although the server's row count doesn't confirm it.",
                &["cause"],
            )?,
            columns_missing: self.gauge_vec(
                "millrace_table_columns_missing",
                "Columns missing in a live table; their values are not stored.",
                &["table"],
            )?,
            deduplicates: self.gauge_vec(
                "millrace_table_deduplicates",
                "Whether a live table deduplicates a retried insert; at 0 a retry duplicates its \
                 rows.",
                &["table"],
            )?,
            inserts_allowed: self.gauge_vec(
                "millrace_inserts_allowed",
                "Permitted concurrent inserts into a table: fewer while a server is overloaded.",
                &["table"],
            )?,
            circuits_open: self.gauge_vec(
                "millrace_insert_circuits_open",
                "Endpoints that currently accept no inserts into a table.",
                &["table"],
            )?,
            inserts: self.counter_vec(
                "millrace_table_inserts_total",
                "Stored inserts by table; each occupies one entry of the inserts that the table \
                 remembers.",
                &["table"],
            )?,
            remembers_inserts: self.gauge_vec(
                "millrace_table_deduplication_window_inserts",
                "Inserts that a live table remembers to deduplicate a retry.",
                &["table"],
            )?,
            remembers_seconds: self.gauge_vec(
                "millrace_table_deduplication_window_seconds",
                "Longest time that a live table remembers inserts, in seconds, if the table limits \
                 it.",
                &["table"],
            )?,
        })
    }

    fn register_buffer(&self) -> Result<BufferMetrics, TelemetryError> {
        Ok(BufferMetrics {
            bytes: self.gauge(
                "millrace_buffer_bytes",
                "Bytes of the edge's buffer on disk, including files of records already in Kafka.",
            )?,
            records: self
                .gauge("millrace_buffer_records", "Records in the edge's buffer on disk.")?,
            set_aside: self.gauge(
                "millrace_buffer_rejected_records",
                "Records in the edge's buffer on disk that Kafka refused while it accepted others.",
            )?,
            damaged: self.counter(
                "millrace_buffer_damaged_records_total",
                "Records that were damaged on the disk of the edge's buffer and are lost.",
            )?,
            age: self.register_metric(Gauge::new(
                "millrace_buffer_age_seconds",
                "Age of the oldest record in the edge's buffer on disk, in seconds.",
            ))?,
        })
    }
}

#[cfg(test)]
mod tests;
