//! Real ZooKeepers (3.9 or 3.8), alone or three together, for tests and benchmarks.
//!
//! [`Ensemble::start`] gives a test servers of its own on free loopback ports, serving when it
//! returns and gone when dropped. Each server is a process that can be killed, paused, stopped and
//! started again with its data. All four-letter words are allowed ([`four_letters`], [`mntr`]).
//!
//! Needs a JDK 17 and Maven. The jars are copied into the cache once, about 20 MB. Nobody logs in
//! and nothing is encrypted: it must not be reached from other machines.

mod server;
mod settings;
mod words;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::servers::java;
use crate::servers::service::{self, Result, ServiceError};

pub use server::Server;
pub use words::{Role, four_letters, mntr, role};

/// The project whose dependencies are a server.
const POM: &str = include_str!("../../zookeeper/pom.xml");
/// Three JVMs serve after about 4 s on idle cores; a busy 2-core machine needs several times that.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// Ports found free may be taken before a server binds them; it is tried again with others.
const START_ATTEMPTS: u32 = 3;

/// Which ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// 3.9.3.
    #[default]
    V3_9,
    /// 3.8.3.
    V3_8,
}

impl Version {
    /// The version's number, as Maven has it.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::V3_9 => "3.9.3",
            Self::V3_8 => "3.8.3",
        }
    }
}

/// How many servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Size {
    /// One, without a quorum.
    #[default]
    One,
    /// Three, of which two must agree.
    Three,
}

impl Size {
    /// The number.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }
}

/// A machine of a server's own, where every port is free: a network namespace, as a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its address, which clients and the other servers reach.
    pub address: IpAddr,
    /// What stands before a command to run it there (`ip netns exec NAME`).
    pub prefix: Vec<String>,
}

/// What kind of ensemble to run.
#[derive(Debug, Clone)]
pub struct EnsembleOptions {
    /// How many servers.
    pub size: Size,
    /// Which ZooKeeper.
    pub version: Version,
    /// The most heap of each JVM, in MiB. It takes some 100 MiB beside it.
    pub heap_mib: u32,
    /// ZooKeeper's tick. Sessions last 2 to 20 of them; a follower may be 5 behind, and has 10 to
    /// join.
    pub tick: Duration,
    /// Where each server keeps its data, in the servers' order. Empty: temporary folders, removed
    /// at the end.
    pub data_dirs: Vec<PathBuf>,
    /// Where each server runs, in the servers' order. Empty: all on loopback.
    pub hosts: Vec<Host>,
    /// Whether the AdminServer (HTTP) listens ([`Server::admin_address`]).
    pub admin: bool,
    /// Whether metrics are served for Prometheus ([`Server::metrics_address`]).
    pub metrics: bool,
    /// More settings of every server, as in `zoo.cfg`.
    pub settings: Vec<(String, String)>,
    /// More arguments of every JVM.
    pub jvm_arguments: Vec<String>,
    /// More environment variables of every JVM.
    pub variables: Vec<(String, String)>,
}

impl Default for EnsembleOptions {
    /// One server of 3.9 with 256 MiB of heap and a tick of 500 ms; neither AdminServer nor
    /// Prometheus' metrics.
    fn default() -> Self {
        Self {
            size: Size::One,
            version: Version::V3_9,
            heap_mib: 256,
            tick: Duration::from_millis(500),
            data_dirs: Vec::new(),
            hosts: Vec::new(),
            admin: false,
            metrics: false,
            settings: Vec::new(),
            jvm_arguments: Vec::new(),
            variables: Vec::new(),
        }
    }
}

