//! A real Kafka broker (4.1, KRaft, one process) for tests and for the local stack.
//!
//! [`Broker::start`] gives a test its own broker on loopback, serving when it returns and gone when
//! dropped; [`Broker::start_cluster`] gives it several that replicate. The stack, which starts processes inside its own namespaces, uses [`Prepared`]: the
//! same set-up, the command to run, and a probe.
//!
//! Needs a JDK 17 and Maven. The cache has the jars (45 MB) and what makes starts quick (50 MB). It
//! must not be used for anything that has to be durable: one replica of everything, no flush to
//! disk.

mod cluster;
mod options;
mod probe;
mod settings;
mod start_files;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::servers::java;
use crate::servers::service::{self, Result, Service, ServiceError, io_error};

pub use options::{BrokerOptions, Credentials, Listener, Quorum, TlsListener};
pub use probe::{answers, serves};
use start_files::StartFiles;

/// The project whose dependencies are the broker; the version of Kafka is said there.
const POM: &str = include_str!("../../kafka/pom.xml");
/// From start to serving takes about 4 s on an idle core; a busy 2-core machine needs several times
/// that.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// A controlled shutdown takes under 2 s; then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// Ports found free may be taken before the broker binds them; it is tried again with others.
const START_ATTEMPTS: u32 = 3;

/// The folder of a broker's data, in its own.
const DATA: &str = "data";

/// Without the JVM's second compiler.
const COMPILE_QUICKLY: &str = "-XX:TieredStopAtLevel=1";

/// Addresses with every port settled.
#[derive(Debug, Clone)]
struct Addresses {
    plaintext: Option<SocketAddr>,
    /// What clients of the plaintext listener are told, if it isn't the listener's own address.
    advertised: Option<SocketAddr>,
    sasl: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    /// The broker's own, for what it sends itself; never leaves loopback.
    internal: SocketAddr,
    controller: SocketAddr,
}

impl Addresses {
    fn settle(options: &BrokerOptions) -> Result<Self> {
        let settle = |listener: Listener| -> Result<SocketAddr> {
            if listener.host.is_unspecified() {
                return Err(ServiceError::Option {
                    field: "host",
                    problem: format!(
                        "clients cannot be sent to {}: give an address",
                        listener.host
                    ),
                });
            }
            let port = match listener.port {
                0 => service::free_port(listener.host)?,
                port => port,
            };
            Ok(SocketAddr::new(listener.host, port))
        };
        Ok(Self {
            plaintext: options.plaintext.map(settle).transpose()?,
            advertised: options.advertised,
            sasl: options.sasl.as_ref().map(|(listener, _)| settle(*listener)).transpose()?,
            tls: options.tls.as_ref().map(|tls| settle(tls.listener)).transpose()?,
            internal: settle(Listener::LOOPBACK)?,
            controller: match options.quorum.as_ref().and_then(Quorum::controller) {
                Some(address) => address,
                None => settle(Listener::LOOPBACK)?,
            },
        })
    }
}

/// Downloads the broker into the cache unless it is there.
///
/// # Errors
/// A missing Maven, or what it failed with.
pub fn install() -> Result<()> {
    jars().map(drop)
}

fn jars() -> Result<PathBuf> {
    java::jars("kafka-4.1.0", POM, &[])
}

/// A broker ready to be started: installed, its folder formatted, its settings written.
#[derive(Debug, Clone)]
pub struct Prepared {
    dir: PathBuf,
    jars: PathBuf,
    java: PathBuf,
    heap_mib: u32,
    is_brief: bool,
    addresses: Addresses,
    /// `None`: while they are made.
    start_files: Option<StartFiles>,
}

impl Prepared {
    /// Installs Kafka if it must, formats `dir` if it is new, and writes the settings. What an
    /// earlier broker left in `dir` is kept.
    ///
    /// # Errors
    /// A missing JDK or Maven; an option that cannot work; other credentials than `dir` was
    /// formatted with; a failing install or format.
    pub fn new(dir: &Path, options: &BrokerOptions) -> Result<Self> {
        let (jars, java) = (jars()?, java::launcher()?);
        let start_files = StartFiles::install(&jars, &java)?;
        Self::build(dir, options, &jars, &java, Some(start_files))
    }

