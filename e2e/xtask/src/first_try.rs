//! `xtask try`: the shortest way from a bare machine to rows in a table. One collector takes OTLP
//! and writes it into a ClickHouse engine of its own: no Kubernetes, no Kafka, no root.
//!
//! The engine is fetched while Millrace is compiled, without optimisation: figures of this run say
//! nothing about speed. Both processes have a guard that ends them when this one ends, however it
//! does, and their folder goes with them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use millrace_stack::clickhouse::{self, Engine, EngineOptions};
use millrace_stack::http;
use millrace_stack::service::{Service, free_port};
use serde_json::json;

use crate::build::{self, Binaries};
use crate::{say, shell};

/// Spans sent and checked: a second of a build without optimisation.
const SPANS: u64 = 20_000;
/// The profile that compiles least.
const PROFILE: &str = "try";
/// The tables' database.
const DATABASE: &str = "otel";
/// OTLP's own ports, for gRPC and HTTP. Taken ones are replaced by free ones.
const OTLP_PORTS: [u16; 2] = [4317, 4318];
/// The steps that are counted on the screen.
const STEPS: u32 = 5;
/// A collector without optimisation is ready within a second.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The collector drains for 20 s at most by default; then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(25);
/// One request to a process of our own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How to run it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Take the programs that were compiled with the tests.
    #[arg(long)]
    no_build: bool,
    /// End when the rows are checked, instead of running until Ctrl-C.
    #[arg(long)]
    once: bool,
}

impl Options {
    /// As `make test-all` runs it: the binaries there are, to the checked rows and no further.
    pub(crate) fn of_a_test() -> Self {
        Self { no_build: true, once: true }
    }
}

/// Runs it, until Ctrl-C unless it is for once.
pub(crate) fn run(options: &Options) -> Result<()> {
    let from = if options.no_build { Binaries::AsTheyAre } else { Binaries::Built };
    let started = Instant::now();
    let step = |number: u32, text: &str| {
        say::step(&format!("[{:3.0} s] {number}/{STEPS} {text}", started.elapsed().as_secs_f64()));
    };
    step(1, "the ClickHouse engine is fetched, Millrace is compiled: 3 minutes the first time");
    let binaries = prepare(from)?;
    step(2, "starting the engine");
    let engine = Engine::start(EngineOptions::default()).context("the engine did not start")?;
    step(3, "making the tables");
    tables(&binaries, &engine)?;
    step(4, "starting the collector: OTLP in, ClickHouse rows out");
    let mut collector = Collector::start(&binaries, &engine)?;
    step(5, &format!("sending {SPANS} spans and one log record, and checking each row"));
    load(&binaries, &engine, &collector)?;
    let shown = one_log(&engine, &collector)?;
    page(&collector)?;
    say::line("");
    say::line(&format!("  your log record, as a row     {shown}"));
    say::line(&format!("  from start to checked rows    {:.0} s", started.elapsed().as_secs_f64()));
    if options.once {
        return Ok(());
    }
    guide(&engine, &collector);
    let status = collector.service.wait().context("the collector can't be waited for")?;
    bail!("the collector ended ({status}): {}", collector.service.log_tail());
}

/// The same to the checked rows, with the programs in a folder and nothing shown.
pub(crate) fn rows(binaries: &Path) -> Result<()> {
    let engine = Engine::start(EngineOptions::default()).context("the engine did not start")?;
    tables(binaries, &engine)?;
    let collector = Collector::start(binaries, &engine)?;
    load(binaries, &engine, &collector)?;
    one_log(&engine, &collector).map(drop)
}

/// Fetches the engine and compiles, side by side. The folder of the binaries.
fn prepare(from: Binaries) -> Result<PathBuf> {
    let engine = thread::spawn(clickhouse::install);
    let folder = match from {
        Binaries::Built => {
            // With `xtask`, as the Makefile builds it: the same features, so nothing is built twice.
            let packages = ["xtask", "millrace-collector", "millrace-ddl", "millrace-loadgen"];
            let select = packages.iter().flat_map(|name| ["-p", name]);
            let build = ["build", "--locked", "--profile", PROFILE, "--bins"];
            let args: Vec<&str> = build.into_iter().chain(select).collect();
            shell::run("cargo", &args)?;
            build::target().join(PROFILE)
        }
        Binaries::AsTheyAre => build::tested(""),
    };
    let Ok(installed) = engine.join() else { bail!("the engine's installation panicked") };
    installed.context("the ClickHouse engine can't be fetched")?;
    Ok(folder)
}

fn tables(binaries: &Path, engine: &Engine) -> Result<()> {
    let mut command = Command::new(binaries.join("clickhouse-ddl"));
    command
        .args(["create", "--endpoint", &engine.url(), "--database", DATABASE])
        .args(["--traces", "--logs", "--metrics", "--engine", "MergeTree"])
        .args(["--user", engine.user()])
        .env("CLICKHOUSE_PASSWORD", engine.password());
    shell::said("clickhouse-ddl", &command.output().context("clickhouse-ddl did not start")?)?;
    Ok(())
}

/// The one collector.
struct Collector {
    service: Service,
    grpc: SocketAddr,
    http: SocketAddr,
    admin: SocketAddr,
    password: PathBuf,
}