/// Downloads the servers' jars into the cache unless they are there.
///
/// # Errors
/// A missing Maven, or what it failed with.
pub fn install(version: Version) -> Result<PathBuf> {
    let number = version.number();
    java::jars(&format!("zookeeper-{number}"), POM, &[("zookeeper.version", number)])
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    client: SocketAddr,
    quorum: SocketAddr,
    election: SocketAddr,
    admin: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

/// Servers of one's own: serving once started, stopped when dropped.
#[derive(Debug)]
pub struct Ensemble {
    // Dropped first: the processes end before their temporary folder goes.
    servers: Vec<Server>,
    dir: tempfile::TempDir,
}

impl Ensemble {
    /// Starts the servers and returns when each serves.
    ///
    /// # Errors
    /// A missing JDK or Maven; other than none or one data directory or host for each server; a server
    /// that ends or does not serve within two minutes (the error quotes its log).
    pub fn start(options: &EnsembleOptions) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::prepare(options).and_then(Self::begin) {
                Err(ServiceError::Exited { .. }) if attempt < START_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn prepare(options: &EnsembleOptions) -> Result<Self> {
        let count = options.size.count();
        for (field, given) in
            [("data_dirs", options.data_dirs.len()), ("hosts", options.hosts.len())]
        {
            if given != 0 && given != count {
                let problem = format!("{given} for {count} servers: give none, or one for each");
                return Err(ServiceError::Option { field, problem });
            }
        }
        let (dir, scratch) = service::home(None, "millrace-zookeeper-")?;
        let Some(scratch) = scratch else {
            return Err(ServiceError::Option {
                field: "dir",
                problem: format!("{} is not temporary", dir.display()),
            });
        };
        let addresses = settle(options)?;
        let servers = (0..count)
            .map(|index| Server::prepare(&dir, index, &addresses, options))
            .collect::<Result<_>>()?;
        Ok(Self { servers, dir: scratch })
    }

    /// All of them at once: none of three serves alone.
    fn begin(mut self) -> Result<Self> {
        for server in &mut self.servers {
            server.start()?;
        }
        self.wait_serving(START_PATIENCE)?;
        Ok(self)
    }

    /// Waits until each server serves.
    ///
    /// # Errors
    /// One has ended, or does not serve in time; the error quotes its log.
    pub fn wait_serving(&mut self, patience: Duration) -> Result<()> {
        self.servers.iter_mut().try_for_each(|server| server.wait_serving(patience))
    }

    /// Where clients connect, in the servers' order.
    #[must_use]
    pub fn client_addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::client_address).collect()
    }

    /// The same as clients take it: `host:port,host:port`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let addresses = self.client_addresses();
        addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
    }

    /// The servers. The first has id 1.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The servers, to be struck.
    pub fn servers_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The index of the server that leads, or is alone; none while nobody does.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leads = |server: &Server| {
            matches!(role(server.client_address()), Ok(Role::Leader | Role::Standalone))
        };
        self.servers.iter().position(leads)
    }

    /// The temporary folder with settings and logs, and data that has no directory of its own.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// The ports of a server that has a host of its own: ZooKeeper's usual ones.
fn on_host(address: IpAddr, options: &EnsembleOptions) -> Addresses {
    let at = |port| SocketAddr::new(address, port);
    Addresses {
        client: at(2181),
        quorum: at(2888),
        election: at(3888),
        admin: options.admin.then(|| at(8080)),
        metrics: options.metrics.then(|| at(7000)),
    }
}

/// Free ports for every server, each once.
fn settle(options: &EnsembleOptions) -> Result<Vec<Addresses>> {
    if !options.hosts.is_empty() {
        return Ok(options.hosts.iter().map(|host| on_host(host.address, options)).collect());
    }
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut taken = Vec::new();
    let mut free = || loop {
        let port = service::free_port(host)?;
        if !taken.contains(&port) {
            taken.push(port);
            return Ok(SocketAddr::new(host, port));
        }
    };
    (0..options.size.count())
        .map(|_| {
            Ok(Addresses {
                client: free()?,
                quorum: free()?,
                election: free()?,
                admin: options.admin.then(&mut free).transpose()?,
                metrics: options.metrics.then(&mut free).transpose()?,
            })
        })
        .collect()
}
