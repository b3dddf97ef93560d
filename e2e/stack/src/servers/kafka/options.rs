//! What kind of broker to run: its listeners, who may log in, and what it may take.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::servers::service::{KeyStore, Result, Secret, ServiceError};

/// The session of a test's broker: tests wait for its end.
const SESSION: Duration = Duration::from_secs(3);

/// Where clients reach the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// The address bound and advertised; a concrete one, since clients are sent back to it.
    pub host: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
}

impl Listener {
    /// A free port on 127.0.0.1.
    pub const LOOPBACK: Self = Self { host: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0 };
}

/// Who may log in on the SASL listener. Set when the broker's folder is first formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: Secret,
    /// The user's password.
    pub password: Secret,
}

/// A listener with SASL like the other one, over TLS.
#[derive(Debug, Clone)]
pub struct TlsListener {
    /// Where it is. Clients check that the certificate names this host.
    pub listener: Listener,
    /// What it shows to clients.
    pub key_store: KeyStore,
}

/// The brokers that form a cluster, and which of them one is. Each is a controller too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// Where their controllers listen, by node id, which begins at 1.
    pub controllers: Vec<SocketAddr>,
    /// Which of them this broker is.
    pub node_id: usize,
}

impl Quorum {
    /// Where this broker's own controller listens, if there is such a broker.
    pub(super) fn controller(&self) -> Option<SocketAddr> {
        self.controllers.get(self.node_id.checked_sub(1)?).copied()
    }
}

/// What kind of broker to run.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// Where it keeps everything, log included. `None`: a temporary folder, removed at the end.
    pub dir: Option<PathBuf>,
    /// A listener without authentication or encryption.
    pub plaintext: Option<Listener>,
    /// Where clients of the plaintext listener are sent instead of to the listener itself: a proxy
    /// in front of it. [`super::Broker::internal_bootstrap`] still leads straight to the broker.
    pub advertised: Option<SocketAddr>,
    /// A listener with SASL (SCRAM-SHA-512) and no encryption.
    pub sasl: Option<(Listener, Credentials)>,
    /// Further users of the SASL listener; needs `sasl`.
    pub more_users: Vec<Credentials>,
    /// An encrypted listener for the same credentials; needs `sasl`.
    pub tls: Option<TlsListener>,
    /// Whether the SASL listener also accepts OAUTHBEARER with unsigned tokens, of anybody: for
    /// tests. A connection ends with its token unless the client authenticates again before.
    pub accepts_tokens: bool,
    /// The JVM's largest heap, in MiB. It needs some 150 MiB more.
    pub heap_mib: u32,
    /// It serves a test: the JVM compiles quickly instead of well, and the broker is killed when
    /// dropped. A start takes 1.8 s of processor time then, instead of 3.6; in minutes of faults the
    /// second compiler took an eighth of all processor time.
    pub is_brief: bool,
    /// How long its controller waits for a killed broker before others lead in its place, and before
    /// it may come back.
    pub session: Duration,
    /// The cluster it belongs to. `None`: it is alone. [`super::Broker::start_cluster`] fills it in.
    pub quorum: Option<Quorum>,
}

impl Default for BrokerOptions {
    /// Plaintext on a free loopback port, in a temporary folder, with 512 MiB of heap. Benchmarks are
    /// release builds, and measure on a broker that is compiled well.
    fn default() -> Self {
        let plaintext = Some(Listener::LOOPBACK);
        let is_brief = cfg!(debug_assertions);
        Self {
            dir: None,
            plaintext,
            advertised: None,
            sasl: None,
            more_users: Vec::new(),
            tls: None,
            accepts_tokens: false,
            heap_mib: 512,
            is_brief,
            session: SESSION,
            quorum: None,
        }
    }
}

impl BrokerOptions {
    /// Refuses combinations of listeners that can't work.
    pub(super) fn check(&self) -> Result<()> {
        let refuse =
            |field, problem: &str| Err(ServiceError::Option { field, problem: problem.to_owned() });
        if self.plaintext.is_none() && self.sasl.is_none() {
            let problem = "give at least one listener, or nobody can reach the broker";
            return refuse("plaintext, sasl", problem);
        }
        if !self.more_users.is_empty() && self.sasl.is_none() {
            return refuse("more_users", "give sasl too: it has their listener");
        }
        if self.tls.is_some() && self.sasl.is_none() {
            return refuse("tls", "give sasl too: it has the credentials");
        }
        if self.quorum.as_ref().is_some_and(|quorum| quorum.controller().is_none()) {
            return refuse(
                "quorum",
                "the node id begins at 1 and must name one of the controllers",
            );
        }
        Ok(())
    }
}