impl Collector {
    fn start(binaries: &Path, engine: &Engine) -> Result<Self> {
        // The engine's folder is a temporary one, which its guard removes.
        let folder = engine.dir();
        let [grpc, http] = OTLP_PORTS.map(listener);
        let (grpc, http, admin) = (grpc?, http?, address(free_port(LOOPBACK)?));
        let (user, password) = (folder.join("user"), folder.join("password"));
        fs::write(&user, engine.user()).context("cannot write the user's file")?;
        fs::write(&password, engine.password()).context("cannot write the password's file")?;
        let settings = folder.join("collector.yaml");
        let text = json!({
            "admin": {"address": admin},
            "receivers": {"otlp": {"grpc": {"address": grpc}, "http": {"address": http}}},
            "exporters": {"clickhouse": {
                "endpoints": [engine.url()],
                "database": DATABASE,
                "attributes": "Map",
                "credentials": {"usernameFile": user, "passwordFile": password},
                "batch": {"maxAgeMillis": 200},
            }},
        });
        // JSON is YAML.
        fs::write(&settings, format!("{text:#}\n")).context("cannot write the settings")?;
        let mut command = Command::new(binaries.join("millrace-collector"));
        command.arg("run").arg("--config").arg(&settings);
        let log = folder.join("collector.log");
        let mut service = Service::spawn("the collector", command, log, None, STOP_GRACE)?;
        service.wait_ready(READY_LIMIT, || {
            let answer = http::ask(admin, "GET", "/readyz", &[], b"", REQUEST_TIMEOUT)?;
            match answer.status {
                200 => Ok(()),
                _ => Err(std::io::Error::other(answer.text())),
            }
        })?;
        Ok(Self { service, grpc, http, admin, password })
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const fn address(port: u16) -> SocketAddr {
    SocketAddr::new(LOOPBACK, port)
}

/// The usual port if nobody has it, else a free one.
fn listener(usual: u16) -> Result<SocketAddr> {
    match TcpListener::bind(address(usual)) {
        Ok(_) => Ok(address(usual)),
        Err(_) => Ok(address(free_port(LOOPBACK)?)),
    }
}

/// The shipped load generator sends, and compares each row with what its seed says.
fn load(binaries: &Path, engine: &Engine, collector: &Collector) -> Result<()> {
    let endpoint = format!("http://{}", collector.grpc);
    let mut command = Command::new(binaries.join("millrace-loadgen"));
    command
        .args(["run", "--endpoint", &endpoint, "--count", &SPANS.to_string()])
        .args(["--compression", "gzip", "--clickhouse", &engine.url()])
        .args(["--user", engine.user(), "--password-file"])
        .arg(&collector.password);
    shell::run_command(&mut command).context("not every span was stored as it was sent")
}

/// A record as a person would send it: JSON over HTTP. Gives its row.
fn one_log(engine: &Engine, collector: &Collector) -> Result<String> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos().to_string();
    let text = |text: &str| json!({"stringValue": text});
    let record = json!({
        "timeUnixNano": nanos, "severityText": "INFO", "body": text("hello from make try"),
    });
    let service = json!({"key": "service.name", "value": text("my-service")});
    let request = json!({"resourceLogs": [{
        "resource": {"attributes": [service]},
        "scopeLogs": [{"logRecords": [record]}],
    }]});
    let body = request.to_string();
    let headers = [("content-type", "application/json")];
    let path = "/v1/logs";
    let answer =
        http::ask(collector.http, "POST", path, &headers, body.as_bytes(), REQUEST_TIMEOUT)
            .with_context(|| format!("no answer from http://{}{path}", collector.http))?;
    if answer.status != 200 {
        bail!("the log record was refused with status {}: {}", answer.status, answer.text());
    }
    // The answer came after ClickHouse had the row.
    let sql = format!(
        "select Timestamp, ServiceName, SeverityText, Body from {DATABASE}.otel_logs \
         where Body = 'hello from make try'"
    );
    let rows = engine.query(&sql).context("ClickHouse can't be asked for the log record")?;
    match rows.lines().collect::<Vec<_>>()[..] {
        [row] => Ok(row.replace('\t', "  ")),
        ref rows => bail!("{} rows for one log record", rows.len()),
    }
}

/// The collector's page shows what was sent.
fn page(collector: &Collector) -> Result<()> {
    let answer = http::ask(collector.admin, "GET", "/", &[], b"", REQUEST_TIMEOUT)
        .context("no answer from the collector's page")?;
    let (page, thousands) = (answer.text(), SPANS / 1_000);
    // Its thousands have commas.
    if answer.status != 200 || !page.contains(&format!(">{thousands},000<")) {
        bail!("the collector's page does not show {SPANS} spans ({}): {page}", answer.status);
    }
    Ok(())
}

/// What to do with it.
fn guide(engine: &Engine, collector: &Collector) {
    let Collector { grpc, http, admin, .. } = collector;
    let url = engine.url();
    let login = format!("{}:{}", engine.user(), engine.password());
    let lines = [
        String::new(),
        "It runs until Ctrl-C; then nothing is left. Send your own telemetry:".to_owned(),
        format!("  OTLP/gRPC                 {grpc}"),
        format!("  OTLP/HTTP                 http://{http}    (protobuf and JSON)"),
        format!("  an SDK:                   export OTEL_EXPORTER_OTLP_ENDPOINT=http://{grpc}"),
        "Look at it:".to_owned(),
        format!("  in a browser              http://{admin}/    (rates, refusals, what is held)"),
        format!("  metrics of the collector  curl -s http://{admin}/metrics"),
        format!("  rows by service           curl -s -u '{login}' '{url}/' --data-binary \\"),
        format!("      'select ServiceName, count() from {DATABASE}.otel_traces group by 1'"),
        format!("  the tables                curl -s -u '{login}' '{url}/' --data-binary \\"),
        format!("      'show tables from {DATABASE}'"),
        "Next: `make demo`, the same on Kubernetes with Kafka, by the operator.".to_owned(),
    ];
    lines.iter().for_each(|line| say::line(line));
}
