//! Judges a document as a whole: which mode it asks for, and whether each limit is in its range.
//!
//! Pure: a document and its lines go in, a [`Checked`] one or all problems come out.

mod containers;
mod http_access;
mod prometheus;
mod weights;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;

pub(crate) use prometheus::{all_jobs, shared_job};

use crate::kafka::DEAD_LETTER_SUFFIX;
use crate::lines::Lines;
use crate::problem::{ConfigError, Problem};
use crate::{
    Acknowledge, AcknowledgeInsert, Admin, ByteSize, ClickHouseExporter, ClientTls, Config,
    ContainersReceiver, DiskBuffer, Exporters, FilesReceiver, KafkaConnection, KafkaExporter,
    KafkaReceiver, KernelReceiver, Memory, Multiline, OtlpLimits, OtlpReceiver, OwnOtlp,
    OwnTelemetry, Parse, ParseFormat, Positions, PrometheusReceiver, Receivers, SaslMechanism,
    Shutdown, TimeFormat, Timestamp, TopicName, Topics,
};

/// What the longest record of a file may be set to: a batch of them is a message of a mebibyte.
const RECORD_BYTES: RangeInclusive<ByteSize> = ByteSize::kib(1)..=ByteSize::kib(512);

/// Most names of one field. Each is compared with every field of every line; four are known to be
/// in use for severities.
const NAMES_MAX: usize = 8;

/// Most names of labels or annotations, each compared with those of a pod when it changes.
const POD_NAMES_MAX: usize = 64;

/// The longest pattern: what the operator's kinds take.
const PATTERN_CHARACTERS_MAX: usize = 1024;

/// Most headers of requests with own traces and logs, whose files are read for each, and most
/// attributes, which each of them carries.
const OWN_HEADERS_MAX: usize = 16;
const OWN_ATTRIBUTES_MAX: usize = 32;

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
    /// Where the process's own traces and logs go, if anywhere.
    pub own: Option<OwnOtlp>,
    /// What flows from where to where.
    pub mode: Mode,
}

/// What flows from where to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// To Kafka.
    Edge {
        /// Where records come from.
        sources: Sources,
        /// Where they go.
        kafka: Box<KafkaExporter>,
    },
    /// To ClickHouse: one process, no Kafka.
    Direct {
        /// Where records come from.
        sources: Sources,
        /// Where they go.
        clickhouse: Box<ClickHouseExporter>,
    },
    /// Kafka to ClickHouse.
    Gateway {
        /// What is read.
        kafka: Box<KafkaReceiver>,
        /// Where it goes.
        clickhouse: Box<ClickHouseExporter>,
    },
}

/// Where an edge's records come from: one of them at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// Where clients connect.
    pub otlp: Option<Box<OtlpReceiver>>,
    /// What is read on the machine itself.
    pub logs: Option<Box<LogSources>>,
    /// What is scraped.
    pub prometheus: Option<Box<PrometheusReceiver>>,
}

/// What is read on the machine itself: files of containers, others, the kernel's log; one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSources {
    /// What this node's containers write.
    pub containers: Option<ContainersReceiver>,
    /// Other files.
    pub files: Vec<FilesReceiver>,
    /// The kernel's log.
    pub kernel: Option<KernelReceiver>,
    /// Where it is kept how far they are read.
    pub positions: Positions,
}

