//! Judges a complete document: which mode it selects, and whether each limit is in its range.
//!
//! Pure: a document and its lines go in, a [`Checked`] one or all problems come out.

mod containers;
mod http_access;
mod kafka;
mod processing;
mod prometheus;
mod weights;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;

pub(crate) use prometheus::{all_jobs, check_shared_job};

use crate::lines::Lines;
use crate::problem::{ConfigError, Problem};
use crate::{
    Acknowledge, AcknowledgeInsert, Admin, ByteSize, ClickHouseExporter, ClientTls, Config,
    ContainersReceiver, Credentials, Exporters, FilesReceiver, KafkaAwsMskIam, KafkaConnection,
    KafkaExporter, KafkaReceiver, KernelReceiver, Memory, Multiline, OtlpLimits, OtlpReceiver,
    OwnOtlp, OwnTelemetry, Parse, ParseFormat, Positions, PrometheusReceiver, Receivers,
    RecordTimes, Sasl, SaslMechanism, Shutdown, TimeFormat, Timestamp,
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
    /// Where their positions are stored.
    pub positions: Positions,
}

impl Sources {
    /// Their names in the settings, for people.
    #[must_use]
    pub fn display_names(&self) -> String {
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
    fn from_sections(
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
struct Checker<'a> {
    lines: &'a Lines,
    problems: Vec<Problem>,
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
    let mode = judge.decide_mode(receivers, exporters, positions);
    match &mode {
        Some(CollectorMode::Edge { sources, kafka }) => {
            judge.check_sources(&admin, sources);
            judge.check_routes(&processing, &kafka.topics);
            let early = kafka.acknowledge == Acknowledge::AfterBuffering;
            judge.check_positions(sources, early.then_some("exporters.kafka.acknowledge"));
            if sources.logs.is_some() && kafka.topics.logs.is_none() {
                judge.add_problem(
                    "exporters.kafka.topics",
                    "logs have no topic, but files or the kernel log are read: set \
                     exporters.kafka.topics.logs, or remove these receivers",
                );
            }
            if sources.prometheus.is_some() && kafka.topics.metrics.is_none() {
                judge.add_problem(
                    "exporters.kafka.topics",
                    "metrics have no topic, but targets are scraped: set \
                     exporters.kafka.topics.metrics, or remove receivers.prometheus",
                );
            }
        }
        Some(CollectorMode::Direct { sources, clickhouse }) => {
            judge.check_sources(&admin, sources);
            judge.check_no_routes(&processing);
            let early = clickhouse.acknowledge == AcknowledgeInsert::AfterBuffering;
            judge.check_positions(sources, early.then_some("exporters.clickhouse.acknowledge"));
            if let Some(otlp) = sources.otlp.as_ref().filter(|_| !early) {
                judge.batch_age(otlp.limits.answer_seconds, clickhouse.batch.max_age_millis);
            }
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

/// Whether only one of two listeners could be bound: all interfaces have each one's ports.
fn listeners_clash(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (all || one.ip() == other.ip())
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

    fn add_problem(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            field: field.to_owned(),
            position: self.lines.position(field),
            message: message.into(),
        });
    }

    fn check_range<T: PartialOrd + Display>(
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

    fn check_memory(&mut self, memory: &Memory) {
        let Memory { limit_bytes, budget_percent } = memory;
        if let Some(limit) = limit_bytes {
            let top = ByteSize::bytes(1 << 50);
            self.check_range("memory.limitBytes", *limit, ByteSize::mib(64)..=top);
        }
        self.check_range("memory.budgetPercent", *budget_percent, 10..=80);
    }

    fn check_shutdown(&mut self, shutdown: &Shutdown) {
        /// Longer than any load balancer should take to follow readiness.
        const ANNOUNCE_SECONDS_MAX: u32 = 60;
        let Shutdown { deadline_seconds, announce_seconds } = shutdown;
        self.check_range("shutdown.deadlineSeconds", *deadline_seconds, 1..=600);
        let longest = ANNOUNCE_SECONDS_MAX.min(deadline_seconds.saturating_sub(1));
        self.check_range("shutdown.announceSeconds", *announce_seconds, 0..=longest);
    }

    fn check_own_telemetry(&mut self, own: Option<&OwnOtlp>) {
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
        self.check_client_tls("telemetry.otlp.tls", tls.as_ref());
        self.check_range("telemetry.otlp.tracesPerSecond", *traces_per_second, 0..=100);
        self.check_range("telemetry.otlp.tracesPercent", *traces_percent, 1..=100);
        for (field, entries, most) in [
            ("headers", headers.len(), OWN_HEADERS_MAX),
            ("attributes", attributes.len(), OWN_ATTRIBUTES_MAX),
        ] {
            if entries > most {
                let message = format!("{entries} entries: use at most {most}");
                self.add_problem(&format!("telemetry.otlp.{field}"), message);
            }
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

    /// Nobody is routed to a gateway: its announcement would only be time lost.
    fn check_announce(&mut self, shutdown: &Shutdown) {
        if shutdown.announce_seconds > 0 {
            self.add_problem(
                "shutdown.announceSeconds",
                "a gateway has no clients that follow its readiness: remove the field",
            );
        }
    }

    fn decide_mode(
        &mut self,
        receivers: Receivers,
        exporters: Exporters,
        positions: Positions,
    ) -> Option<CollectorMode> {
        let Receivers { otlp, kafka: from_kafka, containers, files, kernel, prometheus } =
            receivers;
        let Exporters { kafka: to_kafka, clickhouse } = exporters;
        if let Some(otlp) = &otlp {
            self.check_otlp_limits(&otlp.limits);
            let RecordTimes { past_days, future_hours } = otlp.record_times;
            self.check_record_times("receivers.otlp.recordTimes", past_days, future_hours);
        }
        if let Some(kafka) = &from_kafka {
            self.check_kafka_receiver(kafka);
        }
        if let Some(kafka) = &to_kafka {
            self.check_kafka_exporter(kafka);
        }
        if let Some(clickhouse) = &clickhouse {
            self.check_clickhouse(clickhouse);
        }
        let logs = LogSources { containers, files, kernel, positions };
        let sources = Sources::from_sections(otlp, logs, prometheus);
        match (sources, from_kafka, to_kafka, clickhouse) {
            (Some(sources), None, Some(kafka), None) => {
                Some(CollectorMode::Edge { sources, kafka: Box::new(kafka) })
            }
            (Some(sources), None, None, Some(clickhouse)) => {
                Some(CollectorMode::Direct { sources, clickhouse: Box::new(clickhouse) })
            }
            (None, Some(kafka), None, Some(clickhouse)) => Some(CollectorMode::Gateway {
                kafka: Box::new(kafka),
                clickhouse: Box::new(clickhouse),
            }),
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

    fn check_sources(&mut self, admin: &Admin, sources: &Sources) {
        let Sources { otlp, logs, prometheus } = sources;
        if let Some(otlp) = otlp {
            self.check_listeners(admin, otlp);
        }
        if let Some(prometheus) = prometheus {
            self.check_prometheus(prometheus);
        }
        let Some(logs) = logs.as_deref() else { return };
        let LogSources { containers, files, kernel, positions: _ } = logs;
        if let Some(KernelReceiver { device }) = kernel {
            self.check_absolute("receivers.kernel.device", device);
        }
        if let Some(containers) = containers {
            self.check_containers(containers);
        }
        for (index, files) in files.iter().enumerate() {
            self.check_files(&format!("receivers.files[{index}]"), files);
        }
    }

    /// Names of labels or annotations.
    fn check_pod_names(&mut self, field: &str, names: &[String]) {
        if names.len() > POD_NAMES_MAX {
            let number = names.len();
            self.add_problem(field, format!("{number} names: use at most {POD_NAMES_MAX}"));
        }
        let beginning = |name: &str| name.strip_suffix('*').unwrap_or(name).contains('*');
        if names.iter().any(|name| name.is_empty() || beginning(name)) {
            self.add_problem(field, "use a complete name, or a prefix followed by one `*`");
        }
    }

    fn check_files(&mut self, field: &str, files: &FilesReceiver) {
        let FilesReceiver {
            include,
            exclude,
            start_at: _,
            encoding: _,
            multiline,
            parse,
            max_line_bytes,
        } = files;
        self.check_parse(&format!("{field}.parse"), parse);
        if include.is_empty() {
            let example = "no file is configured: set at least one pattern, as in [/var/log/*.log]";
            self.add_problem(&format!("{field}.include"), example);
        }
        for (name, patterns) in [("include", include), ("exclude", exclude)] {
            for (index, pattern) in patterns.iter().enumerate() {
                self.check_absolute(&format!("{field}.{name}[{index}]"), Path::new(pattern));
            }
        }
        self.check_range(&format!("{field}.maxLineBytes"), *max_line_bytes, RECORD_BYTES);
        self.check_multiline(&format!("{field}.multiline"), multiline.as_ref());
    }

    fn check_multiline(&mut self, field: &str, multiline: Option<&Multiline>) {
        let Some(Multiline { start, indented, stack_traces, timeout_millis }) = multiline else {
            return;
        };
        let rules = [start.is_some(), *indented, stack_traces.is_some()];
        if rules.iter().filter(|is_given| **is_given).count() != 1 {
            self.add_problem(
                field,
                "set exactly one of `start`, `indented: true` and `stackTraces`",
            );
        }
        self.check_range(&format!("{field}.timeoutMillis"), *timeout_millis, 100..=60_000);
    }

    fn check_parse(&mut self, field: &str, parse: &Parse) {
        let Parse { format, pattern, body, severity, timestamp } = parse;
        if *format == ParseFormat::None {
            if *parse != Parse::default() {
                self.add_problem(
                    field,
                    "no format is set, so nothing is parsed: set `format: JSON`, Logfmt or Regex",
                );
            }
            return;
        }
        let pattern_field = format!("{field}.pattern");
        match pattern {
            None if *format == ParseFormat::Regex => {
                self.add_problem(
                    &pattern_field,
                    "Regex requires a pattern, as in '^(?P<level>[A-Z]+) (?P<msg>.*)'",
                );
            }
            Some(_) if *format != ParseFormat::Regex => {
                self.add_problem(&pattern_field, "only `format: Regex` has a pattern: remove it");
            }
            Some(pattern) if pattern.chars().count() > PATTERN_CHARACTERS_MAX => {
                let message =
                    format!("longer than {PATTERN_CHARACTERS_MAX} characters: shorten it");
                self.add_problem(&pattern_field, message);
            }
            _ => {}
        }
        let times = timestamp.as_ref().map(|Timestamp { fields, .. }| fields);
        self.check_timestamp(&format!("{field}.timestamp"), timestamp.as_ref());
        let lists =
            [("body", Some(body)), ("severity", Some(severity)), ("timestamp.fields", times)];
        let mut seen = HashMap::new();
        for (list, names) in lists.iter().filter_map(|(list, names)| Some((list, (*names)?))) {
            let field = format!("{field}.{list}");
            if names.len() > NAMES_MAX {
                self.add_problem(&field, format!("{} names: use at most {NAMES_MAX}", names.len()));
            }
            for name in names {
                if name.is_empty() {
                    self.add_problem(&field, "a name is empty: remove it");
                }
                if let Some(other) = seen.insert(name, list) {
                    self.add_problem(
                        &field,
                        format!("`{name}` is also in {other}: remove one of them"),
                    );
                }
            }
        }
    }

    fn check_timestamp(&mut self, field: &str, timestamp: Option<&Timestamp>) {
        let Some(Timestamp { fields, format, layout }) = timestamp else { return };
        if fields.is_empty() {
            self.add_problem(&format!("{field}.fields"), "no field is named: name at least one");
        }
        if layout.is_some() != (*format == TimeFormat::Layout) {
            self.add_problem(
                &format!("{field}.layout"),
                "`format: Layout` and `layout` must be set together: set both, or neither",
            );
        }
    }

    /// A position advances once the lines before it are acknowledged, so an acknowledgement must
    /// mean that they are safe.
    fn check_positions(&mut self, sources: &Sources, acknowledged_early: Option<&str>) {
        let Some(logs) = &sources.logs else { return };
        self.check_absolute("positions.directory", &logs.positions.directory);
        if let Some(field) = acknowledged_early {
            self.add_problem(
                field,
                "AfterBuffering would record lines as sent before they are stored: remove the \
                 field, since files or the kernel log are read",
            );
        }
    }

    fn check_absolute(&mut self, field: &str, path: &Path) {
        if !path.is_absolute() {
            let message =
                format!("`{}` is not an absolute path: use one that begins with /", path.display());
            self.add_problem(field, message);
        }
    }

    fn check_listeners(&mut self, admin: &Admin, otlp: &OtlpReceiver) {
        let OtlpReceiver { grpc, http, limits: _, record_times: _ } = otlp;
        if !grpc.enabled && !http.enabled {
            self.add_problem(
                "receivers.otlp",
                "grpc and http are both disabled: enable at least one of them",
            );
        }
        let mut seen = vec![(admin.address, "admin.address")];
        let listeners = [
            (grpc.enabled, grpc.address, "receivers.otlp.grpc.address"),
            (http.enabled, http.address, "receivers.otlp.http.address"),
        ];
        for (enabled, address, field) in listeners {
            // With port 0 the system assigns a free one, so it never clashes.
            if !enabled || address.port() == 0 {
                continue;
            }
            if let Some((_, other)) =
                seen.iter().rev().find(|(other, _)| listeners_clash(*other, address))
            {
                self.add_problem(field, format!("{address} is also {other}: use another port"));
            }
            seen.push((address, field));
        }
    }

    fn check_otlp_limits(&mut self, limits: &OtlpLimits) {
        let OtlpLimits {
            grpc_message_bytes,
            http_body_bytes,
            header_list_bytes,
            concurrent_streams,
            connections,
            handshake_seconds,
            header_read_seconds,
            answer_seconds,
            request_seconds,
            idle_seconds,
        } = limits;
        let field = |name: &str| format!("receivers.otlp.limits.{name}");
        // 128 MiB: beyond it one request could fill a small process's budget.
        let body = ByteSize::kib(1)..=ByteSize::mib(128);
        self.check_range(&field("grpcMessageBytes"), *grpc_message_bytes, body.clone());
        self.check_range(&field("httpBodyBytes"), *http_body_bytes, body);
        let headers = ByteSize::kib(1)..=ByteSize::mib(1);
        self.check_range(&field("headerListBytes"), *header_list_bytes, headers);
        self.check_range(&field("concurrentStreams"), *concurrent_streams, 1..=10_000);
        self.check_range(&field("connections"), *connections, 1..=100_000);
        self.check_range(&field("handshakeSeconds"), *handshake_seconds, 1..=300);
        self.check_range(&field("headerReadSeconds"), *header_read_seconds, 1..=300);
        self.check_range(&field("answerSeconds"), *answer_seconds, 1..=600);
        self.check_range(&field("requestSeconds"), *request_seconds, 1..=600);
        self.check_range(&field("idleSeconds"), *idle_seconds, 1..=3600);
    }

    fn check_connection(&mut self, field: &str, connection: &KafkaConnection) {
        let KafkaConnection { bootstrap_servers, tls, sasl } = connection;
        if bootstrap_servers.is_empty() {
            self.add_problem(
                &format!("{field}.bootstrapServers"),
                "no broker is configured: set at least one, as in [kafka-0.kafka:9092]",
            );
        }
        self.check_client_tls(&format!("{field}.tls"), tls.as_ref());
        let Some(sasl) = sasl else { return };
        self.check_sasl(&format!("{field}.sasl"), sasl);
        if sasl.mechanism == SaslMechanism::Plain && tls.is_none() {
            self.add_problem(
                &format!("{field}.sasl.mechanism"),
                "PLAIN without tls sends the password in plaintext: add `tls: {}` or use \
                 SCRAM-SHA-512",
            );
        }
        if sasl.aws_msk_iam.is_some() && tls.is_none() {
            self.add_problem(
                &format!("{field}.sasl.awsMskIam"),
                "it requires tls, as Amazon MSK does: add `tls: {}`",
            );
        }
    }

    fn check_sasl(&mut self, field: &str, sasl: &Sasl) {
        let Sasl { mechanism, username, username_file, password_file, oauth, aws_msk_iam } = sasl;
        let has_username = username.is_some() || username_file.is_some();
        if *mechanism == SaslMechanism::OAuthBearer {
            if oauth.is_some() == aws_msk_iam.is_some() {
                let message = "OAUTHBEARER requires either oauth or awsMskIam";
                self.add_problem(field, message);
            }
            if let Some(aws) = aws_msk_iam {
                self.check_aws_msk_iam(&format!("{field}.awsMskIam"), aws);
            }
            if has_username || password_file.is_some() {
                let message = "OAUTHBEARER has no user name or password: remove usernameFile, \
                               username and passwordFile";
                self.add_problem(field, message);
            }
            return;
        }
        for (name, is_set) in [("oauth", oauth.is_some()), ("awsMskIam", aws_msk_iam.is_some())] {
            if is_set {
                let message = "only OAUTHBEARER uses it: remove it, or change mechanism";
                self.add_problem(&format!("{field}.{name}"), message);
            }
        }
        if username.is_some() == username_file.is_some() {
            self.add_problem(field, "set either username or usernameFile");
        }
        if password_file.is_none() {
            let message = format!("{} requires it: add it", mechanism.as_str());
            self.add_problem(&format!("{field}.passwordFile"), message);
        }
    }

    fn check_aws_msk_iam(&mut self, field: &str, settings: &KafkaAwsMskIam) {
        let KafkaAwsMskIam { region, access_key_id_file, secret_access_key_file } = settings;
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_known) {
            let message = "not a region of AWS: write, for example, eu-central-1";
            self.add_problem(&format!("{field}.region"), message);
        }
        if access_key_id_file.is_some() != secret_access_key_file.is_some() {
            let message = "accessKeyIdFile and secretAccessKeyFile must be set together: set both, \
                           or neither";
            self.add_problem(field, message);
        }
    }

    fn check_client_tls(&mut self, field: &str, tls: Option<&ClientTls>) {
        let Some(ClientTls { ca_file: _, cert_file, key_file }) = tls else {
            return;
        };
        if cert_file.is_some() != key_file.is_some() {
            self.add_problem(
                field,
                "certFile and keyFile must be set together: set both, or neither",
            );
        }
    }

    fn check_credentials(
        &mut self,
        field: &str,
        credentials: &Credentials,
        tls: Option<&ClientTls>,
    ) {
        let Credentials { username, username_file, password_file, token_file } = credentials;
        if token_file.is_some() {
            if username.is_some() || username_file.is_some() || password_file.is_some() {
                let message = "a token names its user: remove username, usernameFile and \
                               passwordFile, or remove tokenFile";
                self.add_problem(field, message);
            }
            return;
        }
        if username.is_some() == username_file.is_some() {
            self.add_problem(field, "set either username or usernameFile");
        }
        if password_file.is_none() && tls.is_none_or(|tls| tls.cert_file.is_none()) {
            let message = "a user without passwordFile needs a client certificate: set \
                           passwordFile, or tls.certFile and tls.keyFile";
            self.add_problem(field, message);
        }
    }

    fn check_clickhouse(&mut self, exporter: &ClickHouseExporter) {
        let ClickHouseExporter {
            endpoints,
            shards,
            database: _,
            table_prefix: _,
            credentials,
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
            self.add_problem(
                &field("endpoints"),
                "no endpoint is configured: set at least one, as in [http://clickhouse.db:8123]",
            );
        }
        self.check_range(&field("shards"), *shards, 1..=256);
        if !endpoints.len().is_multiple_of(usize::from(*shards).max(1)) {
            let message = format!(
                "the number of endpoints ({}) is not a multiple of the number of shards \
                 ({shards}): list the same number of endpoints for each shard, shard by shard",
                endpoints.len()
            );
            self.add_problem(&field("shards"), message);
        }
        self.check_client_tls(&field("tls"), tls.as_ref());
        if let Some(credentials) = credentials {
            self.check_credentials(&field("credentials"), credentials, tls.as_ref());
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            if tls.is_some() && !endpoint.is_https() {
                self.add_problem(
                    &format!("{}[{index}]", field("endpoints")),
                    format!("`{endpoint}` is not https, but tls is set: use https or remove tls"),
                );
            }
        }
        // 30 levels is all that a request may have.
        self.check_range(&field("nestedDepth"), *nested_depth, 0..=30);
        self.check_range(&field("batch.maxRows"), batch.max_rows, 1..=750_000);
        let bytes = ByteSize::kib(64)..=ByteSize::mib(1024);
        self.check_range(&field("batch.maxBytes"), batch.max_bytes, bytes);
        self.check_range(&field("batch.maxAgeMillis"), batch.max_age_millis, 1..=60_000);
        self.check_range(&field("maxInsertsInFlight"), *max_inserts_in_flight, 1..=64);
        self.check_range(&field("insertTimeoutSeconds"), *insert_timeout_seconds, 1..=600);
    }
}
