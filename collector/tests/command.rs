//! The collector as a process: what its commands answer, how it starts, is probed, and ends.
//!
//! Kafka is librdkafka's mock brokers here; real brokers and ClickHouse are the end-to-end tests'.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;

/// Longer than any wait here should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millrace-collector"))
}

/// A settings file that goes when this does.
pub(crate) struct Settings {
    folder: tempfile::TempDir,
}

impl Settings {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("collector.yaml"), text).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("collector.yaml")
    }

    pub(crate) fn command(&self, command: &str) -> Output {
        binary().arg(command).arg("--config").arg(self.path()).output().unwrap()
    }

    /// Standard error of a command that must refuse the settings, without the file's name.
    pub(crate) fn refused(&self, command: &str) -> Vec<String> {
        let output = self.command(command);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let prefix = format!("{}: ", self.path().display());
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect()
    }
}

/// A running collector. Killed if a test ends before it does.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<serde_json::Value>,
    log: Vec<serde_json::Value>,
}

impl Running {
    pub(crate) fn start(settings: &Settings) -> Self {
        let mut command = binary();
        command.arg("run").arg("--config").arg(settings.path());
        Self::start_command(command)
    }

    /// Starts the collector by a command that becomes it.
    pub(crate) fn start_command(mut command: Command) -> Self {
        let mut child =
            command.env("RUST_LOG", "debug").stderr(Stdio::piped()).spawn().expect("a process");
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = sync_channel(100_000);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let Ok(line) = line else { return };
                let parsed = serde_json::from_str(&line);
                let parsed = parsed.unwrap_or_else(|_| panic!("not a JSON log line: {line}"));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, log: Vec::new() }
    }

    /// The address in the log line with this message.
    fn address(&mut self, message: &str) -> String {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let known = self.log.iter().find(|line| line["message"] == message);
            if let Some(line) = known {
                let address = line["address"].as_str().unwrap();
                return address.replace("0.0.0.0", "127.0.0.1");
            }
            let line = self.lines.recv_timeout(PATIENCE).expect("another log line");
            self.log.push(line);
        }
        panic!("no log line says {message:?}");
    }

    pub(crate) fn admin(&mut self) -> String {
        self.address("serving probes and metrics")
    }

    pub(crate) fn grpc(&mut self) -> String {
        self.address("listening for OTLP over gRPC")
    }

    pub(crate) fn http(&mut self) -> String {
        self.address("listening for OTLP over HTTP")
    }

    /// Waits until `/readyz` answers with this status and a text that holds `text`.
    pub(crate) fn wait_for_readiness(&mut self, status: u16, text: &str) {
        let admin = self.admin();
        let start = Instant::now();
        loop {
            let (found, body) = request(&admin, "GET", "/readyz", &[], b"");
            if found == status && body.contains(text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{found}: {body}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM, then the end; how it ended and everything it logged.
    pub(crate) fn end(self) -> (ExitStatus, String) {
        self.terminate();
        self.ended()
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for the end: how it ended and everything it logged.
    fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.log.extend(self.lines.iter());
        let log: Vec<String> = self.log.iter().map(ToString::to_string).collect();
        (status, log.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP/1 request on a connection of its own: status and body.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// `ExportTraceServiceRequest` with one span that has a name, byte by byte.
pub(crate) const ONE_SPAN: &[u8] = &[0x0a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x2a, 0x01, b'x'];

fn post_span(address: &str) -> u16 {
    let headers = ["content-type: application/x-protobuf"];
    request(address, "POST", "/v1/traces", &headers, ONE_SPAN).0
}

pub(crate) fn edge(servers: &str) -> Settings {
    Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\n\
         memory: {{limitBytes: 256Mi}}\n\
         receivers:\n  otlp:\n    grpc: {{address: '127.0.0.1:0'}}\n    http: {{address: '127.0.0.1:0'}}\n\
         exporters:\n  kafka:\n    topics: {{traces: otlp_traces}}\n    connection:\n      \
         bootstrapServers: [{servers}]\n"
    ))
}

/// The whole way in one process, with everything at its default but memory and addresses.
fn direct(memory: &str) -> Settings {
    Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\n\
         memory: {{limitBytes: {memory}}}\n\
         receivers:\n  otlp:\n    grpc: {{address: '127.0.0.1:0'}}\n    http: {{address: '127.0.0.1:0'}}\n\
         exporters: {{clickhouse: {{endpoints: ['http://127.0.0.1:1']}}}}\n"
    ))
}

/// Scenario: settings of both kinds that can be used. Guarantee: said so, with what they make.
#[test]
fn validate_says_what_good_settings_make() {
    let good = edge("kafka:9092");
    let output = good.command("validate");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let expected = format!("{}: ok (edge: otlp to kafka)\n", good.path().display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let gateway = Settings::new(
        "receivers: {kafka: {connection: {bootstrapServers: [k:1]}}}\n\
         exporters: {clickhouse: {endpoints: [http://db:8123]}}\n",
    );
    let output = gateway.command("validate");
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with(": ok (gateway: kafka to clickhouse)\n")
    );
}

/// Scenario: bad settings. Guarantee: exit code 64, one line per problem with file, line, field and
/// what to write instead; `run` says the same as `validate`.
#[test]
fn bad_settings_are_refused_with_every_problem_named() {
    let bad = Settings::new(
        "receivers: {otlp: {}}\nexporters:\n  kafka:\n    lingerMillis: 5000\n    \
         connection: {bootstrapServers: []}\n",
    );
    let expected = [
        "line 4, column 5: exporters.kafka.lingerMillis: 5000 is out of range: use 0 to 1000",
        "line 5, column 18: exporters.kafka.connection.bootstrapServers: no broker is configured: \
         set at least one, as in [kafka-0.kafka:9092]",
    ];
    assert_eq!(bad.refused("validate"), expected);
    assert_eq!(bad.refused("run"), expected);
    let pattern = Settings::new(
        "receivers: {files: [{include: [/var/log/a.log], multiline: {start: '(a'}}]}\n\
         exporters: {kafka: {connection: {bootstrapServers: [k:1]}}}\n",
    );
    let said = pattern.refused("validate");
    assert!(said[0].contains("invalid pattern \"(a\": "), "{said:?}");
    assert_eq!(pattern.refused("run"), said);
    let pattern = Settings::new(
        "receivers: {containers: {parse: {format: Regex, pattern: '(a)'}}}\n\
         exporters: {kafka: {connection: {bootstrapServers: [k:1]}}}\n",
    );
    let said = pattern.refused("validate");
    let why = "no group has a name: name at least one, as in `(?P<level>[A-Z]+)` (parse.pattern of \
               containers /var/log/pods)";
    assert!(said[0].contains(why), "{said:?}");
    let layout = Settings::new(
        "receivers: {containers: {parse: {format: JSON, timestamp: {fields: [t], format: Layout,\n\
         layout: '%Y-%m-%d'}}}}\n\
         exporters: {kafka: {connection: {bootstrapServers: [k:1]}}}\n",
    );
    let said = layout.refused("validate");
    let why = "%H must appear exactly once (parse.timestamp.layout of containers /var/log/pods)";
    assert!(said[0].contains(why), "{said:?}");
    let unknown = Settings::new("receivers:\n  otlp:\n    grcp: {}\n");
    assert_eq!(
        unknown.refused("validate"),
        [
            "line 3, column 5: receivers.otlp: unknown field `grcp`, expected one of `grpc`, `http`, \
          `limits`, `recordTimes`"
        ]
    );
    let absent = Settings::new("");
    std::fs::remove_file(absent.path()).unwrap();
    assert_eq!(absent.refused("run"), ["cannot be read: No such file or directory (os error 2)"]);
}

/// Scenario: settings that are right in themselves but not here: too little memory, a variable that
/// isn't set. Guarantee: exit code 64 and the reason in the log.
#[test]
fn settings_that_do_not_fit_the_place_are_refused() {
    let small = Settings::new(
        &std::fs::read_to_string(edge("kafka:9092").path())
            .unwrap()
            .replace("limitBytes: 256Mi", "limitBytes: 64Mi")
            .replace("  otlp:\n", "  otlp:\n    limits: {httpBodyBytes: 30Mi}\n"),
    );
    // The numbers grow with the machine's cores.
    let lines = small.refused("run");
    let line = lines.last().unwrap();
    assert!(line.contains("receivers.otlp.limits allows: 30Mi require "), "{lines:?}");
    assert!(line.contains("Set memory.limitBytes: 1"), "{lines:?}");
    assert!(line.contains("Mi in receivers.otlp.limits for httpBodyBytes"), "{lines:?}");
    let chosen = Settings::new(
        &std::fs::read_to_string(direct("256Mi").path())
            .unwrap()
            .replace("  otlp:\n", "  otlp:\n    limits: {httpBodyBytes: 30Mi}\n"),
    );
    let lines = chosen.refused("run");
    let line = lines.last().unwrap();
    assert!(line.contains("Set memory.limitBytes: 4"), "{lines:?}");
    assert!(line.contains("Mi in receivers.otlp.limits for httpBodyBytes"), "{lines:?}");
    let gateway = Settings::new(
        "admin: {address: '127.0.0.1:0'}\n\
         receivers: {kafka: {connection: {bootstrapServers: ['127.0.0.1:1']}, \
         groupInstanceIdEnv: MILLRACE_TEST_ABSENT}}\n\
         exporters: {clickhouse: {endpoints: ['http://127.0.0.1:1']}}\n",
    );
    let lines = gateway.refused("run");
    assert!(lines.last().unwrap().contains("MILLRACE_TEST_ABSENT is not set"), "{lines:?}");
}

/// Scenario: the small installation with default settings in 64 and in 256 MiB, and requests
/// longer than the memory budget holds. Guarantee: it starts and takes requests; the longer
/// ones are refused for good, with the length that is taken.
#[test]
fn small_processes_start_and_refuse_for_good_what_never_fits() {
    const MIB: u64 = 1 << 20;
    // The lengths shrink with the machine's cores.
    let cases = [("64Mi", 2 * MIB..=4 * MIB), ("256Mi", 14 * MIB..=17 * MIB)];
    for (memory, expected) in cases {
        let settings = direct(memory);
        let mut direct = Running::start(&settings);
        let address = direct.http();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Refused by the length it declares.
        let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                    content-type: application/x-protobuf\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n", expected.end() + 1).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{memory}: {answer}");
        let longest = answer.split("exceeds ").nth(1).and_then(|rest| rest.split(' ').next());
        let longest: u64 = longest.unwrap().parse().unwrap();
        assert!(expected.contains(&longest), "{memory}: {answer}");
        // ClickHouse isn't there, which is said of what may come.
        assert_eq!(post_span(&address), 503, "{memory}");
        let (status, log) = direct.end();
        assert!(status.success(), "{memory}: {log}");
    }
}

