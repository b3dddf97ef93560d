//! The process's metrics, under fixed names: one struct, registered once.
//!
//! Labels take values only from enums and assigned partitions, so the number of series is bounded:
//! three signals, the variants below, and the partitions this process owns, whose series go with
//! the partition. Nothing from a record ever becomes a label.

use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, core::Collector, proto::MetricFamily,
};

use millrace_observe::exemplars::Exemplars;
use millrace_observe::otlp::{Export, TraceId, Tracer};
use millrace_observe::process::{self, BuildInfo};
use millrace_observe::text::Format;
use millrace_wire::Signal;

use crate::budget::Budget;
use crate::figures::Figures;

/// Why a receiver refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Not what it claims to be: bad protobuf, bad compression, bad framing.
    Malformed,
    /// Longer than the limit, as sent or after expansion.
    TooLarge,
    /// A content type, encoding or method that isn't spoken.
    Unsupported,
    /// A signal that has no topic here.
    Unconfigured,
    /// No room in the byte budget or in a queue.
    Full,
    /// What is behind the receiver did not take it.
    Unavailable,
    /// The process is shutting down.
    Draining,
    /// The client took longer than allowed.
    Timeout,
}

impl Refusal {
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
        }
    }
}

/// Why a receiver closed a client's connection that its client would have kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The byte budget had no room for it.
    NoRoom,
    /// What came over it isn't the protocol, or is more of it than allowed.
    Fault,
    /// Nothing came over it in time: no handshake, no head, no request.
    Timeout,
}

impl Closed {
    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::Fault => "fault",
            Self::Timeout => "timeout",
        }
    }
}

/// Bounds of the histograms of waiting, in seconds: from a local answer to a long time-out.
const WAIT_BUCKETS: [f64; 12] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Why an insert counts as stored although its number of rows doesn't say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unverified {
    /// The server's answer names no number of rows.
    NoCount,
    /// It names fewer rows than were sent, again and again, and asking on would store them twice.
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

/// The metrics could not be registered: two of them have one name, which is a fault in this file.
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
    lag_messages: IntGaugeVec,
    lag_seconds: GaugeVec,
    lost_to_retention: IntCounterVec,
    commit_metadata_ignored: IntCounter,
    insert_seconds: Histogram,
    insert_retries: IntCounterVec,
    inserts_allowed: IntGauge,
    tables: TableMetrics,
    produce_seconds: Histogram,
    produce_failures: IntCounterVec,
    buffer: BufferMetrics,
    bytes_in_flight: IntGauge,
    budget_bytes: IntGauge,
    exemplars: Exemplars,
    tracer: Tracer,
}

/// What is known of live tables.
#[derive(Debug)]
struct TableMetrics {
    inserts_unverified: IntCounterVec,
    columns_missing: IntGaugeVec,
    deduplicates: IntGaugeVec,
    inserts: IntCounterVec,
    remembers_inserts: IntGaugeVec,
    remembers_seconds: IntGaugeVec,
}

/// The edge's buffer on disk.
#[derive(Debug)]
struct BufferMetrics {
    bytes: IntGauge,
    records: IntGauge,
    age: Gauge,
}

/// The metrics touched for each batch, looked up once.
#[derive(Debug)]
struct SignalMetrics {
    records_in: IntCounter,
    records_out: IntCounter,
    buffered: IntGauge,
}