    fn build(
        dir: &Path,
        options: &BrokerOptions,
        jars: &Path,
        java: &Path,
        start_files: Option<StartFiles>,
    ) -> Result<Self> {
        options.check()?;
        let prepared = Self {
            dir: dir.to_owned(),
            jars: jars.to_owned(),
            java: java.to_owned(),
            heap_mib: options.heap_mib,
            is_brief: options.is_brief,
            addresses: Addresses::settle(options)?,
            start_files,
        };
        service::create_dir(dir)?;
        service::write_file(
            &prepared.properties(),
            &settings::server(dir, &prepared.addresses, options),
        )?;
        service::write_file(&prepared.logging(), settings::LOGGING)?;
        if let Some(tls) = &options.tls {
            service::write_file(&dir.join(settings::KEY_STORE), tls.key_store.expose())?;
        }
        prepared.format(options)?;
        Ok(prepared)
    }

    fn properties(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    fn logging(&self) -> PathBuf {
        self.dir.join("log4j2.properties")
    }

    /// Formats the folder unless it was. Credentials go in a file of their own, never in arguments.
    fn format(&self, options: &BrokerOptions) -> Result<()> {
        let credentials = options.sasl.as_ref().map(|(_, credentials)| credentials);
        let users = credentials.into_iter().chain(&options.more_users);
        let arguments = settings::format_arguments(&self.properties(), users);
        let file = self.dir.join("format.args");
        if self.dir.join("data/meta.properties").exists() {
            let before =
                fs::read_to_string(&file).map_err(io_error(format!("read {}", file.display())))?;
            if before == arguments {
                return Ok(());
            }
            return Err(ServiceError::Option {
                field: "sasl",
                problem: format!(
                    "{} was formatted for another user or password; give that one or remove it",
                    self.dir.display()
                ),
            });
        }
        service::write_file(&file, &arguments)?;
        // A folder of a cluster names its broker, which the copy doesn't.
        if let (Some(start_files), None, None) = (&self.start_files, credentials, &options.quorum) {
            return start_files.format(&self.dir);
        }
        let mut command = self.java("64m");
        // Over in a second: not worth compiling well.
        command.arg(COMPILE_QUICKLY);
        command.arg(format!("@{}", file.display()));
        service::run("formatting Kafka's folder", &mut command)
    }

    fn java(&self, heap: &str) -> Command {
        let mut command = Command::new(&self.java);
        command
            .arg(format!("-Xmx{heap}"))
            .args(["-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"])
            .arg(format!("-Dlog4j2.configurationFile={}", self.logging().display()))
            .args(["-cp".into(), self.jars.join("*").into_os_string()])
            .args(self.start_files.as_ref().and_then(StartFiles::option));
        command
    }

    /// The command that runs the broker in the foreground. It ends on SIGTERM.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = self.java(&format!("{}m", self.heap_mib));
        if self.is_brief {
            command.arg(COMPILE_QUICKLY);
        }
        command.arg("kafka.Kafka").arg(self.properties());
        command
    }

