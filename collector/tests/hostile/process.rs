//! A collector as a child process in a memory cgroup, where one may be made, and its peak.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// The collector's memory limit, in its settings and in the cgroup.
const LIMIT_BYTES: u64 = 128 << 20;

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a metric may take to tell.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// How often the memory is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(3);

/// `ExportTraceServiceRequest` with one span that has a name, byte by byte.
const ONE_SPAN: &[u8] = &[0x0a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x2a, 0x01, b'x'];

/// Times that rows set, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) header_read_seconds: u32,
    pub(crate) request_seconds: u32,
}

impl Limits {
    /// The product's defaults.
    pub(crate) const USUAL: Self = Self { header_read_seconds: 10, request_seconds: 30 };
    /// For rows that wait for them.
    pub(crate) const SHORT: Self = Self { header_read_seconds: 2, request_seconds: 2 };
}

/// A running collector. Killed when this is dropped.
pub(crate) struct Collector {
    child: Child,
    pub(crate) admin: String,
    pub(crate) grpc: String,
    pub(crate) http: String,
    watch: Watch,
    _cgroup: Option<Cgroup>,
    _settings: tempfile::TempDir,
    _kafka: MockCluster<'static, DefaultProducerContext>,
}

impl Collector {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(limits: Limits) -> Self {
        let kafka = MockCluster::new(1).unwrap();
        kafka.create_topic("otlp_traces", 1, 1).unwrap();
        let settings = tempfile::tempdir().unwrap();
        let path = settings.path().join("collector.yaml");
        fs::write(&path, document(&kafka.bootstrap_servers(), limits)).unwrap();
        let cgroup = Cgroup::new();
        let mut child = command(cgroup.as_ref(), &path).spawn().expect("a process");
        let watch = Watch::start(child.id());
        let mut addresses = Addresses::read(child.stderr.take().unwrap());
        let this = Self {
            child,
            admin: addresses.next("serving probes and metrics"),
            grpc: addresses.next("listening for OTLP over gRPC"),
            http: addresses.next("listening for OTLP over HTTP"),
            watch,
            _cgroup: cgroup,
            _settings: settings,
            _kafka: kafka,
        };
        addresses.leave();
        let start = Instant::now();
        while request(&this.admin, "GET", "/readyz", b"").is_none_or(|(status, _)| status != 200) {
            assert!(start.elapsed() < PATIENCE, "never ready");
            thread::sleep(Duration::from_millis(20));
        }
        this
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// The most memory it has written itself until now.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.watch.peak_bytes.load(Ordering::Acquire)
    }

    /// Sends a span until it is stored.
    pub(crate) fn serves_a_client(&mut self, within: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let answer = request(&self.http, "POST", "/v1/traces", ONE_SPAN);
            if answer.as_ref().is_some_and(|(status, _)| *status == 200) {
                return Ok(());
            }
            if start.elapsed() > within {
                return Err(format!("a client isn't served within {within:?}: {answer:?}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the samples of a metric come to in all.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.try_metric(name).expect("metrics")
    }

    fn try_metric(&self, name: &str) -> Option<u64> {
        let (_, text) = request(&self.admin, "GET", "/metrics", b"")?;
        Some(text.lines().filter_map(|line| sample(line, name)).sum())
    }

    /// Waits until the samples of a metric have come to `least` in all. The admin port must answer
    /// at once meanwhile.
    pub(crate) fn wait_for_metric(&mut self, name: &str, least: u64) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let found = self.try_metric(name).ok_or("the admin port doesn't answer")?;
            if found >= least {
                return Ok(());
            }
            if start.elapsed() > SHOWN_WITHIN {
                return Err(format!("{name} is at {found}, not at {least}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value on a line of a metric with this name, whatever its labels.
fn sample(line: &str, name: &str) -> Option<u64> {
    let rest = line.strip_prefix(name)?;
    rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse().ok()).flatten()
}

fn document(servers: &str, limits: Limits) -> String {
    let Limits { header_read_seconds, request_seconds } = limits;
    format!(
        "admin: {{address: '127.0.0.1:0'}}\n\
         memory: {{limitBytes: {LIMIT_BYTES}}}\n\
         receivers:\n  otlp:\n    grpc: {{address: '127.0.0.1:0'}}\n    \
         http: {{address: '127.0.0.1:0'}}\n    \
         limits: {{headerReadSeconds: {header_read_seconds}, requestSeconds: {request_seconds}}}\n\
         exporters:\n  kafka:\n    topics: {{traces: otlp_traces}}\n    connection:\n      \
         bootstrapServers: ['{servers}']\n"
    )
}

/// The collector, or a shell that enters the cgroup and becomes it.
fn command(cgroup: Option<&Cgroup>, settings: &Path) -> Command {
    let binary = env!("CARGO_BIN_EXE_millrace-collector");
    let mut command = match cgroup {
        None => Command::new(binary),
        Some(Cgroup { folder }) => {
            let mut shell = Command::new("sh");
            let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
            shell.args(["-c", enter]).arg(folder).arg(binary);
            shell
        }
    };
    command.arg("run").arg("--config").arg(settings).env("RUST_LOG", "info");
    command.stderr(Stdio::piped());
    command
}

/// The addresses in a collector's log, in the order of its lines.
struct Addresses {
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Addresses {
    fn read(log: std::process::ChildStderr) -> Self {
        Self { lines: BufReader::new(log).lines() }
    }

    fn next(&mut self, message: &str) -> String {
        for line in self.lines.by_ref() {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            if line["message"] == message {
                return line["address"].as_str().unwrap().to_owned();
            }
        }
        panic!("no log line says {message:?}");
    }

    /// Reads on, so that the log never stands still.
    fn leave(self) {
        thread::spawn(move || self.lines.for_each(drop));
    }
}

/// A memory cgroup of the limit's size, of version 1 or 2. Removed when this is dropped.
struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Makes one, or none where that isn't allowed.
    fn new() -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("millrace-hostile-{}-{number}", std::process::id());
        [("memory/", "memory.limit_in_bytes"), ("", "memory.max")].iter().find_map(
            |(base, file)| {
                let root = Path::new("/sys/fs/cgroup").join(base);
                // Where version 1 is mounted, the root of version 2 has no memory to limit.
                let cgroup = Self { folder: root.join(&name) };
                fs::create_dir(&cgroup.folder).ok()?;
                let limit = cgroup.folder.join(file);
                // Opened only if it is there: elsewhere the file would be made.
                let written = limit.exists() && fs::write(limit, LIMIT_BYTES.to_string()).is_ok();
                written.then_some(cgroup)
            },
        )
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let start = Instant::now();
        // The kernel lets go of an ended process a little later.
        while fs::remove_dir(&self.folder).is_err() && start.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Looks at a process's memory until this is dropped.
struct Watch {
    peak_bytes: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(process: u32) -> Self {
        let (peak_bytes, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (peak, end) = (Arc::clone(&peak_bytes), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                peak.fetch_max(written_bytes(process).unwrap_or(0), Ordering::AcqRel);
                thread::sleep(LOOK_PERIOD);
            }
        });
        Self { peak_bytes, ended, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// `RssAnon`: what is in memory of what the process wrote itself.
fn written_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// One HTTP/1 request on a connection of its own: status and body, if there is an answer.
fn request(address: &str, method: &str, path: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