impl Telemetry {
    /// Registers everything. `allocator` is the name of the one compiled in.
    ///
    /// # Errors
    /// When two metrics share a name.
    pub fn new(budget: Budget, version: &str, allocator: &str) -> Result<Self, TelemetryError> {
        let register = Register(Registry::new());
        register.constants(version, allocator)?;
        Ok(Self {
            signals: register.signals()?,
            refused: register.counters(
                "millrace_records_refused_total",
                "Records answered with an error; a request that could not be read counts as one.",
                &["signal", "reason"],
            )?,
            connections_closed: register.counters(
                "millrace_connections_closed_total",
                "Clients' connections that were closed for a reason of ours.",
                &["listener", "reason"],
            )?,
            dead_lettered: register.counters(
                "millrace_records_dead_lettered_total",
                "Records kept in a dead-letter topic; a message that could not be read counts as one.",
                &["signal", "reason"],
            )?,
            lag_messages: register.gauges(
                "millrace_consumer_lag_messages",
                "Messages in the partition behind the last committed one.",
                &["topic", "partition"],
            )?,
            lag_seconds: register.lag_seconds()?,
            lost_to_retention: register.counters(
                "millrace_records_lost_to_retention_total",
                "Messages that Kafka deleted before they were read; each holds many records.",
                &["topic"],
            )?,
            commit_metadata_ignored: register.counter(
                "millrace_commit_metadata_ignored_total",
                "Commits whose metadata is not ours, cut off or of a newer version.",
            )?,
            insert_seconds: register
                .histogram("millrace_insert_seconds", "Time from an insert's start to its answer.")?,
            insert_retries: register.counters(
                "millrace_insert_retries_total",
                "Inserts sent again, by the class of the answer.",
                &["class"],
            )?,
            inserts_allowed: register.gauge(
                "millrace_inserts_allowed",
                "Inserts that may run at once: fewer than configured while a server is overloaded.",
            )?,
            tables: register.tables()?,
            produce_seconds: register.histogram(
                "millrace_produce_seconds",
                "Time from a message's hand-over to Kafka's confirmation.",
            )?,
            produce_failures: register.counters(
                "millrace_produce_failures_total",
                "Messages Kafka did not confirm, by the class of the failure.",
                &["class"],
            )?,
            buffer: register.buffer()?,
            bytes_in_flight: register
                .gauge("millrace_bytes_in_flight", "Bytes of records, requests and connections held.")?,
            budget_bytes: register
                .gauge("millrace_budget_bytes", "Bytes that records in flight may take.")?,
            registry: register.0,
            budget,
            exemplars: Exemplars::default(),
            tracer: Tracer::default(),
        })
    }

    /// With traces kept as an export decides, and the metric of what became of them.
    ///
    /// # Errors
    /// When that metric's name is taken.
    pub fn exporting(mut self, export: &Export) -> Result<Self, TelemetryError> {
        export.register(&self.registry)?;
        self.tracer = export.tracer();
        Ok(self)
    }

    /// What decides which of this process's own traces are kept.
    #[must_use]
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Counts records taken in.
    pub fn records_in(&self, signal: Signal, records: u64) {
        self.signals[signal.index()].records_in.inc_by(records);
    }

    /// Counts records that the next system has confirmed.
    pub fn records_out(&self, signal: Signal, records: u64) {
        self.signals[signal.index()].records_out.inc_by(records);
    }

    /// Moves the number of records held: positive when they come, negative when they go.
    pub fn buffered(&self, signal: Signal, change: i64) {
        self.signals[signal.index()].buffered.add(change);
    }

    /// Counts records answered with an error.
    pub fn refused(&self, signal: Signal, reason: Refusal, records: u64) {
        self.refused.with_label_values(&[signal.as_str(), reason.as_str()]).inc_by(records);
    }

    /// Counts a connection that was closed. `listener` is one of a fixed set of names.
    pub fn connection_closed(&self, listener: &'static str, reason: Closed) {
        self.connections_closed.with_label_values(&[listener, reason.as_str()]).inc();
    }

    /// Counts records kept in a dead-letter topic. `reason` is one of a fixed set of names.
    pub fn dead_lettered(&self, signal: Signal, reason: &'static str, records: u64) {
        self.dead_lettered.with_label_values(&[signal.as_str(), reason]).inc_by(records);
    }

    /// States how far a partition is behind: in messages, and in seconds between now and the time
    /// of the oldest message not yet stored.
    pub fn lag(&self, topic: &str, partition: i32, messages: u64, age: Duration) {
        let partition = partition.to_string();
        let labels = &[topic, partition.as_str()];
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        self.lag_messages.with_label_values(labels).set(messages);
        self.lag_seconds.with_label_values(labels).set(age.as_secs_f64());
    }

    /// Drops the series of a partition that is no longer ours.
    pub fn forget_lag(&self, topic: &str, partition: i32) {
        let partition = partition.to_string();
        let labels = &[topic, partition.as_str()];
        // An error means there was no such series, which is what is wanted.
        let _ = self.lag_messages.remove_label_values(labels);
        let _ = self.lag_seconds.remove_label_values(labels);
    }

