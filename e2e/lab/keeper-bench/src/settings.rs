//! The command line. Passwords come from files, never from arguments, which everybody on a machine
//! can read.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::source::replay::Log;
use crate::wire::{Access, Auth, Tls, TlsError, TlsFiles};
use crate::workload::{self, Bounds, Overrides, Terms, Workload};

/// The port of ZooKeeper; ClickHouse Keeper's is 9181.
const PORT: &str = "2181";

/// Settings that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("there is no workload {0}; `keeper-bench workloads` lists them")]
    NoWorkload(String),
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{}: {cause}", path.display())]
    Yaml { path: PathBuf, cause: serde_norway::Error },
    #[error("{} has to hold USER:PASSWORD", .0.display())]
    Credentials(PathBuf),
    #[error("give --servers HOST:PORT")]
    NoServers,
    #[error("--tls-certificate, --tls-key and --tls-server-name need --tls-authorities")]
    TlsWithoutAuthorities,
    #[error("--tls-certificate and --tls-key go together")]
    HalfCertificate,
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Load for ZooKeeper and ClickHouse Keeper. JSON lines on standard output, progress on standard
/// error.
#[derive(Debug, Parser)]
#[command(name = "keeper-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a workload's load. Exits with 2 if operations failed that it doesn't ignore.
    Run(Run),
    /// Send a recorded log again.
    Replay(Replay),
    /// Real INSERTs into replicated tables of ClickHouse engines, which are started for it. Exits
    /// with 2 if some failed.
    Inserts(crate::inserts::Inserts),
    /// Serve empty answers, to measure this program itself. Prints its address first.
    NullServer(NullServer),
    /// Measure a matrix of real ZooKeepers and loads, each several times; goes on where it was
    /// stopped.
    Suite(crate::suite::Suite),
    /// The workloads that come with it; with a name, its text.
    Workloads { name: Option<String> },
}

/// `run`
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) workload: Which,
    #[command(flatten)]
    pub(crate) connect: Connect,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    /// Leave the tree at the end.
    #[arg(long)]
    pub(crate) keep: bool,
    /// The id of the process that started this one, and whose end ends it.
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// Which workload.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Which {
    /// One that comes with it, by name.
    #[arg(long)]
    workload: Option<String>,
    /// One in a file, as YAML.
    #[arg(long)]
    file: Option<PathBuf>,
}

impl Which {
    pub(crate) fn ready(name: &str) -> Result<&'static str, SettingsError> {
        workload::text(name).ok_or_else(|| SettingsError::NoWorkload(name.to_owned()))
    }

    pub(crate) fn read(&self) -> Result<Workload, SettingsError> {
        let (path, text) = match (&self.workload, &self.file) {
            (Some(name), _) => (PathBuf::from(name), Self::ready(name)?.to_owned()),
            (None, path) => {
                let path = path.clone().unwrap_or_default();
                let text = fs::read_to_string(&path)
                    .map_err(|cause| SettingsError::Read { path: path.clone(), cause })?;
                (path, text)
            }
        };
        serde_norway::from_str(&text).map_err(|cause| SettingsError::Yaml { path, cause })
    }
}

/// How servers are reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Connect {
    /// Servers, parted by commas; sessions are spread over them.
    #[arg(long, value_delimiter = ',', required = true)]
    servers: Vec<String>,
    /// TLS, with servers' certificates signed by one of these (PEM).
    #[arg(long)]
    tls_authorities: Option<PathBuf>,
    /// Our own certificate (PEM).
    #[arg(long)]
    tls_certificate: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long)]
    tls_key: Option<PathBuf>,
    /// The name in servers' certificates, if it isn't the one that they are called by.
    #[arg(long)]
    tls_server_name: Option<String>,
    /// How we say who we are.
    #[arg(long, requires = "credentials")]
    auth: Option<Scheme>,
    /// A file with USER:PASSWORD.
    #[arg(long, requires = "auth")]
    credentials: Option<PathBuf>,
}

/// How we say who we are.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Scheme {
    /// ZooKeeper's own `addauth digest`.
    Digest,
    /// SASL DIGEST-MD5.
    Sasl,
}

impl Connect {
    pub(crate) fn access(&self, terms: &Terms) -> Result<Access, SettingsError> {
        let has_port = |server: &str| {
            server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        let named = |server: &String| match has_port(server) {
            true => server.clone(),
            false => format!("{server}:{PORT}"),
        };
        let servers: Arc<[String]> =
            self.servers.iter().filter(|server| !server.is_empty()).map(named).collect();
        if servers.is_empty() {
            return Err(SettingsError::NoServers);
        }
        Ok(Access {
            servers,
            tls: self.tls()?,
            auth: self.auth()?,
            session_timeout: terms.session_timeout,
            operation_timeout: terms.operation_timeout,
        })
    }

    fn tls(&self) -> Result<Option<Tls>, SettingsError> {
        let own = match (&self.tls_certificate, &self.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            _ => return Err(SettingsError::HalfCertificate),
        };
        let server_name = self.tls_server_name.clone();
        match &self.tls_authorities {
            None if own.is_some() || server_name.is_some() => {
                Err(SettingsError::TlsWithoutAuthorities)
            }
            None => Ok(None),
            Some(authorities) => {
                let authorities = authorities.clone();
                Ok(Some(Tls::new(&TlsFiles { authorities, own, server_name })?))
            }
        }
    }

    fn auth(&self) -> Result<Option<Auth>, SettingsError> {
        let (Some(scheme), Some(path)) = (self.auth, &self.credentials) else { return Ok(None) };
        let text = fs::read_to_string(path)
            .map_err(|cause| SettingsError::Read { path: path.clone(), cause })?;
        let (user, password) = text
            .trim_end_matches(['\r', '\n'])
            .split_once(':')
            .ok_or_else(|| SettingsError::Credentials(path.clone()))?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Some(match scheme {
            Scheme::Digest => Auth::Digest { user, password },
            Scheme::Sasl => Auth::Sasl { user, password },
        }))
    }
}