    /// `host:port` of the plaintext listener, or of the SASL one when there is no other.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        let Addresses { plaintext, advertised, sasl, .. } = &self.addresses;
        let address = plaintext.map(|own| advertised.unwrap_or(own)).or(*sasl);
        address.map_or_else(String::new, |address| address.to_string())
    }

    /// `host:port` of the broker's own listener, without authentication, on loopback.
    #[must_use]
    pub fn internal_bootstrap(&self) -> String {
        self.addresses.internal.to_string()
    }

    /// `host:port` of the SASL listener.
    #[must_use]
    pub fn sasl_bootstrap(&self) -> Option<String> {
        self.addresses.sasl.map(|address| address.to_string())
    }

    /// `host:port` of the encrypted listener.
    #[must_use]
    pub fn tls_bootstrap(&self) -> Option<String> {
        self.addresses.tls.map(|address| address.to_string())
    }

    /// Whether clients are served now: every public listener without TLS answers, and the broker
    /// lists itself. It opens all listeners together.
    ///
    /// # Errors
    /// What the first listener that does not serve answered.
    pub fn ready(&self) -> io::Result<()> {
        let Addresses { plaintext, sasl, .. } = &self.addresses;
        if let Some(address) = plaintext {
            serves(*address)?;
        }
        sasl.map_or(Ok(()), answers)
    }

    fn spawn(&self, command: Command, scratch: Option<&Path>) -> Result<Service> {
        let mut service = self.launch(command, scratch)?;
        self.wait_ready(&mut service)?;
        Ok(service)
    }

    fn launch(&self, command: Command, scratch: Option<&Path>) -> Result<Service> {
        let log = self.dir.join("broker.log");
        Service::spawn("kafka", command, log, scratch, STOP_GRACE)
    }

    fn wait_ready(&self, service: &mut Service) -> Result<()> {
        service.wait_ready(START_PATIENCE, || serves(self.addresses.internal))?;
        service.wait_ready(START_PATIENCE, || self.ready())
    }
}

/// A broker of one's own: serving once started, stopped when dropped.
#[derive(Debug)]
pub struct Broker {
    // Dropped first: the process ends before its temporary folder goes.
    service: Service,
    prepared: Prepared,
    scratch: Option<tempfile::TempDir>,
}

impl Broker {
    /// Starts a broker and returns when it serves.
    ///
    /// # Errors
    /// Those of [`Prepared::new`]; a broker that ends or does not serve within two minutes (the
    /// error quotes its log).
    pub fn start(options: BrokerOptions) -> Result<Self> {
        let (dir, scratch) = service::home(options.dir.as_deref(), "millrace-kafka-")?;
        let scratch_path = scratch.as_ref().map(tempfile::TempDir::path);
        let mut attempt = 1;
        loop {
            let prepared = Prepared::new(&dir, &options)?;
            match prepared.spawn(prepared.command(), scratch_path) {
                Ok(service) => {
                    return Ok(Self { service, prepared, scratch });
                }
                Err(ServiceError::Exited { .. }) if attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// `host:port` for `bootstrap.servers`: the plaintext listener, or the SASL one if it is alone.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.prepared.bootstrap()
    }

    /// `host:port` of a listener that no proxy stands before.
    #[must_use]
    pub fn internal_bootstrap(&self) -> String {
        self.prepared.internal_bootstrap()
    }

    /// `host:port` of the SASL listener, if it has one.
    #[must_use]
    pub fn sasl_bootstrap(&self) -> Option<String> {
        self.prepared.sasl_bootstrap()
    }

    /// `host:port` of the encrypted listener, if it has one.
    #[must_use]
    pub fn tls_bootstrap(&self) -> Option<String> {
        self.prepared.tls_bootstrap()
    }

    /// The broker's folder, with its data and `broker.log`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.prepared.dir
    }

    /// The broker's process id (of the last one, when it is stopped).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Ends the broker in good order. [`Self::restart`] brings it back with its data.
    pub fn stop(&mut self) {
        self.service.stop();
    }

    /// Kills the broker with SIGKILL. [`Self::restart`] brings it back with what it had written.
    pub fn kill9(&mut self) {
        self.service.kill9();
    }

    /// Stops the broker if it runs and starts it again: same ports, same data. Returns when it
    /// serves.
    ///
    /// # Errors
    /// When it does not come back (the error quotes its log).
    pub fn restart(&mut self) -> Result<()> {
        self.service.stop();
        let scratch = self.scratch.as_ref().map(tempfile::TempDir::path);
        self.service = self.prepared.spawn(self.prepared.command(), scratch)?;
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // An orderly end takes a second, for data that nobody reads again.
        if self.prepared.is_brief {
            self.kill9();
        }
    }
}
