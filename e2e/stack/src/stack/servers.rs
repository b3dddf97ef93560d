//! Kafka and the ClickHouse engine as parts of the stack: their addresses, users and commands.
//!
//! Names and passwords are files below the state folder, readable by root only; they are made once
//! for a state folder and never printed.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Stack;
use crate::clickhouse;
use crate::error::Result;
use crate::kafka;
use crate::node::NODE_IP;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{KeyStore, Secret, io_error, write_file};

const KAFKA_PORT: u16 = 9092;
const KAFKA_TLS_PORT: u16 = 9093;
const CLICKHOUSE_PORT: u16 = 8123;
const CLICKHOUSE_TLS_PORT: u16 = 8443;
/// Most heap of the broker, in MiB: the demo's million spans need a tenth of it.
const KAFKA_HEAP_MIB: u32 = 512;
const USER: &str = "millrace";
const SECRETS: [&str; 4] =
    ["kafka-user", "kafka-password", "clickhouse-user", "clickhouse-password"];

impl Stack {
    /// `host:port` of the broker, for clients on this machine and in pods. It wants SASL
    /// (SCRAM-SHA-512) without encryption, as the user in the files below.
    #[must_use]
    pub fn kafka_bootstrap(&self) -> String {
        kafka_address().to_string()
    }

    /// `host:port` of the broker's encrypted listener, for the same user. The cluster's authority
    /// has signed its certificate.
    #[must_use]
    pub fn kafka_tls_bootstrap(&self) -> String {
        SocketAddr::from((NODE_IP, KAFKA_TLS_PORT)).to_string()
    }

    /// The file with the certificate of the cluster's authority.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.paths.pki("ca.crt")
    }

    /// The file with the broker's user name.
    #[must_use]
    pub fn kafka_user_file(&self) -> PathBuf {
        self.paths.secret("kafka-user")
    }

    /// The file with that user's password.
    #[must_use]
    pub fn kafka_password_file(&self) -> PathBuf {
        self.paths.secret("kafka-password")
    }

    /// The base URL of the engine's HTTP interface, for clients on this machine and in pods.
    #[must_use]
    pub fn clickhouse_url(&self) -> String {
        format!("http://{}", clickhouse_address())
    }

    /// The same over TLS. The cluster's authority signed the certificate.
    #[must_use]
    pub fn clickhouse_tls_url(&self) -> String {
        format!("https://{}", SocketAddr::from((NODE_IP, CLICKHOUSE_TLS_PORT)))
    }

    /// The file with the engine's user name.
    #[must_use]
    pub fn clickhouse_user_file(&self) -> PathBuf {
        self.paths.secret("clickhouse-user")
    }

    /// The file with that user's password.
    #[must_use]
    pub fn clickhouse_password_file(&self) -> PathBuf {
        self.paths.secret("clickhouse-password")
    }

    /// Where things are, as lines for a terminal. Holds no secret, only where they are kept.
    #[must_use]
    pub fn summary(&self) -> String {
        let secrets = self.paths.state().join("secrets");
        let secrets = secrets.display();
        let authority = self.authority_file();
        let authority = authority.display();
        format!(
            "Kubernetes   export KUBECONFIG={}\n\
             Kafka        {}  SASL_PLAINTEXT, SCRAM-SHA-512; {secrets}/kafka-user, -password\n\
             Kafka, TLS   {}  SASL_SSL, the same user; {authority}\n\
             ClickHouse   {}  {secrets}/clickhouse-user, -password; over TLS {}",
            self.kubeconfig().display(),
            self.kafka_bootstrap(),
            self.kafka_tls_bootstrap(),
            self.clickhouse_url(),
            self.clickhouse_tls_url(),
        )
    }
}

fn clickhouse_address() -> SocketAddr {
    SocketAddr::from((NODE_IP, CLICKHOUSE_PORT))
}

fn kafka_address() -> SocketAddr {
    SocketAddr::from((NODE_IP, KAFKA_PORT))
}

/// Downloads what the servers run from, once.
pub(super) fn install(progress: &dyn Progress) -> Result<()> {
    progress.tell("fetching Kafka and the ClickHouse engine, unless the cache has them");
    kafka::install()?;
    Ok(clickhouse::install()?)
}

/// Makes names and passwords that are not there yet.
pub(super) fn write_secrets(paths: &Paths) -> Result<()> {
    paths.state_dir("secrets")?;
    for name in SECRETS {
        let file = paths.secret(name);
        if file.exists() {
            continue;
        }
        let text = if name.ends_with("user") { USER.to_owned() } else { random_password()? };
        write_file(&file, &text)?;
    }
    Ok(())
}

/// 128 bits from the system, as 32 hex digits.
fn random_password() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    let source = Path::new("/dev/urandom");
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(io_error("read /dev/urandom"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn secret(paths: &Paths, name: &str) -> Result<Secret> {
    Ok(Secret::new(read(&paths.secret(name))?.trim())?)
}

fn read(file: &Path) -> Result<String> {
    Ok(fs::read_to_string(file).map_err(io_error(format!("read {}", file.display())))?)
}

/// What a server of this name shows to its clients.
fn key_store(paths: &Paths, name: &str) -> Result<KeyStore> {
    let [key, certificate] = ["key", "crt"].map(|kind| read(&paths.pki(&format!("{name}.{kind}"))));
    Ok(KeyStore::from_pem(&key?, &certificate?))
}

/// The broker's command; formats its folder when it is new.
pub(super) fn kafka_command(paths: &Paths) -> Result<Command> {
    let listener = |port| kafka::Listener { host: IpAddr::V4(NODE_IP), port };
    let key_store = key_store(paths, "kafka")?;
    let tls = kafka::TlsListener { listener: listener(KAFKA_TLS_PORT), key_store };
    let credentials = kafka::Credentials {
        user: secret(paths, "kafka-user")?,
        password: secret(paths, "kafka-password")?,
    };
    let options = kafka::BrokerOptions {
        dir: None,
        plaintext: None,
        advertised: None,
        sasl: Some((listener(KAFKA_PORT), credentials)),
        tls: Some(tls),
        accepts_tokens: false,
        heap_mib: KAFKA_HEAP_MIB,
        is_brief: cfg!(debug_assertions),
        quorum: None,
    };
    Ok(kafka::Prepared::new(&paths.state().join("kafka"), &options)?.command())
}

/// Whether the broker answers clients.
pub(super) fn kafka_answers() -> io::Result<()> {
    kafka::answers(kafka_address())
}

/// The engine's command, behind its HTTP front.
pub(super) fn clickhouse_command(paths: &Paths) -> Result<Command> {
    let user = clickhouse::User {
        name: secret(paths, "clickhouse-user")?,
        password: secret(paths, "clickhouse-password")?,
        read_only: false,
    };
    let options = clickhouse::EngineOptions {
        host: IpAddr::V4(NODE_IP),
        port: CLICKHOUSE_PORT,
        users: vec![user],
        tls: Some(clickhouse::TlsListener {
            port: CLICKHOUSE_TLS_PORT,
            key_store: key_store(paths, "clickhouse")?,
        }),
        ..clickhouse::EngineOptions::default()
    };
    Ok(clickhouse::Prepared::new(&paths.state().join("clickhouse"), &options)?.command())
}

/// Whether the engine answers clients.
pub(super) fn clickhouse_answers() -> io::Result<()> {
    clickhouse::answers(clickhouse_address())
}