/// `replay`
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The log: JSON lines.
    #[arg(long)]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) connect: Connect,
    /// The node that goes before every path. It is made at the start and removed at the end.
    #[arg(long, default_value = "/keeper-bench", value_parser = root)]
    pub(crate) root: String,
    /// So many times as fast as it was recorded.
    #[arg(long, default_value_t = 1.0, value_parser = speed, conflicts_with = "at_once")]
    pub(crate) speed: f64,
    /// Each request as soon as replies allow.
    #[arg(long)]
    pub(crate) at_once: bool,
    /// Requests under way at once in a session.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pipeline: u16,
    /// Threads that the sessions are spread over.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Errors that belong to the log, by name, parted by commas.
    #[arg(long, value_delimiter = ',', value_parser = error, default_values_t = ["no-node".to_owned(), "node-exists".to_owned()])]
    ignore: Vec<String>,
    /// Leave the tree at the end.
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Replay {
    pub(crate) fn terms(&self, log: &Log) -> Terms {
        // A log in memory has far fewer.
        let sessions = u32::try_from(log.sessions.len()).unwrap_or(u32::MAX);
        Terms {
            name: self.log.display().to_string(),
            root: self.root.clone(),
            seed: 0,
            sessions,
            threads: u32::from(self.threads).min(sessions),
            pipeline: self.pipeline.into(),
            bounds: Bounds { time: None, operations: Some(log.requests()) },
            warmup: Duration::ZERO,
            session_operations: None,
            session_timeout: Duration::from_secs(30),
            operation_timeout: Duration::from_secs(10),
            ignore: self.ignore.iter().filter_map(|name| crate::wire::code(name)).collect(),
            watching: log.watching,
        }
    }
}

/// `null-server`
#[derive(Debug, clap::Args)]
pub(crate) struct NullServer {
    /// Where it listens; port 0 is any free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// Threads that serve.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
}

fn root(text: &str) -> Result<String, &'static str> {
    let names = text.strip_prefix('/').unwrap_or_default();
    match names.split('/').any(|name| name.is_empty() || name == "." || name == "..") {
        true => Err("write an absolute path of one or more names, without / at its end"),
        false => Ok(text.to_owned()),
    }
}

fn speed(text: &str) -> Result<f64, &'static str> {
    let speed = text.parse().map_err(|_| "write a number")?;
    match (0.001..=1e6).contains(&speed) {
        true => Ok(speed),
        false => Err("write a number from 0.001 to 1000000"),
    }
}

fn error(text: &str) -> Result<String, String> {
    match crate::wire::code(text) {
        _ if text.is_empty() => Ok(String::new()), // ignores none
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("no error is called {text}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::{Args, Workload};
    use crate::workload::Plan;

    const PAGE: &str = include_str!("../../../../docs/internals/keeper-bench.md");

    /// Scenario: the workload that the page explains. Guarantee: it can be read and planned; with a
    /// field that there isn't, it can't.
    #[test]
    fn the_workload_of_the_page_can_be_planned() {
        let (_, workload) = PAGE.split_once("```yaml\n").unwrap();
        let (workload, _) = workload.split_once("```").unwrap();
        let read: Workload = serde_norway::from_str(workload).unwrap();
        Plan::new(read).unwrap();
        let wrong = workload.replace("sessions:", "sparkles:");
        assert!(serde_norway::from_str::<Workload>(&wrong).is_err());
    }

    /// Scenario: the page's commands, in blocks and between backticks; there they may be cut short.
    /// Guarantee: each is understood; one with an option that there isn't, is not.
    #[test]
    fn the_commands_of_the_page_are_understood() {
        let blocks = PAGE.lines().filter_map(|line| line.strip_prefix("target/release/"));
        let spans = PAGE.split('`').skip(1).step_by(2);
        let all = blocks.map(|it| (it, true)).chain(spans.map(|it| (it, false)));
        let all: Vec<_> = all.filter(|(line, _)| line.starts_with("keeper-bench ")).collect();
        assert!(all.len() >= 5, "{all:?}");
        for (line, whole) in all {
            let words = line.split_whitespace().filter(|word| *word != "...");
            let wrong = Args::try_parse_from(words.clone().chain(["--sparkle"]));
            assert!(wrong.is_err(), "{line} --sparkle");
            let Err(error) = Args::try_parse_from(words) else { continue };
            let is_short = match error.kind() {
                ErrorKind::MissingRequiredArgument => !whole,
                ErrorKind::InvalidValue => line.ends_with("..."),
                _ => false,
            };
            assert!(is_short, "{line}: {error}");
        }
    }
}
