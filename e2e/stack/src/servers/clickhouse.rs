//! A real ClickHouse engine behind ClickHouse's HTTP interface, for tests and for the local stack.
//!
//! [`Engine::start`] gives a test its own engine on loopback, serving when it returns and gone when
//! dropped. The stack, which starts processes inside its own namespaces, uses [`Prepared`]: the
//! same set-up, the command to run, and a probe.
//!
//! Needs Python 3.11 or later with pip. The engine (`chdb-core`) is put into the cache once, about
//! 560 MB. What the front offers and lacks is said at the top of `clickhouse/front.py`. Replicated
//! tables need [`EngineOptions::zookeeper`], and have one replica
//! (`clickhouse/replicated.py`).

mod fault;
pub(crate) mod install;
mod kill;
mod server;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::servers::http::{self, Answer};
use crate::servers::service::{self, KeyStore, Result, Secret, Service, ServiceError, io_error};

pub use fault::{Fault, FaultKind};
pub use server::{MET_VARIABLE, NOT_HERE, SERVER_VARIABLE, require_own_engine};

use server::{Server, not_here};

/// Loading the engine takes under 2 s warm; the first read of its 550 MB library can take many.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// The front gives running requests 10 s and then goes.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// A port found free may be taken before the front binds it; it is tried again with another.
const START_ATTEMPTS: u32 = 3;
/// How long a query of a test may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(300);
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Default memory of the engine: 3 GiB, which leaves a 12 GiB test run room for the rest.
const MEMORY_LIMIT_BYTES: u64 = 3 << 30;
/// Queries at work at once; more are refused with code 202. A query that waits costs a thread only.
const QUERIES_MAX: u32 = 32;
/// Connections open at once: each of 32 queries, with four idle ones kept by its client's pool.
const CONNECTIONS_MAX: u32 = 160;
/// A body as sent: a gateway's largest block is some 20 MB before compression; this is 50 of them.
const BODY_LIMIT_BYTES: u64 = 1 << 30;
/// A body once decompressed, streamed to the engine and never held whole.
const PLAIN_LIMIT_BYTES: u64 = 4 << 30;
/// An idle or stalled connection is closed after this, a little over what clients keep theirs for.
const SOCKET_TIMEOUT_SECONDS: u32 = 75;

/// Puts the engine into the cache unless it is there (about 30 s). [`Prepared::new`] does it too.
///
/// # Errors
/// A missing Python or pip, or a failing install.
pub fn install() -> Result<()> {
    install::packages(&install::python()?).map(drop)
}

/// Whether an engine serves at this address now.
///
/// # Errors
/// No connection, no answer within 2 s, or another answer than ClickHouse's to `/ping`.
pub fn answers(address: SocketAddr) -> io::Result<()> {
    let answer = http::ask(address, "GET", "/ping", &[], b"", PING_TIMEOUT)?;
    match answer.status {
        200 => Ok(()),
        status => Err(io::Error::other(format!("/ping was answered with status {status}"))),
    }
}

/// A user of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: Secret,
    /// The user's password.
    pub password: Secret,
    /// Whether every change is refused (with code 164).
    pub read_only: bool,
}

/// What kind of engine to run.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where it keeps everything, log included. `None`: a temporary folder, removed at the end.
    pub dir: Option<PathBuf>,
    /// The address it listens on.
    pub host: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The users. The first one is whom [`Engine::user`] and [`Engine::query`] mean.
    pub users: Vec<User>,
    /// What the engine may take in all, in bytes; queries beyond it fail with code 241.
    pub memory_limit_bytes: u64,
    /// Whether [`Engine::inject`] works.
    pub test_faults: bool,
    /// The ZooKeepers of replicated tables (x86-64 only). Empty: there are no such tables, and no
    /// `system.part_log`.
    pub zookeeper: Vec<SocketAddr>,
    /// A second listener, over TLS. `None`: there is none.
    pub tls: Option<TlsListener>,
}

/// A listener over TLS, at the same address.
#[derive(Debug, Clone)]
pub struct TlsListener {
    /// Its port; 0 takes a free one.
    pub port: u16,
    /// What it shows to clients, who check that it names the address.
    pub key_store: KeyStore,
}

impl Default for EngineOptions {
    /// User `millrace` with a random password, a free loopback port, 3 GiB, no faults, no ZooKeeper.
    fn default() -> Self {
        Self {
            dir: None,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            users: vec![User {
                name: Secret::fixed("millrace"),
                password: Secret::random(),
                read_only: false,
            }],
            memory_limit_bytes: MEMORY_LIMIT_BYTES,
            test_faults: false,
            zookeeper: Vec::new(),
            tls: None,
        }
    }
}

/// An engine ready to be started: installed, its front and configuration written.
#[derive(Debug, Clone)]
pub struct Prepared {
    dir: PathBuf,
    python: PathBuf,
    packages: PathBuf,
    address: SocketAddr,
    tls: Option<SocketAddr>,
}