impl Sources {
    /// Their names in the settings, for people.
    #[must_use]
    pub fn names(&self) -> String {
        let Self { otlp, logs, prometheus } = self;
        let has = |is_given: fn(&LogSources) -> bool| logs.as_deref().is_some_and(is_given);
        let given = [
            ("otlp", otlp.is_some()),
            ("containers", has(|logs| logs.containers.is_some())),
            ("files", has(|logs| !logs.files.is_empty())),
            ("kernel", has(|logs| logs.kernel.is_some())),
            ("prometheus", prometheus.is_some()),
        ];
        let names = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// Those that are given, if any.
    fn of(
        otlp: Option<OtlpReceiver>,
        logs: LogSources,
        prometheus: Option<PrometheusReceiver>,
    ) -> Option<Self> {
        let LogSources { containers, files, kernel, positions: _ } = &logs;
        let given = containers.is_some() || !files.is_empty() || kernel.is_some();
        let logs = given.then(|| Box::new(logs));
        let any = otlp.is_some() || logs.is_some() || prometheus.is_some();
        let (otlp, prometheus) = (otlp.map(Box::new), prometheus.map(Box::new));
        any.then_some(Self { otlp, logs, prometheus })
    }
}

/// Collects problems under field paths.
struct Judge<'a> {
    lines: &'a Lines,
    problems: Vec<Problem>,
}

pub(crate) fn check(config: Config, lines: &Lines) -> Result<Checked, ConfigError> {
    let Config { admin, memory, shutdown, telemetry, positions, receivers, exporters } = config;
    let OwnTelemetry { otlp: own } = telemetry;
    let mut judge = Judge { lines, problems: Vec::new() };
    judge.memory(&memory);
    judge.shutdown(&shutdown);
    judge.own(own.as_ref());
    let receivers = judge.pasted(receivers);
    let mode = judge.mode(receivers, exporters, positions);
    match &mode {
        Some(Mode::Edge { sources, kafka }) => {
            judge.sources(&admin, sources);
            let early = kafka.acknowledge == Acknowledge::AfterBuffering;
            judge.positions(sources, early.then_some("exporters.kafka.acknowledge"));
            if sources.logs.is_some() && kafka.topics.logs.is_none() {
                judge.say(
                    "exporters.kafka.topics",
                    "files or the kernel's log are read, and logs have no topic: name one, or read \
                     neither",
                );
            }
            if sources.prometheus.is_some() && kafka.topics.metrics.is_none() {
                judge.say(
                    "exporters.kafka.topics",
                    "targets are scraped, and metrics have no topic: name one, or leave out \
                     receivers.prometheus",
                );
            }
        }
        Some(Mode::Direct { sources, clickhouse }) => {
            judge.sources(&admin, sources);
            let early = clickhouse.acknowledge == AcknowledgeInsert::AfterBuffering;
            judge.positions(sources, early.then_some("exporters.clickhouse.acknowledge"));
        }
        Some(Mode::Gateway { clickhouse, .. }) => {
            judge.acknowledge(clickhouse);
            judge.nobody_to_tell(&shutdown);
        }
        None => {}
    }
    judge.finish(mode).map(|mode| Checked { admin, memory, shutdown, own, mode })
}

/// Whether only one of two listeners could be bound: all interfaces have each one's ports.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (all || one.ip() == other.ip())
}

