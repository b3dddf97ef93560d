//! One round: one load on servers of its own, each in a control group with its limits, and what is
//! sampled of them each second. The load is this program again, as a process of its own.

use std::io;
use std::process::{Command, Output};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, Server, mntr};
use serde_json::{Value, json};

use super::SuiteError;
use super::cgroup::{self, Group};
use super::matrix::Cell;
use crate::inserts;

/// As the published suite samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Three JVMs with one core between them take long to find a leader.
const SERVE_PATIENCE: Duration = Duration::from_secs(180);

/// Measures one. Gives its result, and what was sampled; `taken` gets samples as they are taken.
pub(crate) fn run(
    cell: &Cell,
    repeat: u32,
    taken: impl Fn(&[Value]),
) -> Result<(Value, Vec<Value>), SuiteError> {
    let options = EnsembleOptions {
        size: cell.server.size(),
        version: cell.server.version(),
        heap_mib: cell.server.heap_mib,
        ..EnsembleOptions::default()
    };
    let mut stage = Stage { ensemble: Ensemble::start(&options)?, groups: Vec::new() };
    stage.limit(cell)?;
    let (begun, begun_ms) = (Instant::now(), now_ms());
    let (send, ended) = sync_channel(1);
    let mut command = load(cell, repeat, &stage.ensemble.connect_string())
        .map_err(|cause| SuiteError::Load { cell: cell.name(), said: cause.to_string() })?;
    // The receiver waits for it until it has come.
    let load = thread::spawn(move || drop(send.send(command.output())));
    let mut samples = Vec::new();
    let sample = |samples: &mut Vec<Value>| {
        let now = stage.sample(begun, cell, repeat);
        taken(&now);
        samples.extend(now);
    };
    let output = loop {
        sample(&mut samples);
        match ended.recv_timeout(SAMPLE_EVERY) {
            Ok(output) => break output,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    sample(&mut samples);
    drop(load.join());
    let kinds = results(output).map_err(|said| SuiteError::Load { cell: cell.name(), said })?;
    let of = |name: &str, sum: fn(f64, f64) -> f64| {
        let values = samples.iter().filter_map(|sample| sample[name].as_f64());
        values.fold(0.0, sum)
    };
    let result = json!({
        "cell": cell.name(),
        "repeat": repeat,
        "begun_ms": begun_ms,
        "ended_ms": now_ms(),
        "server_memory_bytes_max": of("memory_bytes", f64::max),
        "server_cpu_seconds": cpu_seconds(&samples, stage.groups.len()),
        "kinds": kinds,
    });
    Ok((result, samples))
}

/// The time as people and tables have it: milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
            let name = cgroup::name(nth);
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
                "time_ms": now_ms(),
                "second": begun.elapsed().as_millis() as f64 / 1e3,
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
    match cell.workload == inserts::NAME {
        true => command.arg("inserts"),
        false => command.args(["run", "--workload", &cell.workload]).args([
            "--seed",
            &repeat.to_string(),
            "--warmup-seconds",
            "0",
        ]),
    };
    command
        .args(["--servers", servers])
        .args(["--sessions", &cell.sessions.to_string()])
        .args(["--operations", &cell.operations.to_string()])
        .args(["--pipeline", &cell.pipeline.to_string()])
        .args(["--parent", &std::process::id().to_string()]);
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
