//! Judges a complete document: which mode it selects, and whether each limit is in its range.
//!
//! Pure: a document and its lines go in, a [`Checked`] one or all problems come out.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::document::lines::Lines;
use crate::document::problem::{ConfigError, Problem};
use crate::{
    Acknowledge, AcknowledgeInsert, Admin, ClickHouseExporter, Config, Exporters, KafkaExporter,
    KafkaReceiver, Memory, OwnOtlp, OwnTelemetry, Positions, Receivers, Shutdown,
};

/// Settings that can be run: the mode is decided and every limit is inside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The listener for probes and metrics.
    pub admin: Admin,
    /// How much memory records may take.
    pub memory: Memory,
    /// How a shutdown goes.
    pub shutdown: Shutdown,
    /// The rules that run on records; none on a gateway.
    pub processing: millrace_processing::Config,
    /// Where the process's own traces and logs go, if anywhere.
    pub own_telemetry: Option<OwnOtlp>,
    /// What flows from where to where.
    pub mode: CollectorMode,
}

/// What flows from where to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectorMode {
    /// From sources to Kafka, or to ClickHouse in one process without Kafka.
    Edge {
        /// Where records come from: all sections but `kafka`, one of them at least.
        sources: Box<Receivers>,
        /// Where the positions of log files and of the kernel's log are stored.
        positions: Positions,
        /// Where they go.
        exporter: EdgeExporter,
    },
    /// Kafka to ClickHouse.
    Gateway {
        /// What is read.
        kafka: Box<KafkaReceiver>,
        /// Where it goes.
        clickhouse: Box<ClickHouseExporter>,
    },
}

/// Where an edge's records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeExporter {
    /// To Kafka.
    Kafka(Box<KafkaExporter>),
    /// To ClickHouse.
    ClickHouse(Box<ClickHouseExporter>),
}

/// How people name an exporter, and an edge with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExporterNames {
    /// The mode, for operators.
    pub mode: &'static str,
    /// The section of the settings.
    pub section: &'static str,
    /// The kind of process, for everybody.
    pub process: &'static str,
    /// The system that gets the records.
    pub system: &'static str,
}

impl EdgeExporter {
    /// Returns its names.
    #[must_use]
    pub const fn names(&self) -> ExporterNames {
        match self {
            Self::Kafka(_) => {
                ExporterNames { mode: "edge", section: "kafka", process: "edge", system: "Kafka" }
            }
            Self::ClickHouse(_) => ExporterNames {
                mode: "direct",
                section: "clickhouse",
                process: "edge and gateway in one",
                system: "ClickHouse",
            },
        }
    }
}

impl CollectorMode {
    /// Returns an edge's sources.
    #[must_use]
    pub fn sources(&self) -> Option<&Receivers> {
        match self {
            Self::Edge { sources, .. } => Some(sources),
            Self::Gateway { .. } => None,
        }
    }
}

/// Collects problems under field paths.
pub(crate) struct Checker<'a> {
    pub(crate) lines: &'a Lines,
    pub(crate) problems: Vec<Problem>,
}

pub(crate) fn check_config(config: Config, lines: &Lines) -> Result<Checked, ConfigError> {
    let Config { admin, memory, shutdown, telemetry, positions, processing, receivers, exporters } =
        config;
    let OwnTelemetry { otlp: own } = telemetry;
    let mut judge = Checker { lines, problems: Vec::new() };
    judge.check_memory(&memory);
    judge.check_shutdown(&shutdown);
    judge.check_own_telemetry(own.as_ref());
    let receivers = judge.expand_pasted(receivers);
    receivers.check(&admin, &mut judge);
    exporters.check(&mut judge);
    let mode = judge.decide_mode(receivers, exporters, positions);
    match &mode {
        Some(CollectorMode::Edge { sources, positions, exporter }) => {
            judge.check_edge_exporter(sources, exporter, &processing);
            judge.check_positions(sources, positions, exporter);
        }
        Some(CollectorMode::Gateway { clickhouse, .. }) => {
            judge.check_acknowledge(clickhouse);
            judge.check_announce(&shutdown);
            judge.check_no_processing(&processing);
        }
        None => {}
    }
    if !matches!(mode, Some(CollectorMode::Gateway { .. })) {
        judge.check_processing(&processing);
    }
    judge.into_result(mode).map(|mode| Checked {
        admin,
        memory,
        shutdown,
        processing,
        own_telemetry: own,
        mode,
    })
}