/// Scenario: the small installation without its ClickHouse refuses a span. Guarantee: the page at
/// `/` says that it isn't ready, and the refusal with its reason; it answers GET alone.
#[test]
fn the_page_says_what_does_not_work() {
    let settings = direct("256Mi");
    let mut direct = Running::start(&settings);
    assert_eq!(post_span(&direct.http()), 503);
    let admin = direct.admin();
    let (status, page) = request(&admin, "GET", "/", &[], b"");
    assert_eq!(status, 200);
    for part in ["<strong>Not ready</strong>", "ClickHouse", "unavailable, traces"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(request(&admin, "POST", "/", &[], b"").0, 405);
    let (status, log) = direct.end();
    assert!(status.success(), "{log}");
}

/// Scenario: an address that is taken. Guarantee: exit code 1 and the field in the log.
#[test]
fn a_taken_address_ends_the_start_with_its_field() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let settings = Settings::new(
        &std::fs::read_to_string(edge("127.0.0.1:1").path())
            .unwrap()
            .replace("grpc: {address: '127.0.0.1:0'}", &format!("grpc: {{address: '{address}'}}")),
    );
    let output = settings.command("run");
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        log.contains(&format!("cannot listen on {address} (receivers.otlp.grpc.address)")),
        "{log}"
    );
}

