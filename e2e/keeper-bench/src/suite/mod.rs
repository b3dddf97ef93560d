//! `keeper-bench suite`: a matrix of servers and loads, each cell several times. Servers are real
//! ZooKeepers in control groups with limits; each load is this program again, as a process of its
//! own. Every round is on record once it is over, and a suite that was stopped goes on behind it.
//!
//! It needs root for the limits, and Linux. It knows no ClickHouse Keeper: no package has its
//! server, so it is measured by `keeper-bench run` at its address.

mod cgroup;
mod matrix;
mod record;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use millrace_stack::service::ServiceError;
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, Server, mntr};
use serde_json::{Value, json};

use self::cgroup::Group;
use self::matrix::{Cell, Matrix};
use self::record::Records;
use crate::say;

/// As the published suite samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Three JVMs with one core between them take long to find a leader.
const SERVE_PATIENCE: Duration = Duration::from_secs(180);
/// The matrix that a few minutes suffice for.
const QUICK: &str = include_str!("quick.yaml");

/// A suite ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuiteError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("the matrix: {0}")]
    Matrix(#[from] matrix::MatrixError),
    #[error("cannot limit servers by control groups: {0}; run it as root, or give no limits")]
    Group(#[from] cgroup::GroupError),
    #[error(transparent)]
    Server(#[from] ServiceError),
    #[error("cannot keep results in {}: {cause}", path.display())]
    Record { path: PathBuf, cause: io::Error },
    #[error("the load of {cell} failed: {said}")]
    Load { cell: String, said: String },
}

/// `suite`
#[derive(Debug, clap::Args)]
pub(crate) struct Suite {
    /// Where results, samples, report and plots go; what is there already isn't measured again.
    #[arg(long)]
    out: PathBuf,
    /// The matrix, as YAML; without it one that takes less than ten minutes.
    #[arg(long)]
    matrix: Option<PathBuf>,
    /// Only write report and plots anew.
    #[arg(long)]
    report: bool,
}

pub(crate) fn run(suite: &Suite) -> Result<(), SuiteError> {
    let text = match &suite.matrix {
        None => QUICK.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|cause| SuiteError::Read { path: path.clone(), cause })?,
    };
    let matrix = Matrix::read(&text)?;
    let record = |cause| SuiteError::Record { path: suite.out.clone(), cause };
    let mut records = Records::open(&suite.out).map_err(record)?;
    if !suite.report {
        let mut left: Vec<(Cell, u32)> = matrix.rounds();
        let all = left.len();
        left.retain(|(cell, repeat)| !records.has(&cell.name(), *repeat));
        say::progress(&format!("{all} rounds, {} of them on record", all - left.len()));
        for (nth, (cell, repeat)) in left.iter().enumerate() {
            let name = cell.name();
            say::progress(&format!("round {} of {}: {name}, repeat {repeat}", nth + 1, left.len()));
            let (result, samples) = round(cell, *repeat)?;
            records.add(&result, &samples).map_err(record)?;
            report::write(&suite.out, &matrix, &records).map_err(record)?;
        }
    }
    report::write(&suite.out, &matrix, &records).map_err(record)
}

/// One load on servers of its own: its result, and what was sampled each second.
fn round(cell: &Cell, repeat: u32) -> Result<(Value, Vec<Value>), SuiteError> {
    let options = EnsembleOptions {
        size: cell.server.size(),
        version: cell.server.version(),
        heap_mib: cell.server.heap_mib,
        ..EnsembleOptions::default()
    };
    let mut stage = Stage { ensemble: Ensemble::start(&options)?, groups: Vec::new() };
    stage.limit(cell)?;
    let begun = Instant::now();
    let (send, ended) = sync_channel(1);
    let mut command = load(cell, repeat, &stage.ensemble.connect_string())
        .map_err(|cause| SuiteError::Load { cell: cell.name(), said: cause.to_string() })?;
    // The receiver waits for it until it has come.
    let load = thread::spawn(move || drop(send.send(command.output())));
    let mut samples = Vec::new();
    let output = loop {
        samples.extend(stage.sample(begun, cell, repeat));
        match ended.recv_timeout(SAMPLE_EVERY) {
            Ok(output) => break output,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    samples.extend(stage.sample(begun, cell, repeat));
    drop(load.join());
    let kinds = results(output).map_err(|said| SuiteError::Load { cell: cell.name(), said })?;
    let of = |name: &str, sum: fn(f64, f64) -> f64| {
        let values = samples.iter().filter_map(|sample| sample[name].as_f64());
        values.fold(0.0, sum)
    };
    let result = json!({
        "cell": cell.name(),
        "repeat": repeat,
        "server_memory_bytes_max": of("memory_bytes", f64::max),
        "server_cpu_seconds": cpu_seconds(&samples, stage.groups.len()),
        "kinds": kinds,
    });
    Ok((result, samples))
}

/// What all servers used between the first sample and the last.
fn cpu_seconds(samples: &[Value], servers: usize) -> f64 {
    let of = |server: usize| {
        let mut mine = samples.iter().filter(|sample| sample["server"] == server);
        let first = mine.next()?["cpu_seconds"].as_f64()?;
        Some(mine.next_back()?["cpu_seconds"].as_f64()? - first)
    };
    (0..servers).filter_map(of).sum()
}

/// Servers and their limits.
#[derive(Debug)]
struct Stage {
    // Dropped first: a group can be removed once its processes have ended.
    ensemble: Ensemble,
    groups: Vec<Group>,
}

impl Stage {
    /// Starts each server again within limits of its own: memory is charged where a process
    /// begins.
    fn limit(&mut self, cell: &Cell) -> Result<(), SuiteError> {
        let Self { ensemble, groups } = self;
        for server in ensemble.servers_mut() {
            server.stop();
        }
        for (nth, server) in ensemble.servers_mut().iter_mut().enumerate() {
            let name = format!("keeper-bench-{}-{nth}", std::process::id());
            let group = Group::new(&name, &cell.server)?;
            let started = group.enter_while(|| server.start());
            groups.push(group);
            started??;
        }
        Ok(ensemble.wait_serving(SERVE_PATIENCE)?)
    }

    /// One line for each server.
    fn sample(&self, begun: Instant, cell: &Cell, repeat: u32) -> Vec<Value> {
        let Self { ensemble, groups } = self;
        let one = |(nth, (server, group)): (usize, (&Server, &Group))| {
            json!({
                "cell": cell.name(),
                "repeat": repeat,
                "server": nth,
                "second": begun.elapsed().as_secs_f64(),
                "cpu_seconds": group.cpu_seconds(),
                "memory_bytes": group.memory_bytes(),
                // A server that is too busy to say has said nothing.
                "mntr": mntr(server.client_address()).unwrap_or_default(),
            })
        };
        ensemble.servers().iter().zip(groups).enumerate().map(one).collect()
    }
}

/// This program again, with the cell's load.
fn load(cell: &Cell, repeat: u32, servers: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["run", "--workload", &cell.workload, "--servers", servers])
        .args(["--sessions", &cell.sessions.to_string()])
        .args(["--operations", &cell.operations.to_string()])
        .args(["--pipeline", &cell.pipeline.to_string()])
        .args(["--seed", &repeat.to_string(), "--warmup-seconds", "0"]);
    Ok(command)
}

fn results(output: io::Result<Output>) -> Result<Vec<Value>, String> {
    let output = output.map_err(|cause| cause.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    match lines.is_empty() {
        true => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        false => Ok(lines),
    }
}