impl Checker<'_> {
    fn into_result(self, mode: Option<CollectorMode>) -> Result<CollectorMode, ConfigError> {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.position.unwrap_or((usize::MAX, 0)));
        match (ConfigError::from_problems(problems), mode) {
            (None, Some(mode)) => Ok(mode),
            (Some(error), _) => Err(error),
            // No mode without a problem does not happen; if it did, this is what to say.
            (None, None) => Err(ConfigError::from_problem(Problem::of_document(
                "neither receivers nor exporters are set".to_owned(),
            ))),
        }
    }

    pub(crate) fn add_problem(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            field: field.to_owned(),
            position: self.lines.position(field),
            message: message.into(),
        });
    }

    pub(crate) fn check_range<T: PartialOrd + Display>(
        &mut self,
        field: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.add_problem(field, format!("{value} is out of range: use {low} to {high}"));
        }
    }

    /// Clients must not be answered before the batch of their records is even inserted.
    fn batch_age(&mut self, answer_seconds: u32, max_age_millis: u32) {
        if u64::from(max_age_millis) >= u64::from(answer_seconds) * 1000 {
            self.add_problem(
                "exporters.clickhouse.batch.maxAgeMillis",
                format!(
                    "{max_age_millis} ms is not less than receivers.otlp.limits.answerSeconds \
                     ({answer_seconds} s): clients would be answered before their records are \
                     inserted, and would retry; lower maxAgeMillis or raise answerSeconds"
                ),
            );
        }
    }

    fn decide_mode(
        &mut self,
        mut receivers: Receivers,
        exporters: Exporters,
        positions: Positions,
    ) -> Option<CollectorMode> {
        let Exporters { kafka: to_kafka, clickhouse } = exporters;
        let from_kafka = receivers.kafka.take().map(Box::new);
        let sources = (!receivers.names().is_empty()).then(|| Box::new(receivers));
        let edge = |sources, exporter| CollectorMode::Edge { sources, positions, exporter };
        match (sources, from_kafka, to_kafka.map(Box::new), clickhouse.map(Box::new)) {
            (Some(sources), None, Some(kafka), None) => {
                Some(edge(sources, EdgeExporter::Kafka(kafka)))
            }
            (Some(sources), None, None, Some(clickhouse)) => {
                Some(edge(sources, EdgeExporter::ClickHouse(clickhouse)))
            }
            (None, Some(kafka), None, Some(clickhouse)) => {
                Some(CollectorMode::Gateway { kafka, clickhouse })
            }
            (sources, from_kafka, to_kafka, clickhouse) => {
                self.no_mode(
                    (sources.is_some(), from_kafka.is_some()),
                    (to_kafka.is_some(), clickhouse.is_some()),
                );
                None
            }
        }
    }

    /// Checks what an edge's exporter must have for its sources and rules.
    fn check_edge_exporter(
        &mut self,
        sources: &Receivers,
        exporter: &EdgeExporter,
        processing: &millrace_processing::Config,
    ) {
        match exporter {
            EdgeExporter::Kafka(kafka) => {
                self.check_routes(processing, &kafka.topics);
                if sources.has_positions() && kafka.topics.logs.is_none() {
                    self.add_problem(
                        "exporters.kafka.topics",
                        "logs have no topic, but files or the kernel log are read: set \
                         exporters.kafka.topics.logs, or remove these receivers",
                    );
                }
                if sources.prometheus.is_some() && kafka.topics.metrics.is_none() {
                    self.add_problem(
                        "exporters.kafka.topics",
                        "metrics have no topic, but targets are scraped: set \
                         exporters.kafka.topics.metrics, or remove receivers.prometheus",
                    );
                }
            }
            EdgeExporter::ClickHouse(clickhouse) => {
                self.check_no_routes(processing);
                let waits = clickhouse.acknowledge == AcknowledgeInsert::AfterInsert;
                if let Some(otlp) = sources.otlp.as_ref().filter(|_| waits) {
                    self.batch_age(otlp.limits.answer_seconds, clickhouse.batch.max_age_millis);
                }
            }
        }
    }

    /// Says what is missing or too much. Each pair is (the edge's part, the gateway's part).
    fn no_mode(&mut self, (edge, from_kafka): (bool, bool), (to_kafka, clickhouse): (bool, bool)) {
        match (edge, from_kafka) {
            (false, false) => self.add_problem(
                "receivers",
                "no receiver is configured: set `otlp: {}`, `containers: {}`, `files`, `kernel: \
                 {}` or `prometheus` for an edge, or `kafka` for a gateway",
            ),
            (true, true) => self.add_problem(
                "receivers",
                "kafka can't be combined with other receivers: a collector is an edge (otlp, \
                 containers, files, kernel, prometheus) or a gateway (kafka); run one of each",
            ),
            _ => {}
        }
        match (to_kafka, clickhouse) {
            (false, false) => self.add_problem(
                "exporters",
                "no exporter is configured: set `kafka` for an edge, or `clickhouse` for a gateway",
            ),
            (true, true) => {
                self.add_problem(
                    "exporters",
                    "kafka and clickhouse are both configured: remove one of them",
                );
            }
            _ => {}
        }
        if (edge, from_kafka, to_kafka, clickhouse) == (false, true, true, false) {
            self.add_problem(
                "exporters.kafka",
                "a collector can't read from Kafka and export to Kafka: set `exporters.clickhouse` \
                 for a gateway",
            );
        }
    }

    /// A gateway has no clients to answer early.
    fn check_acknowledge(&mut self, clickhouse: &ClickHouseExporter) {
        if clickhouse.acknowledge == AcknowledgeInsert::AfterBuffering {
            self.add_problem(
                "exporters.clickhouse.acknowledge",
                "AfterBuffering applies only to `receivers.otlp`, and a gateway always commits \
                 after the insert: remove the field",
            );
        }
    }

    /// A position advances once the lines before it are acknowledged, so an acknowledgement must
    /// mean that they are safe.
    fn check_positions(
        &mut self,
        sources: &Receivers,
        positions: &Positions,
        exporter: &EdgeExporter,
    ) {
        if !sources.has_positions() {
            return;
        }
        self.check_absolute("positions.directory", &positions.directory);
        let (field, is_early) = match exporter {
            EdgeExporter::Kafka(kafka) => {
                ("exporters.kafka.acknowledge", kafka.acknowledge == Acknowledge::AfterBuffering)
            }
            EdgeExporter::ClickHouse(clickhouse) => (
                "exporters.clickhouse.acknowledge",
                clickhouse.acknowledge == AcknowledgeInsert::AfterBuffering,
            ),
        };
        if is_early {
            self.add_problem(
                field,
                "AfterBuffering would record lines as sent before they are stored: remove the \
                 field, since files or the kernel log are read",
            );
        }
    }

    pub(crate) fn check_absolute(&mut self, field: &str, path: &Path) {
        if !path.is_absolute() {
            let message =
                format!("`{}` is not an absolute path: use one that begins with /", path.display());
            self.add_problem(field, message);
        }
    }
}
