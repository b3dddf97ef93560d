//! Millrace's own programs, started by their paths: `clickhouse-ddl` makes the tables, one collector
//! scrapes the samples and takes results as log records, and writes both into ClickHouse without
//! Kafka. Nothing of Millrace is linked.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use millrace_stack::http;
use millrace_stack::service::{Service, ServiceError, free_port};
use serde_json::{Value, json};

use super::database::Database;

/// `ServiceName` of all rows.
const SERVICE: &str = "keeper-bench";
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// On a busy machine; it is ready within a second elsewhere.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The collector drains for 20 s at most; then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(25);
/// The collector answers once the row is in its table, within its own 60 s for an insert.
const RECORD_TIMEOUT: Duration = Duration::from_secs(70);
/// Rows are in their table so long after a scrape, and an insert's time.
const BATCH_MILLIS: u32 = 200;

/// The collector, running. It is stopped, and its log-in removed, when this is dropped.
#[derive(Debug)]
pub(crate) struct Pipeline {
    _collector: Service,
    otlp: SocketAddr,
    secrets: Vec<PathBuf>,
}

/// The programs don't do what they are for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PipelineError {
    #[error(
        "{} is not there: build it (`cargo build --release -p millrace-collector -p millrace-ddl`), \
         or give --programs",
        .0.display()
    )]
    NoProgram(PathBuf),
    #[error("cannot make the tables: {0}")]
    Tables(String),
    #[error("cannot write {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("the collector did not take a result, which is on record; run the same again: {0}")]
    Record(String),
}

impl Pipeline {
    /// Makes the tables and starts the collector; its settings and its log are in `dir`.
    pub(crate) fn start(
        programs: &Path,
        dir: &Path,
        database: &Database,
        target: SocketAddr,
    ) -> Result<Self, PipelineError> {
        let program = |name: &str| {
            let path = programs.join(name);
            if path.is_file() { Ok(path) } else { Err(PipelineError::NoProgram(path)) }
        };
        let (ddl, collector) = (program("clickhouse-ddl")?, program("millrace-collector")?);
        tables(&ddl, database)?;
        let mut secrets = Vec::new();
        if let Some(login) = database.login() {
            secrets.push(file(dir, "user", &login.user)?);
            secrets.push(file(dir, "password", &login.password)?);
        }
        let address = || free_port(LOOPBACK).map(|port| SocketAddr::new(LOOPBACK, port));
        let (admin, grpc, otlp) = (address()?, address()?, address()?);
        let mut exporter = json!({
            "endpoints": [database.url()],
            "database": database.name(),
            "attributes": "Map",
            "batch": {"maxAgeMillis": BATCH_MILLIS},
        });
        if let [user, password] = &secrets[..] {
            exporter["credentials"] = json!({"usernameFile": user, "passwordFile": password});
        }
        let job = json!({
            "name": SERVICE,
            "targets": [target],
            "intervalSeconds": 1,
            "timeoutSeconds": 1,
        });
        let settings = json!({
            "admin": {"address": admin},
            "receivers": {
                "otlp": {"grpc": {"address": grpc}, "http": {"address": otlp}},
                "prometheus": {"allowLocalAddresses": true, "jobs": [job]},
            },
            "exporters": {"clickhouse": exporter},
        });
        // JSON is YAML.
        let settings = file(dir, "collector.yaml", &format!("{settings:#}\n"))?;
        let mut command = Command::new(collector);
        command.arg("run").arg("--config").arg(settings);
        let log = dir.join("collector.log");
        let mut service = Service::spawn("the collector", command, log, None, STOP_GRACE)?;
        service.wait_ready(READY_PATIENCE, || {
            let answer = http::ask(admin, "GET", "/readyz", &[], b"", READY_PATIENCE)?;
            match answer.status {
                200 => Ok(()),
                _ => Err(io::Error::other(answer.text())),
            }
        })?;
        Ok(Self { _collector: service, otlp, secrets })
    }

    /// Sends a log record; it is in its table when this returns.
    pub(crate) fn record(
        &self,
        attributes: &[(&str, String)],
        time_ms: u64,
        body: &str,
    ) -> Result<(), PipelineError> {
        let text = |text: &str| json!({"stringValue": text});
        let pair = |name: &str, value: &str| json!({"key": name, "value": text(value)});
        let attributes: Vec<Value> =
            attributes.iter().map(|(name, value)| pair(name, value)).collect();
        let record = json!({
            "timeUnixNano": (u128::from(time_ms) * 1_000_000).to_string(),
            "severityText": "INFO",
            "body": text(body),
            "attributes": attributes,
        });
        let request = json!({"resourceLogs": [{
            "resource": {"attributes": [pair("service.name", SERVICE)]},
            "scopeLogs": [{"logRecords": [record]}],
        }]});
        let headers = [("content-type", "application/json")];
        let bytes = request.to_string();
        let answer =
            http::ask(self.otlp, "POST", "/v1/logs", &headers, bytes.as_bytes(), RECORD_TIMEOUT)
                .map_err(|cause| PipelineError::Record(cause.to_string()))?;
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            200 if said["partialSuccess"]["rejectedLogRecords"].is_null() => Ok(()),
            status => Err(PipelineError::Record(format!("{status}: {}", answer.text()))),
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        for path in &self.secrets {
            // One that can't be removed is readable for its owner alone.
            let _ = fs::remove_file(path);
        }
    }
}

/// The table of gauges and that of log records, with those of other points; they are kept if they
/// are there.
fn tables(ddl: &Path, database: &Database) -> Result<(), PipelineError> {
    let mut command = Command::new(ddl);
    command.args(["create", "--endpoint", database.url(), "--database", database.name()]).args([
        "--logs",
        "--metrics",
        "--engine",
        "MergeTree",
    ]);
    if let Some(login) = database.login() {
        command.args(["--user", &login.user]).env("CLICKHOUSE_PASSWORD", &login.password);
    }
    let output = command.output().map_err(|cause| PipelineError::Tables(cause.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(PipelineError::Tables(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Writes a file that only its owner may read: it may hold a password.
fn file(dir: &Path, name: &str, text: &str) -> Result<PathBuf, PipelineError> {
    let path = dir.join(name);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    match options.open(&path).and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(path),
        Err(cause) => Err(PipelineError::Write { path, cause }),
    }
}