impl Prepared {
    /// Installs the engine if it must and writes the front's configuration (passwords as hashes).
    /// Rows that an earlier engine left in `dir` are kept; users may change.
    ///
    /// # Errors
    /// A missing Python or pip; an option that cannot work; a failing install.
    pub fn new(dir: &Path, options: &EngineOptions) -> Result<Self> {
        if options.users.is_empty() {
            return Err(ServiceError::Option {
                field: "users",
                problem: "give at least one user, or nobody can ask anything".to_owned(),
            });
        }
        let settle = |port| match port {
            0 => service::free_port(options.host),
            port => Ok(port),
        };
        let settle = |port| settle(port).map(|port| SocketAddr::new(options.host, port));
        let python = install::python()?;
        let packages = install::packages(&python)?;
        let prepared = Self {
            dir: dir.to_owned(),
            python: python.path,
            packages,
            address: settle(options.port)?,
            tls: options.tls.as_ref().map(|tls| settle(tls.port)).transpose()?,
        };
        service::create_dir(&prepared.front_dir())?;
        for (name, text) in install::FRONT {
            service::write_file(&prepared.front_dir().join(name), text)?;
        }
        if let Some(tls) = &options.tls {
            service::write_file(&prepared.key_store(), tls.key_store.expose())?;
        }
        service::write_file(&prepared.config(), &prepared.config_text(options))?;
        Ok(prepared)
    }

    fn front_dir(&self) -> PathBuf {
        self.dir.join("front")
    }

    fn config(&self) -> PathBuf {
        self.dir.join("front.json")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn key_store(&self) -> PathBuf {
        self.dir.join("key-store.pem")
    }

    fn config_text(&self, options: &EngineOptions) -> String {
        let users: Vec<_> = options
            .users
            .iter()
            .map(|user| {
                json!({
                    "name": user.name.expose(),
                    "password_sha256_hex": sha256_hex(user.password.expose()),
                    "read_only": user.read_only,
                })
            })
            .collect();
        let config = json!({
            "host": self.address.ip().to_string(),
            "port": self.address.port(),
            "data_dir": self.data_dir(),
            "users": users,
            "default_settings": {"max_execution_time": QUERY_TIMEOUT.as_secs().to_string()},
            "max_server_memory_bytes": options.memory_limit_bytes,
            "max_queries": QUERIES_MAX,
            "limits": {
                "body_bytes": BODY_LIMIT_BYTES,
                "plain_bytes": PLAIN_LIMIT_BYTES,
                "connections": CONNECTIONS_MAX,
                "socket_timeout_seconds": SOCKET_TIMEOUT_SECONDS,
            },
            "test_faults": options.test_faults,
            "zookeeper": options.zookeeper,
            "tls": self.tls.map(|address| {
                json!({"port": address.port(), "key_store": self.key_store()})
            }),
        });
        format!("{config:#}\n")
    }

    /// The command that runs the engine in the foreground. It ends on SIGTERM.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(self.front_dir().join("front.py"))
            .arg("--config")
            .arg(self.config())
            .env("PYTHONPATH", &self.packages)
            // Nothing of the user's own Python may come in between.
            .env("PYTHONNOUSERSITE", "1")
            .env_remove("PYTHONHOME");
        command
    }

    /// The base URL, without credentials: `http://host:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL of the listener over TLS, if there is one.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        self.tls.map(|address| format!("https://{address}"))
    }

    /// Whether it serves now. It opens both listeners together.
    ///
    /// # Errors
    /// No connection, no answer within 2 s, or another answer than ClickHouse's to `/ping`.
    pub fn ready(&self) -> io::Result<()> {
        answers(self.address)
    }

    fn spawn(&self, scratch: Option<&Path>) -> Result<Service> {
        let log = self.dir.join("engine.log");
        let mut service = Service::spawn("clickhouse", self.command(), log, scratch, STOP_GRACE)?;
        service.wait_ready(START_PATIENCE, || self.ready())?;
        Ok(service)
    }
}

fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An engine of one's own: serving once started, stopped when dropped. With [`SERVER_VARIABLE`] it
/// is a server by address, empty once started and emptied when dropped.
#[derive(Debug)]
pub struct Engine {
    place: Place,
    user: User,
}

#[derive(Debug)]
enum Place {
    Own(Box<Own>),
    Server(Server),
}

/// An engine's process.
#[derive(Debug)]
struct Own {
    // Dropped first: the process ends before its temporary folder goes.
    service: Service,
    prepared: Prepared,
    scratch: Option<tempfile::TempDir>,
}