/// Scenario: the version of a build as tests or a release have it. Guarantee: it names the points
/// at which tests end the process exactly if it has debug assertions, which no release has.
#[test]
fn a_build_without_debug_assertions_has_no_failpoints() {
    let output = binary().arg("version").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.contains("failpoints"), cfg!(debug_assertions), "{text}");
}

/// Scenario: the version. Guarantee: the package's, with the allocator.
#[test]
fn version_names_the_allocator() {
    let output = binary().arg("version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let start = format!("millrace-collector {} (", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&start), "{text}");
}

/// Scenario: an edge whose broker isn't there is asked from its first moment on, before its parts
/// are made. Guarantee: it is never ready.
#[test]
fn nothing_is_ready_before_its_parts_are() {
    let settings = edge("127.0.0.1:1");
    let mut edge = Running::start(&settings);
    let admin = edge.admin();
    for _ in 0..500 {
        let (status, text) = request(&admin, "GET", "/readyz", &[], b"");
        assert_eq!(status, 503, "{text}");
    }
}

/// Scenario: a whole edge with brokers. Guarantee: ready, records in are records out, metrics say
/// so, and SIGTERM ends it with 0 after the last record is safe.
#[test]
fn an_edge_carries_records_and_drains_on_sigterm() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", 1, 1).unwrap();
    let settings = edge(&mock.bootstrap_servers());
    let mut edge = Running::start(&settings);
    edge.wait_for_readiness(200, "ok");
    let (admin, http) = (edge.admin(), edge.http());
    for _ in 0..3 {
        assert_eq!(post_span(&http), 200);
    }
    assert_eq!(request(&admin, "GET", "/livez", &[], b""), (200, "ok\n".to_owned()));
    let (status, metrics) = request(&admin, "GET", "/metrics", &[], b"");
    assert_eq!(status, 200);
    for line in [
        "millrace_records_in_total{signal=\"traces\"} 3",
        "millrace_records_out_total{signal=\"traces\"} 3",
        "millrace_records_in_flight{signal=\"traces\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    // The clients' connections have been closed by them, and end when that has been seen.
    let start = Instant::now();
    while !request(&admin, "GET", "/metrics", &[], b"").1.contains("millrace_bytes_in_flight 0\n") {
        assert!(start.elapsed() < PATIENCE, "something is held");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(request(&admin, "POST", "/metrics", &[], b"").0, 405);
    assert_eq!(request(&admin, "GET", "/secret", &[], b"").0, 404);
    let (status, log) = edge.end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("all accepted records are safe"), "{log}");
}

/// Scenario: no broker at all, and a password in a file. Guarantee: alive, not ready with a reason,
/// requests told to come back, ends in order; the password is nowhere, even at debug level.
#[test]
fn an_edge_without_kafka_is_alive_not_ready_and_keeps_its_secrets() {
    let settings = edge("127.0.0.1:1");
    let folder = settings.folder.path().to_path_buf();
    std::fs::write(folder.join("user"), "canary-user-7431").unwrap();
    std::fs::write(folder.join("password"), "canary-password-9552").unwrap();
    let sasl = format!(
        "      sasl:\n        mechanism: SCRAM-SHA-512\n        usernameFile: {0}/user\n        \
         passwordFile: {0}/password\n",
        folder.display()
    );
    let text = std::fs::read_to_string(settings.path()).unwrap() + &sasl;
    std::fs::write(settings.path(), text).unwrap();
    let mut edge = Running::start(&settings);
    edge.wait_for_readiness(503, "kafka: cannot reach Kafka");
    let (admin, http) = (edge.admin(), edge.http());
    assert_eq!(request(&admin, "GET", "/livez", &[], b"").0, 200);
    assert_eq!(post_span(&http), 503);
    let (_, metrics) = request(&admin, "GET", "/metrics", &[], b"");
    let refused = "millrace_records_refused_total{reason=\"unavailable\",signal=\"traces\"} 1";
    assert!(metrics.contains(refused), "{metrics}");
    let (_, reasons) = request(&admin, "GET", "/readyz", &[], b"");
    let (status, log) = edge.end();
    assert_eq!(status.code(), Some(0), "{log}");
    for text in [log, metrics, reasons] {
        assert!(!text.contains("canary-password-9552"), "{text}");
    }
}

/// Scenario: a gateway with neither Kafka nor ClickHouse. Guarantee: alive, not ready with a reason
/// for each, and it ends in order.
#[test]
fn a_gateway_without_anything_is_alive_and_says_what_it_lacks() {
    let settings = Settings::new(
        "admin: {address: '127.0.0.1:0'}\nmemory: {limitBytes: 512Mi}\n\
         shutdown: {deadlineSeconds: 5}\n\
         receivers: {kafka: {workers: 1, connection: {bootstrapServers: ['127.0.0.1:1']}}}\n\
         exporters: {clickhouse: {endpoints: ['http://127.0.0.1:1']}}\n",
    );
    let mut gateway = Running::start(&settings);
    gateway.wait_for_readiness(503, "kafka source: ");
    gateway.wait_for_readiness(503, "clickhouse: ");
    let admin = gateway.admin();
    assert_eq!(request(&admin, "GET", "/livez", &[], b"").0, 200);
    let (status, log) = gateway.end();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Scenario: a gateway has read records that no ClickHouse takes, and is told to end. Guarantee: at
/// its deadline it says of which topic what isn't safe and what follows, not that everything is,
/// and its exit code is 1.
#[test]
fn a_gateway_says_what_it_leaves_behind() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", 1, 1).unwrap();
    let servers = mock.bootstrap_servers();
    let edge_settings = edge(&servers);
    let mut edge = Running::start(&edge_settings);
    edge.wait_for_readiness(200, "ok");
    assert_eq!(post_span(&edge.http()), 200);
    let settings = Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\nmemory: {{limitBytes: 512Mi}}\n\
         shutdown: {{deadlineSeconds: 2}}\n\
         receivers:\n  kafka:\n    workers: 2\n    delivery: AtLeastOnce\n    \
         topics: {{traces: otlp_traces}}\n    \
         connection: {{bootstrapServers: ['{servers}']}}\n\
         exporters: {{clickhouse: {{endpoints: ['http://127.0.0.1:1']}}}}\n",
    ));
    let mut gateway = Running::start(&settings);
    let admin = gateway.admin();
    let start = Instant::now();
    let read = "millrace_records_in_total{signal=\"traces\"} 1";
    while !request(&admin, "GET", "/metrics", &[], b"").1.contains(read) {
        assert!(start.elapsed() < PATIENCE, "the span is never read");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, log) = gateway.end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(!log.contains("all accepted records are safe"), "{log}");
    for text in [
        "not all records are known to be stored and committed",
        "are duplicated",
        "\"partitions\":1,",
        "\"unanswered_batches\":1,",
        "\"uncommitted_offsets\":1,",
    ] {
        assert!(log.contains(text), "{text} is not in\n{log}");
    }
}

/// Scenario: an edge that announces its end gets SIGTERM. Guarantee: it is unready at once, yet new
/// connections are served until the announcement is over; then it ends in order.
#[test]
fn an_announced_end_is_unready_at_once_and_serves_until_it_begins() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", 1, 1).unwrap();
    let settings = edge(&mock.bootstrap_servers());
    let text = std::fs::read_to_string(settings.path()).unwrap();
    // Longer than two requests on loopback take.
    let announced = text + "shutdown: {announceSeconds: 4, deadlineSeconds: 20}\n";
    std::fs::write(settings.path(), announced).unwrap();
    let mut edge = Running::start(&settings);
    edge.wait_for_readiness(200, "ok");
    let http = edge.http();
    let started = Instant::now();
    edge.terminate();
    edge.wait_for_readiness(503, "draining");
    assert_eq!(post_span(&http), 200, "a client that has not heard of it is served");
    let (status, log) = edge.ended();
    assert!(started.elapsed() >= Duration::from_secs(4), "the announcement was cut short");
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(
        log.contains("no longer ready") && log.contains("all accepted records are safe"),
        "{log}"
    );
}