    /// Counts messages of a topic that were deleted before they were read.
    pub fn lost_to_retention(&self, topic: &str, messages: u64) {
        self.lost_to_retention.with_label_values(&[topic]).inc_by(messages);
    }

    /// Counts a commit whose metadata can't be used.
    pub fn commit_metadata_ignored(&self) {
        self.commit_metadata_ignored.inc();
    }

    /// Records how long an insert took, whatever its answer, and its trace if that is kept.
    pub fn insert_took(&self, time: Duration, trace: Option<TraceId>) {
        self.insert_seconds.observe(time.as_secs_f64());
        self.note("millrace_insert_seconds", time, trace);
    }

    /// Counts an insert sent again. `class` is one of a fixed set of names.
    pub fn insert_retried(&self, class: &'static str) {
        self.insert_retries.with_label_values(&[class]).inc();
    }

    /// States how many inserts may run at once.
    pub fn inserts_allowed(&self, inserts: usize) {
        self.inserts_allowed.set(i64::try_from(inserts).unwrap_or(i64::MAX));
    }

    /// Counts an insert taken for stored without a count of rows that says so.
    pub fn insert_unverified(&self, cause: Unverified) {
        self.tables.inserts_unverified.with_label_values(&[cause.as_str()]).inc();
    }

    /// Sets what a check of a live table found: how many columns of ours it lacks, and whether it
    /// recognises repeated inserts. `table` is one of the sink's own tables.
    pub fn table_seen(&self, table: &str, columns_missing: usize, deduplicates: bool) {
        let missing = i64::try_from(columns_missing).unwrap_or(i64::MAX);
        self.tables.columns_missing.with_label_values(&[table]).set(missing);
        self.tables.deduplicates.with_label_values(&[table]).set(i64::from(deduplicates));
    }

    /// Counts an insert that is stored.
    pub fn insert_stored(&self, table: &str) {
        self.tables.inserts.with_label_values(&[table]).inc();
    }

    /// States how many inserts a live table remembers, and for how long at most if it says so.
    pub fn table_remembers(&self, table: &str, inserts: u64, seconds: Option<u64>) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.tables.remembers_inserts.with_label_values(&[table]).set(whole(inserts));
        if let Some(seconds) = seconds {
            self.tables.remembers_seconds.with_label_values(&[table]).set(whole(seconds));
        }
    }

    /// Notes how long Kafka took to confirm a message, and its trace if that is kept.
    pub fn produce_took(&self, time: Duration, trace: Option<TraceId>) {
        self.produce_seconds.observe(time.as_secs_f64());
        self.note("millrace_produce_seconds", time, trace);
    }

    fn note(&self, name: &'static str, time: Duration, trace: Option<TraceId>) {
        if let Some(trace) = trace {
            self.exemplars.note(name, &[], &WAIT_BUCKETS, time.as_secs_f64(), trace);
        }
    }

    /// Counts a message that Kafka did not confirm. `class` is one of a fixed set of names.
    pub fn produce_failed(&self, class: &'static str) {
        self.produce_failures.with_label_values(&[class]).inc();
    }

    /// States what the edge's buffer on disk holds: bytes of its files, records, and how long the
    /// oldest of them has been there.
    pub fn disk_buffer(&self, bytes: u64, records: u64, age: Duration) {
        self.buffer.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.buffer.records.set(i64::try_from(records).unwrap_or(i64::MAX));
        self.buffer.age.set(age.as_secs_f64());
    }

    /// Adds a part's own metric, such as a client library's.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn register(&self, collector: Box<dyn Collector>) -> Result<(), TelemetryError> {
        Ok(self.registry.register(collector)?)
    }

    /// Makes and adds a part's own counter.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, TelemetryError> {
        let metric = IntCounter::new(name, help)?;
        self.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Makes and adds a part's own gauge.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, TelemetryError> {
        let metric = IntGauge::new(name, help)?;
        self.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Everything, in the Prometheus text format.
    ///
    /// # Errors
    /// When a part's own metric cannot be written.
    pub fn render(&self) -> Result<String, TelemetryError> {
        self.render_as(Format::Prometheus)
    }

    /// Everything, as asked for.
    ///
    /// # Errors
    /// When a part's own metric cannot be written.
    pub fn render_as(&self, format: Format) -> Result<String, TelemetryError> {
        Ok(format.render(&self.gather(), &self.exemplars)?)
    }

    /// Everything, as plain numbers.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures::of(&self.gather())
    }

    fn gather(&self) -> Vec<MetricFamily> {
        let used = i64::try_from(self.budget.used_bytes()).unwrap_or(i64::MAX);
        self.bytes_in_flight.set(used);
        self.budget_bytes.set(i64::try_from(self.budget.limit_bytes()).unwrap_or(i64::MAX));
        self.registry.gather()
    }
}

