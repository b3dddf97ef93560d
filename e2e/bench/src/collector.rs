//! Who is measured: our collector, built with one allocator or another, or a peer.

pub(crate) mod peer;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_e2e::binaries;

use crate::collector::peer::{Peer, Place};
use crate::rules::RulesCase;

/// The memory limit given to our collector, as to a small pod.
const MEMORY_LIMIT: &str = "256Mi";

/// Records of any time: those of the data sets are fixed.
const ANY_TIMES: &str = "recordTimes: {pastDays: 36500, futureHours: 876000}";

/// A collector that can be started.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    /// Its name in results.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The allocator compiled in, if it says one.
    pub(crate) allocator: Option<String>,
    program: Program,
}

#[derive(Debug, Clone)]
enum Program {
    Ours(PathBuf),
    Peer(Peer),
}

/// Where a gateway reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct GatewayPlace<'a> {
    pub(crate) broker: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) group: &'a str,
    pub(crate) endpoint: &'a str,
    /// `traces`, `logs` or `metrics`.
    pub(crate) signal: &'a str,
    pub(crate) attributes: &'a str,
    pub(crate) delivery: &'a str,
    /// Files with the user's name and password.
    pub(crate) login: Option<(PathBuf, PathBuf)>,
}

/// Where an edge listens and writes.
#[derive(Debug, Clone)]
pub(crate) struct EdgePlace<'a> {
    pub(crate) broker: &'a str,
    /// `traces`, `logs` or `metrics`.
    pub(crate) signal: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) grpc: String,
    pub(crate) http: String,
    /// Where probes and metrics are.
    pub(crate) admin: String,
    /// What it does with records, if the case is of rules.
    pub(crate) rules: Option<RulesCase>,
}

impl Collector {
    /// Ours, built with `allocator`, or the default build.
    pub(crate) fn ours(allocator: Option<&str>) -> Result<Self> {
        let name = "millrace-collector";
        let binary = match allocator {
            None => binaries::path(name)?,
            Some(allocator) => {
                let target = binaries::folder().parent().map(Path::to_owned).unwrap_or_default();
                target.join("dist").join(allocator).join(name)
            }
        };
        let said = Command::new(&binary).arg("version").output();
        let said = said.with_context(|| {
            format!("{} is not there: build it with `cargo xtask build`", binary.display())
        })?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let words: Vec<&str> = said.split_whitespace().collect();
        let [_, version, inside] = words.as_slice() else {
            bail!("{} says no version: {said}", binary.display());
        };
        let inside = inside.trim_matches(|c| matches!(c, '(' | ')'));
        if allocator.is_some_and(|allocator| allocator != inside) {
            bail!("{} was built with {inside}", binary.display());
        }
        Ok(Self {
            name: "millrace".to_owned(),
            version: (*version).to_owned(),
            allocator: Some(inside.to_owned()),
            program: Program::Ours(binary),
        })
    }

    /// Another one.
    pub(crate) fn peer(peer: Peer) -> Self {
        let (name, version) = (peer.name.clone(), peer.version());
        Self { name, version, allocator: None, program: Program::Peer(peer) }
    }

    /// Whether it is ours.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.program, Program::Ours(_))
    }

    /// The program and its arguments for a settings file.
    pub(crate) fn command(&self, config: &Path) -> (PathBuf, Vec<String>) {
        match &self.program {
            Program::Ours(binary) => {
                let config = config.display().to_string();
                (binary.clone(), vec!["run".to_owned(), "--config".to_owned(), config])
            }
            Program::Peer(peer) => peer.command(config),
        }
    }

    /// Settings of a gateway.
    pub(crate) fn gateway(&self, place: &GatewayPlace<'_>) -> String {
        let GatewayPlace { broker, topic, group, endpoint, signal, attributes, delivery, login } =
            place;
        match &self.program {
            Program::Ours(_) => {
                let login = login.as_ref().map_or_else(String::new, |(user, password)| {
                    format!(
                        "    credentials: {{usernameFile: \"{}\", passwordFile: \"{}\"}}\n",
                        user.display(),
                        password.display()
                    )
                });
                format!(
                    "admin: {{address: \"127.0.0.1:0\"}}\n\
                     memory: {{limitBytes: {MEMORY_LIMIT}}}\n\
                     receivers:\n  kafka:\n    connection: {{bootstrapServers: [\"{broker}\"]}}\n\
                     \x20   groupId: {group}\n    topics: {{{signal}: {topic}}}\n    \
                     delivery: {delivery}\n    {ANY_TIMES}\n\
                     exporters:\n  clickhouse:\n    endpoints: [\"{endpoint}\"]\n    \
                     database: otel\n    attributes: {attributes}\n{login}"
                )
            }
            Program::Peer(peer) => peer.gateway(
                &Place::default()
                    .with("broker", *broker)
                    .with("topic", *topic)
                    .with("group", *group)
                    .with("endpoint", *endpoint)
                    .with("signal", *signal)
                    .with("json", if *attributes == "JSON" { "true" } else { "false" }),
            ),
        }
    }

    /// Settings of an edge.
    pub(crate) fn edge(&self, place: &EdgePlace<'_>) -> String {
        let EdgePlace { broker, signal, topic, grpc, http, admin, rules } = place;
        let sections = rules.map(|rules| rules.ours(topic)).unwrap_or_default();
        match &self.program {
            Program::Ours(_) => format!(
                "admin: {{address: \"{admin}\"}}\n\
                 memory: {{limitBytes: {MEMORY_LIMIT}}}\n\
                 {sections}receivers:\n  otlp:\n    grpc: {{address: \"{grpc}\"}}\n    \
                 http: {{address: \"{http}\"}}\n    {ANY_TIMES}\n\
                 exporters:\n  kafka:\n    connection: {{bootstrapServers: [\"{broker}\"]}}\n    \
                 topics: {{{signal}: {topic}}}\n"
            ),
            Program::Peer(peer) => {
                let place = Place::default()
                    .with("broker", *broker)
                    .with("topic", *topic)
                    .with("grpc", grpc)
                    .with("http", http);
                let Some(rules) = rules else { return peer.edge(&place) };
                let (processors, names) = rules.peers();
                Peer::edge_with_processors(
                    &place
                        .with("signal", *signal)
                        .with("processors", processors)
                        .with("names", names)
                        .with("batch", rules.peers_batch().to_string()),
                )
            }
        }
    }
}
