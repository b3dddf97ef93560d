//! Collectors under test: the shipped binary with a configuration file as a user would write it,
//! on free loopback ports.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_stack::service;

use crate::programs::binaries;
use crate::programs::process::Process;
use crate::{http, wait};

/// From start to ready, with the broker and the engine up: seconds; more is a fault.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The ports of one collector.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// Probes and metrics.
    pub admin: SocketAddr,
    /// OTLP over gRPC.
    pub grpc: SocketAddr,
    /// OTLP over HTTP.
    pub http: SocketAddr,
}

impl Ports {
    /// Three free ports on loopback.
    ///
    /// # Errors
    /// When there is none.
    pub fn free() -> Result<Self> {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = || service::free_port(host).map(|port| SocketAddr::new(host, port));
        Ok(Self { admin: port()?, grpc: port()?, http: port()? })
    }
}

/// How the program is started, where it isn't as users do.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
}

/// A running collector.
#[derive(Debug)]
pub struct Collector {
    /// Where it answers.
    pub ports: Ports,
    name: String,
    config: PathBuf,
    folder: PathBuf,
    launch: Launch,
    process: Process,
}

impl Collector {
    /// Write `settings` (YAML without the admin section) into `folder` and start a collector with
    /// it. Returns at once; see [`Collector::ready`].
    ///
    /// # Errors
    /// When the binary is not built or can't be started.
    pub fn start(folder: &Path, name: &str, ports: Ports, settings: &str) -> Result<Self> {
        Self::launch(folder, name, ports, settings, Launch::default())
    }

    /// The same, started in another way.
    ///
    /// # Errors
    /// When the binary is not built or can't be started.
    pub fn launch(
        folder: &Path,
        name: &str,
        ports: Ports,
        settings: &str,
        launch: Launch,
    ) -> Result<Self> {
        let config = folder.join(format!("{name}.yaml"));
        fs::write(&config, format!("admin: {{address: \"{}\"}}\n{settings}", ports.admin))?;
        let process = spawn(folder, name, &config, &launch)?;
        let (name, folder) = (name.to_owned(), folder.to_path_buf());
        Ok(Self { ports, name, config, folder, launch, process })
    }

    /// Wait until it says it is ready.
    ///
    /// # Errors
    /// When it ends, or isn't ready in time: the message carries its own reason.
    pub fn ready(&mut self) -> Result<()> {
        let address = self.ports.admin;
        let what = format!("{} to be ready", self.name);
        let process = &mut self.process;
        let mut ended = None;
        wait::until(&what, READY_LIMIT, || {
            if let Err(error) = process.still_runs() {
                ended = Some(error);
                return Ok(());
            }
            let answer = http::get(address, "/readyz")?;
            if answer.status != 200 {
                bail!("{} {}", answer.status, answer.text());
            }
            Ok(())
        })?;
        ended.map_or(Ok(()), Err)
    }

    /// One line of its metrics, summed over labels that contain `label`.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub fn metric(&self, name: &str, label: &str) -> Result<f64> {
        let text = http::get(self.ports.admin, "/metrics")?.text();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
        });
        lines.map(|line| value(line).with_context(|| format!("not a sample: {line}"))).sum()
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// SIGKILL, then start again with the same settings and ports.
    ///
    /// # Errors
    /// When it can't be killed or started.
    pub fn crash_and_restart(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.relaunch(self.launch.clone())
    }

    /// SIGTERM, then start again with the same settings and ports.
    ///
    /// # Errors
    /// When it doesn't end within `limit` or fails on its way out.
    pub fn drain_and_restart(&mut self, limit: Duration) -> Result<()> {
        let status = self.process.terminate(limit)?;
        if !status.success() {
            bail!("{} drained with {status}", self.name);
        }
        self.relaunch(self.launch.clone())
    }

    /// Start it again, perhaps in another way, with the same settings and ports. One that still
    /// runs is killed.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn relaunch(&mut self, launch: Launch) -> Result<()> {
        self.process = spawn(&self.folder, &self.name, &self.config, &launch)?;
        self.launch = launch;
        Ok(())
    }

    /// The name it was started under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it was started.
    pub fn launched(&self) -> &Launch {
        &self.launch
    }
}

fn spawn(folder: &Path, name: &str, config: &Path, launch: &Launch) -> Result<Process> {
    let mut command = Command::new(binaries::path("millrace-collector")?);
    let variables = launch.variables.iter().map(|(name, value)| (name, value));
    command.arg("run").arg("--config").arg(config).envs(variables);
    Process::start(name, &mut command, &folder.join(format!("{name}.log")))
}

fn value(line: &str) -> Option<f64> {
    line.rsplit(' ').next()?.parse().ok()
}