impl Engine {
    /// Starts an engine and returns when it serves.
    ///
    /// # Errors
    /// Those of [`Prepared::new`]; an engine that ends or does not serve within two minutes (the
    /// error quotes its log); a server by address that isn't empty, or lacks what is asked for.
    pub fn start(options: EngineOptions) -> Result<Self> {
        if let Some(server) = Server::chosen(&options)? {
            let user = server.user.clone();
            return Ok(Self { place: Place::Server(server), user });
        }
        let (dir, scratch) = service::home(options.dir.as_deref(), "millrace-clickhouse-")?;
        let scratch_path = scratch.as_ref().map(tempfile::TempDir::path);
        let mut attempt = 1;
        loop {
            let prepared = Prepared::new(&dir, &options)?;
            // `Prepared` refused an empty list.
            let user = options.users[0].clone();
            match prepared.spawn(scratch_path) {
                Ok(service) => {
                    let own = Own { service, prepared, scratch };
                    return Ok(Self { place: Place::Own(Box::new(own)), user });
                }
                Err(ServiceError::Exited { .. }) if attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The base URL, without credentials: `http://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.place {
            Place::Own(own) => own.prepared.url(),
            Place::Server(server) => server.url().to_owned(),
        }
    }

    /// The base URL of the listener over TLS, if it has one.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        match &self.place {
            Place::Own(own) => own.prepared.tls_url(),
            Place::Server(_) => None,
        }
    }

    /// Whether the test started it, and may kill it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.place, Place::Own(_))
    }

    fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Own(own) => own.prepared.address,
            Place::Server(server) => server.address,
        }
    }

    /// The first user's name.
    #[must_use]
    pub fn user(&self) -> &str {
        self.user.name.expose()
    }

    /// The first user's password.
    #[must_use]
    pub fn password(&self) -> &str {
        self.user.password.expose()
    }

    /// The engine's folder, with its data and `engine.log`. Empty for a server by address.
    #[must_use]
    pub fn dir(&self) -> &Path {
        match &self.place {
            Place::Own(own) => &own.prepared.dir,
            Place::Server(_) => Path::new(""),
        }
    }

    /// The engine's process id (of the last one, when it is stopped). 0 for a server by address.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.place {
            Place::Own(own) => own.service.pid(),
            Place::Server(_) => 0,
        }
    }

    /// Runs a query as the first user and returns its output, tab-separated unless it says a
    /// format.
    ///
    /// # Errors
    /// No answer, or the engine's refusal with its text.
    pub fn query(&self, sql: &str) -> Result<String> {
        let answer = self.request("/", &[], sql.as_bytes())?;
        if answer.status == 200 {
            return Ok(answer.text());
        }
        Err(ServiceError::Refused { status: answer.status, text: answer.text() })
    }

    /// Sends a raw POST as the first user; `path` holds the URL's parameters, percent-encoded.
    ///
    /// # Errors
    /// No answer. A refusal is an [`Answer`].
    pub fn request(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer> {
        let mut all =
            vec![("X-ClickHouse-User", self.user()), ("X-ClickHouse-Key", self.password())];
        all.extend_from_slice(headers);
        http::ask(self.address(), "POST", path, &all, body, QUERY_TIMEOUT)
            .map_err(io_error(format!("ask {}", self.url())))
    }

    /// Lets `fault` wait for its queries. Only with [`EngineOptions::test_faults`].
    ///
    /// # Errors
    /// No answer, or a refusal: faults are off, or there are too many.
    pub fn inject(&self, fault: &Fault) -> Result<()> {
        self.faults(fault.to_json().as_bytes()).map(drop)
    }

    /// Forgets every fault that still waits.
    ///
    /// # Errors
    /// As for [`Self::inject`].
    pub fn clear_faults(&self) -> Result<()> {
        self.faults(b"").map(drop)
    }

    fn faults(&self, body: &[u8]) -> Result<String> {
        if !self.is_own() {
            return Err(not_here("it answers with no faults"));
        }
        let answer = self.request("/test/faults", &[], body)?;
        match answer.status {
            200 => Ok(answer.text()),
            status => Err(ServiceError::Refused { status, text: answer.text() }),
        }
    }

    /// Ends the engine in good order. [`Self::restart`] brings it back with its rows. A server by
    /// address stays as it is.
    pub fn stop(&mut self) {
        if let Place::Own(own) = &mut self.place {
            own.service.stop();
        }
    }

    /// Kills the engine with SIGKILL, but for the moment at which ClickHouse itself loses an insert
    /// (`clickhouse/kill.rs`). [`Self::restart`] brings it back with what it had answered for. A
    /// server by address stays as it is.
    ///
    /// # Errors
    /// It has ended already, or can't be stopped and looked at.
    pub fn kill9(&mut self) -> Result<()> {
        match &mut self.place {
            Place::Own(own) => {
                kill::kill_between_inserts(&mut own.service, &own.prepared.data_dir())
            }
            Place::Server(_) => Ok(()),
        }
    }

    /// Stops the engine if it runs and starts it again: same port, same data. Returns when it
    /// serves.
    ///
    /// # Errors
    /// When it does not come back (the error quotes its log), or is a server by address.
    pub fn restart(&mut self) -> Result<()> {
        let Place::Own(own) = &mut self.place else {
            return Err(not_here("it can't be started again"));
        };
        own.service.stop();
        own.service = own.prepared.spawn(own.scratch.as_ref().map(tempfile::TempDir::path))?;
        Ok(())
    }

    /// The end of the engine's log, for a failing test's message.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir().join("engine.log")).unwrap_or_default()
    }
}