/// Makes metrics and registers them in one step.
struct Register(Registry);

impl Register {
    fn signals(&self) -> Result<[SignalMetrics; 3], TelemetryError> {
        let records_in = self.counters(
            "millrace_records_in_total",
            "Records taken from clients or from Kafka.",
            &["signal"],
        )?;
        let records_out = self.counters(
            "millrace_records_out_total",
            "Records that the next system has confirmed.",
            &["signal"],
        )?;
        let buffered = self.gauges(
            "millrace_records_buffered",
            "Records taken and not yet confirmed, dead-lettered or refused.",
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

    /// What runs, and what the kernel counts of it.
    fn constants(&self, version: &str, allocator: &str) -> Result<(), TelemetryError> {
        process::register(&self.0)?;
        let build = BuildInfo { version, allocator };
        Ok(build.register(
            &self.0,
            "millrace_build_info",
            "Always 1; the labels say what is running.",
        )?)
    }

    fn add<M: Collector + Clone + 'static>(
        &self,
        made: prometheus::Result<M>,
    ) -> Result<M, TelemetryError> {
        let metric = made?;
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, TelemetryError> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, TelemetryError> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, TelemetryError> {
        self.add(IntCounter::new(name, help))
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, TelemetryError> {
        self.add(IntGauge::new(name, help))
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, TelemetryError> {
        let options = HistogramOpts::new(name, help).buckets(WAIT_BUCKETS.to_vec());
        self.add(Histogram::with_opts(options))
    }

    fn lag_seconds(&self) -> Result<GaugeVec, TelemetryError> {
        let options = Opts::new(
            "millrace_consumer_lag_seconds",
            "Age of the oldest message in the partition that is not yet stored.",
        );
        self.add(GaugeVec::new(options, &["topic", "partition"]))
    }

    fn tables(&self) -> Result<TableMetrics, TelemetryError> {
        Ok(TableMetrics {
            inserts_unverified: self.counters(
                "millrace_inserts_unverified_total",
                "Inserts taken for stored although the server's count of rows doesn't say so.",
                &["cause"],
            )?,
            columns_missing: self.gauges(
                "millrace_table_columns_missing",
                "Columns that a live table lacks; their values are not stored.",
                &["table"],
            )?,
            deduplicates: self.gauges(
                "millrace_table_deduplicates",
                "Whether a live table recognises an insert sent again; at 0 it is doubled.",
                &["table"],
            )?,
            inserts: self.counters(
                "millrace_table_inserts_total",
                "Inserts stored, by table; each takes a place among those that it remembers.",
                &["table"],
            )?,
            remembers_inserts: self.gauges(
                "millrace_table_remembers_inserts",
                "Inserts that a live table remembers, to recognise one that is sent again.",
                &["table"],
            )?,
            remembers_seconds: self.gauges(
                "millrace_table_remembers_seconds",
                "For how long it remembers them at most, where it says so.",
                &["table"],
            )?,
        })
    }

    fn buffer(&self) -> Result<BufferMetrics, TelemetryError> {
        Ok(BufferMetrics {
            bytes: self.gauge(
                "millrace_buffer_bytes",
                "Bytes of the edge's buffer on disk, files of records already in Kafka included.",
            )?,
            records: self
                .gauge("millrace_buffer_records", "Records in the edge's buffer on disk.")?,
            age: self.add(Gauge::new(
                "millrace_buffer_age_seconds",
                "How long the oldest record has been in the edge's buffer on disk.",
            ))?,
        })
    }
}

#[cfg(test)]
#[path = "../tests/unit/telemetry.rs"]
mod tests;