impl Judge<'_> {
    fn finish(self, mode: Option<Mode>) -> Result<Mode, ConfigError> {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.position.unwrap_or((usize::MAX, 0)));
        match (ConfigError::from_problems(problems), mode) {
            (None, Some(mode)) => Ok(mode),
            (Some(error), _) => Err(error),
            // No mode without a problem does not happen; if it did, this is what to say.
            (None, None) => Err(ConfigError::one(Problem::whole("no mode was given".to_owned()))),
        }
    }

    fn say(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            field: field.to_owned(),
            position: self.lines.position(field),
            message: message.into(),
        });
    }

    fn range<T: PartialOrd + Display>(&mut self, field: &str, value: T, range: RangeInclusive<T>) {
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.say(field, format!("{value} is out of range: write {low} to {high}"));
        }
    }

    fn memory(&mut self, memory: &Memory) {
        let Memory { limit_bytes, budget_percent } = memory;
        if let Some(limit) = limit_bytes {
            let top = ByteSize::bytes(1 << 50);
            self.range("memory.limitBytes", *limit, ByteSize::mib(64)..=top);
        }
        self.range("memory.budgetPercent", *budget_percent, 10..=80);
    }

    fn shutdown(&mut self, shutdown: &Shutdown) {
        /// Longer than any load balancer should take to follow readiness.
        const ANNOUNCE_SECONDS_MAX: u32 = 60;
        let Shutdown { deadline_seconds, announce_seconds } = shutdown;
        self.range("shutdown.deadlineSeconds", *deadline_seconds, 1..=600);
        let longest = ANNOUNCE_SECONDS_MAX.min(deadline_seconds.saturating_sub(1));
        self.range("shutdown.announceSeconds", *announce_seconds, 0..=longest);
    }

    fn own(&mut self, own: Option<&OwnOtlp>) {
        let Some(own) = own else { return };
        let OwnOtlp {
            endpoint: _,
            headers,
            tls,
            traces_per_second,
            traces_percent,
            logs: _,
            attributes,
        } = own;
        self.client_tls("telemetry.otlp.tls", tls.as_ref());
        self.range("telemetry.otlp.tracesPerSecond", *traces_per_second, 0..=100);
        self.range("telemetry.otlp.tracesPercent", *traces_percent, 1..=100);
        for (field, entries, most) in [
            ("headers", headers.len(), OWN_HEADERS_MAX),
            ("attributes", attributes.len(), OWN_ATTRIBUTES_MAX),
        ] {
            if entries > most {
                let message = format!("{entries} entries: write {most} at most");
                self.say(&format!("telemetry.otlp.{field}"), message);
            }
        }
    }

    /// Nobody is routed to a gateway: its announcement would only be time lost.
    fn nobody_to_tell(&mut self, shutdown: &Shutdown) {
        if shutdown.announce_seconds > 0 {
            self.say(
                "shutdown.announceSeconds",
                "a gateway has no clients to tell: leave the field out",
            );
        }
    }

    fn mode(
        &mut self,
        receivers: Receivers,
        exporters: Exporters,
        positions: Positions,
    ) -> Option<Mode> {
        let Receivers { otlp, kafka: from_kafka, containers, files, kernel, prometheus } =
            receivers;
        let Exporters { kafka: to_kafka, clickhouse } = exporters;
        if let Some(otlp) = &otlp {
            self.otlp_limits(&otlp.limits);
        }
        if let Some(kafka) = &from_kafka {
            self.kafka_receiver(kafka);
        }
        if let Some(kafka) = &to_kafka {
            self.kafka_exporter(kafka);
        }
        if let Some(clickhouse) = &clickhouse {
            self.clickhouse(clickhouse);
        }
        let logs = LogSources { containers, files, kernel, positions };
        let sources = Sources::of(otlp, logs, prometheus);
        match (sources, from_kafka, to_kafka, clickhouse) {
            (Some(sources), None, Some(kafka), None) => {
                Some(Mode::Edge { sources, kafka: Box::new(kafka) })
            }
            (Some(sources), None, None, Some(clickhouse)) => {
                Some(Mode::Direct { sources, clickhouse: Box::new(clickhouse) })
            }
            (None, Some(kafka), None, Some(clickhouse)) => {
                Some(Mode::Gateway { kafka: Box::new(kafka), clickhouse: Box::new(clickhouse) })
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

    /// Says what is missing or too much. Each pair is (the edge's part, the gateway's part).
    fn no_mode(&mut self, (edge, from_kafka): (bool, bool), (to_kafka, clickhouse): (bool, bool)) {
        match (edge, from_kafka) {
            (false, false) => self.say(
                "receivers",
                "no receiver is given: write `otlp: {}`, `containers: {}`, `files`, `kernel: {}` or \
                 `prometheus` for an edge, or `kafka` for a gateway",
            ),
            (true, true) => self.say(
                "receivers",
                "kafka is given beside others: a collector is an edge (otlp, containers, files, \
                 kernel, prometheus) or a gateway (kafka); run one of each",
            ),
            _ => {}
        }
        match (to_kafka, clickhouse) {
            (false, false) => self.say(
                "exporters",
                "no exporter is given: write `kafka` for an edge, or `clickhouse` for a gateway",
            ),
            (true, true) => {
                self.say("exporters", "kafka and clickhouse are both given: write one of them");
            }
            _ => {}
        }
        if (edge, from_kafka, to_kafka, clickhouse) == (false, true, true, false) {
            self.say(
                "exporters.kafka",
                "kafka to kafka is not a mode: write `exporters.clickhouse` for a gateway",
            );
        }
    }

    /// A gateway has no clients to answer early.
    fn acknowledge(&mut self, clickhouse: &ClickHouseExporter) {
        if clickhouse.acknowledge == AcknowledgeInsert::AfterBuffering {
            self.say(
                "exporters.clickhouse.acknowledge",
                "AfterBuffering is for `receivers.otlp`: a gateway commits after the insert, \
                 always; leave the field out",
            );
        }
    }

    fn sources(&mut self, admin: &Admin, sources: &Sources) {
        let Sources { otlp, logs, prometheus } = sources;
        if let Some(otlp) = otlp {
            self.listeners(admin, otlp);
        }
        if let Some(prometheus) = prometheus {
            self.prometheus(prometheus);
        }
        let Some(logs) = logs.as_deref() else { return };
        let LogSources { containers, files, kernel, positions: _ } = logs;
        if let Some(KernelReceiver { device }) = kernel {
            self.absolute("receivers.kernel.device", device);
        }
        if let Some(containers) = containers {
            self.containers(containers);
        }
        for (index, files) in files.iter().enumerate() {
            self.files(&format!("receivers.files[{index}]"), files);
        }
    }

    /// Names of labels or annotations.
    fn pod_names(&mut self, field: &str, names: &[String]) {
        if names.len() > POD_NAMES_MAX {
            let number = names.len();
            self.say(field, format!("{number} names: write {POD_NAMES_MAX} at most"));
        }
        let beginning = |name: &str| name.strip_suffix('*').unwrap_or(name).contains('*');
        if names.iter().any(|name| name.is_empty() || beginning(name)) {
            self.say(field, "a name is whole, or a beginning with one `*` behind it");
        }
    }

    fn files(&mut self, field: &str, files: &FilesReceiver) {
        let FilesReceiver {
            include,
            exclude,
            start_at: _,
            encoding: _,
            multiline,
            parse,
            max_line_bytes,
        } = files;
        self.parse(&format!("{field}.parse"), parse);
        if include.is_empty() {
            let example = "no file is named: write one pattern at least, as in [/var/log/*.log]";
            self.say(&format!("{field}.include"), example);
        }
        for (name, patterns) in [("include", include), ("exclude", exclude)] {
            for (index, pattern) in patterns.iter().enumerate() {
                self.absolute(&format!("{field}.{name}[{index}]"), Path::new(pattern));
            }
        }
        self.range(&format!("{field}.maxLineBytes"), *max_line_bytes, RECORD_BYTES);
        self.multiline(&format!("{field}.multiline"), multiline.as_ref());
    }

    fn multiline(&mut self, field: &str, multiline: Option<&Multiline>) {
        let Some(Multiline { start, indented, traces, timeout_millis }) = multiline else { return };
        let rules = [start.is_some(), *indented, traces.is_some()];
        if rules.iter().filter(|is_given| **is_given).count() != 1 {
            self.say(field, "write one of `start`, `indented: true` and `traces`");
        }
        self.range(&format!("{field}.timeoutMillis"), *timeout_millis, 100..=60_000);
    }

    fn parse(&mut self, field: &str, parse: &Parse) {
        let Parse { format, pattern, body, severity, timestamp } = parse;
        if *format == ParseFormat::None {
            if *parse != Parse::default() {
                self.say(field, "nothing is parsed: write `format: JSON`, Logfmt or Regex");
            }
            return;
        }
        let pattern_field = format!("{field}.pattern");
        match pattern {
            None if *format == ParseFormat::Regex => {
                self.say(&pattern_field, "Regex needs one, as in '^(?P<level>[A-Z]+) (?P<msg>.*)'");
            }
            Some(_) if *format != ParseFormat::Regex => {
                self.say(&pattern_field, "only Regex has one: leave it out");
            }
            Some(pattern) if pattern.chars().count() > PATTERN_CHARACTERS_MAX => {
                let message = format!("longer than {PATTERN_CHARACTERS_MAX} characters");
                self.say(&pattern_field, message);
            }
            _ => {}
        }
        let times = timestamp.as_ref().map(|Timestamp { fields, .. }| fields);
        self.timestamp(&format!("{field}.timestamp"), timestamp.as_ref());
        let lists =
            [("body", Some(body)), ("severity", Some(severity)), ("timestamp.fields", times)];
        let mut seen = HashMap::new();
        for (list, names) in lists.iter().filter_map(|(list, names)| Some((list, (*names)?))) {
            let field = format!("{field}.{list}");
            if names.len() > NAMES_MAX {
                self.say(&field, format!("{} names: write {NAMES_MAX} at most", names.len()));
            }
            for name in names {
                if name.is_empty() {
                    self.say(&field, "a name is empty: leave it out");
                }
                if let Some(other) = seen.insert(name, list) {
                    self.say(&field, format!("`{name}` is also in {other}: write it once"));
                }
            }
        }
    }

    fn timestamp(&mut self, field: &str, timestamp: Option<&Timestamp>) {
        let Some(Timestamp { fields, format, layout }) = timestamp else { return };
        if fields.is_empty() {
            self.say(&format!("{field}.fields"), "no field is named: write one at least");
        }
        if layout.is_some() != (*format == TimeFormat::Layout) {
            self.say(
                &format!("{field}.layout"),
                "`format: Layout` and a layout go together: write both, or neither",
            );
        }
    }

    /// What is read on the machine is on record once it is acknowledged: it must be safe then.
    fn positions(&mut self, sources: &Sources, acknowledged_early: Option<&str>) {
        let Some(logs) = &sources.logs else { return };
        self.absolute("positions.directory", &logs.positions.directory);
        if let Some(field) = acknowledged_early {
            self.say(
                field,
                "AfterBuffering would put lines on record as sent before they are: leave the field \
                 out where files or the kernel's log are read",
            );
        }
    }

    fn absolute(&mut self, field: &str, path: &Path) {
        if !path.is_absolute() {
            let message = format!("`{}` is no absolute path: write one", path.display());
            self.say(field, message);
        }
    }

    fn listeners(&mut self, admin: &Admin, otlp: &OtlpReceiver) {
        let OtlpReceiver { grpc, http, limits: _ } = otlp;
        if !grpc.enabled && !http.enabled {
            self.say("receivers.otlp", "grpc and http are both disabled: enable one of them");
        }
        let mut seen = vec![(admin.address, "admin.address")];
        let listeners = [
            (grpc.enabled, grpc.address, "receivers.otlp.grpc.address"),
            (http.enabled, http.address, "receivers.otlp.http.address"),
        ];
        for (enabled, address, field) in listeners {
            // Port 0 asks the system for a free one, so it never clashes.
            if !enabled || address.port() == 0 {
                continue;
            }
            if let Some((_, other)) = seen.iter().rev().find(|(other, _)| clash(*other, address)) {
                self.say(field, format!("{address} is also {other}: write another port"));
            }
            seen.push((address, field));
        }
    }

    fn otlp_limits(&mut self, limits: &OtlpLimits) {
        let OtlpLimits {
            grpc_message_bytes,
            http_body_bytes,
            header_list_bytes,
            concurrent_streams,
            connections,
            handshake_seconds,
            header_read_seconds,
            request_seconds,
            idle_seconds,
        } = limits;
        let field = |name: &str| format!("receivers.otlp.limits.{name}");
        // 128 MiB: beyond it one request could fill a small process's budget.
        let body = ByteSize::kib(1)..=ByteSize::mib(128);
        self.range(&field("grpcMessageBytes"), *grpc_message_bytes, body.clone());
        self.range(&field("httpBodyBytes"), *http_body_bytes, body);
        let headers = ByteSize::kib(1)..=ByteSize::mib(1);
        self.range(&field("headerListBytes"), *header_list_bytes, headers);
        self.range(&field("concurrentStreams"), *concurrent_streams, 1..=10_000);
        self.range(&field("connections"), *connections, 1..=100_000);
        self.range(&field("handshakeSeconds"), *handshake_seconds, 1..=300);
        self.range(&field("headerReadSeconds"), *header_read_seconds, 1..=300);
        self.range(&field("requestSeconds"), *request_seconds, 1..=600);
        self.range(&field("idleSeconds"), *idle_seconds, 1..=3600);
    }

    fn connection(&mut self, field: &str, connection: &KafkaConnection) {
        let KafkaConnection { bootstrap_servers, tls, sasl } = connection;
        if bootstrap_servers.is_empty() {
            self.say(
                &format!("{field}.bootstrapServers"),
                "no broker is given: write one at least, as in [kafka-0.kafka:9092]",
            );
        }
        self.client_tls(&format!("{field}.tls"), tls.as_ref());
        let plain = sasl.as_ref().is_some_and(|sasl| sasl.mechanism == SaslMechanism::Plain);
        if plain && tls.is_none() {
            self.say(
                &format!("{field}.sasl.mechanism"),
                "PLAIN without tls sends the password in clear: add `tls: {}` or write \
                 SCRAM-SHA-512",
            );
        }
    }

    fn client_tls(&mut self, field: &str, tls: Option<&ClientTls>) {
        let Some(ClientTls { ca_file: _, cert_file, key_file }) = tls else {
            return;
        };
        if cert_file.is_some() != key_file.is_some() {
            self.say(field, "certFile and keyFile go together: write both or neither");
        }
    }

    /// One topic at least, and none named twice.
    fn topics(&mut self, field: &str, topics: &Topics, seen: &mut HashMap<TopicName, String>) {
        for (signal, topic) in topics.given() {
            let field = format!("{field}.{signal}");
            if let Some(other) = seen.insert(topic.clone(), field.clone()) {
                self.say(&field, format!("topic `{topic}` is also {other}: write one of its own"));
            }
        }
    }

    fn some_topic(&mut self, field: &str, topics: &Topics) {
        if topics.given().next().is_none() {
            self.say(
                field,
                "no signal is named: leave `topics` out for all, or name traces, logs or metrics",
            );
        }
    }

    fn kafka_receiver(&mut self, receiver: &KafkaReceiver) {
        let KafkaReceiver {
            connection,
            group_id: _,
            group_instance_id_env: _,
            topics,
            dead_letter_topics,
            workers,
            fetch_queue_bytes,
            group_protocol: _,
            session_timeout_seconds,
            delivery: _,
        } = receiver;
        self.connection("receivers.kafka.connection", connection);
        self.some_topic("receivers.kafka.topics", topics);
        let mut seen = HashMap::new();
        self.topics("receivers.kafka.topics", topics, &mut seen);
        self.topics("receivers.kafka.deadLetterTopics", dead_letter_topics, &mut seen);
        for (signal, topic) in topics.given() {
            if TopicName::new(format!("{topic}{DEAD_LETTER_SUFFIX}")).is_err() {
                self.say(
                    &format!("receivers.kafka.topics.{signal}"),
                    format!(
                        "`{topic}` is too long to add `{DEAD_LETTER_SUFFIX}`: write a shorter one"
                    ),
                );
            }
        }
        if let Some(workers) = workers {
            self.range("receivers.kafka.workers", workers.get(), 1..=256);
        }
        self.range(
            "receivers.kafka.fetchQueueBytes",
            *fetch_queue_bytes,
            ByteSize::mib(1)..=ByteSize::mib(1024),
        );
        self.range("receivers.kafka.sessionTimeoutSeconds", *session_timeout_seconds, 6..=300);
    }

    fn kafka_exporter(&mut self, exporter: &KafkaExporter) {
        let KafkaExporter {
            connection,
            topics,
            compression: _,
            max_message_bytes,
            linger_millis,
            partition_by: _,
            acknowledge,
            delivery_timeout_seconds,
            buffer,
        } = exporter;
        self.connection("exporters.kafka.connection", connection);
        self.some_topic("exporters.kafka.topics", topics);
        self.topics("exporters.kafka.topics", topics, &mut HashMap::new());
        self.range(
            "exporters.kafka.maxMessageBytes",
            *max_message_bytes,
            ByteSize::kib(16)..=ByteSize::mib(64),
        );
        self.range("exporters.kafka.lingerMillis", *linger_millis, 0..=1000);
        self.range("exporters.kafka.deliveryTimeoutSeconds", *delivery_timeout_seconds, 1..=600);
        if let Some(buffer) = buffer {
            self.disk_buffer(buffer, *max_message_bytes, *acknowledge);
        }
    }

    fn disk_buffer(&mut self, buffer: &DiskBuffer, message: ByteSize, acknowledge: Acknowledge) {
        /// Segments are an eighth of the buffer: of four messages each has its place.
        const MESSAGES_MIN: u64 = 4;
        let DiskBuffer { path, max_bytes, drain: _ } = buffer;
        self.absolute("exporters.kafka.buffer.path", path);
        let least =
            ByteSize::mib(16).max(ByteSize::bytes(message.get().saturating_mul(MESSAGES_MIN)));
        let most = ByteSize::mib(1024 * 1024);
        self.range("exporters.kafka.buffer.maxBytes", *max_bytes, least..=most);
        if acknowledge == Acknowledge::AfterBuffering {
            self.say(
                "exporters.kafka.acknowledge",
                "AfterBuffering answers before anything is safe, which a buffer on disk is for: \
                 write AfterKafka or drop the buffer",
            );
        }
    }

    fn clickhouse(&mut self, exporter: &ClickHouseExporter) {
        let ClickHouseExporter {
            endpoints,
            shards,
            database: _,
            table_prefix: _,
            credentials: _,
            tls,
            attributes: _,
            nested_depth,
            batch,
            max_inserts_in_flight,
            insert_timeout_seconds,
            // Only a matter of the mode.
            acknowledge: _,
        } = exporter;
        let field = |name: &str| format!("exporters.clickhouse.{name}");
        if endpoints.is_empty() {
            self.say(
                &field("endpoints"),
                "no endpoint is given: write one at least, as in [http://clickhouse.db:8123]",
            );
        }
        self.range(&field("shards"), *shards, 1..=256);
        if !endpoints.len().is_multiple_of(usize::from(*shards).max(1)) {
            let message = format!(
                "{} endpoints can't be shared out evenly among {shards} shards: write as many for \
                 each, shard by shard",
                endpoints.len()
            );
            self.say(&field("shards"), message);
        }
        self.client_tls(&field("tls"), tls.as_ref());
        for (index, endpoint) in endpoints.iter().enumerate() {
            if tls.is_some() && !endpoint.is_https() {
                self.say(
                    &format!("{}[{index}]", field("endpoints")),
                    format!("`{endpoint}` is not https, yet tls is given: write https or drop tls"),
                );
            }
        }
        // 30 levels is all that a request may have.
        self.range(&field("nestedDepth"), *nested_depth, 0..=30);
        self.range(&field("batch.maxRows"), batch.max_rows, 1..=750_000);
        let bytes = ByteSize::kib(64)..=ByteSize::mib(1024);
        self.range(&field("batch.maxBytes"), batch.max_bytes, bytes);
        self.range(&field("batch.maxAgeMillis"), batch.max_age_millis, 1..=60_000);
        self.range(&field("maxInsertsInFlight"), *max_inserts_in_flight, 1..=64);
        self.range(&field("insertTimeoutSeconds"), *insert_timeout_seconds, 1..=600);
    }
}
