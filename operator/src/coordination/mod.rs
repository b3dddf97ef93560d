//! Queries the state of the Keeper or ZooKeeper servers that a spec names: `mntr` as a four-letter
//! word, or through Keeper's HTTP API. It decides nothing: `millrace_coordination` parses the
//! answers and judges them.
//!
//! Anybody who may write a spec can name hosts, so connections go through [`crate::outbound`] like
//! all others. Limits: 9 servers a spec (the API's), each within [`PROBE_MAX`] and
//! [`ANSWER_BYTES_MAX`]; one connection per query.

mod probe;

use std::str::FromStr;
use std::time::Duration;

use futures::future::BoxFuture;
use millrace_coordination::observation::KeeperServer;

pub use probe::Prober;

use crate::outbound::credentials::Login;

/// Maximum time to query one server: it answers from its memory, within milliseconds, and a hanging
/// one must not delay the reconcile of its tables.
pub const PROBE_MAX: Duration = Duration::from_secs(5);

/// Maximum size of an answer: ZooKeeper 3.9 with all its metrics writes about 30 KiB.
pub const ANSWER_BYTES_MAX: u32 = 128 * 1024;

/// A server's address and protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    host: String,
    port: u16,
    speaks: ProbeProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeProtocol {
    /// Four-letter words, encrypted if the spec has TLS.
    FourLetter,
    /// Keeper's HTTP API.
    Http,
    /// Keeper's HTTP API, encrypted.
    Https,
}

/// A text that is not a server's address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither host:port nor http://host:port nor https://host:port")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(text.to_owned());
        let (speaks, authority) = match text.split_once("://") {
            None => (ProbeProtocol::FourLetter, text),
            Some(("http", authority)) => (ProbeProtocol::Http, authority),
            Some(("https", authority)) => (ProbeProtocol::Https, authority),
            Some(_) => return Err(refused()),
        };
        let (host, port) = authority.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().map_err(|_| refused())?;
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(refused());
        }
        Ok(Self { text: text.to_owned(), host: bare.to_owned(), port, speaks })
    }
}

/// The servers to query, and the credentials. It has no `Debug`: it may hold a password.
#[derive(Default)]
pub struct ProbeRequest {
    /// The servers.
    pub servers: Vec<Address>,
    /// Whether four-letter words go over an encrypted connection.
    pub encrypted: bool,
    /// The certificate authority, in PEM form; `None`: the system's.
    pub authority: Option<Vec<u8>>,
    /// The credentials for HTTP basic authentication.
    pub login: Option<Login>,
    /// Whether to query the bytes on disk too.
    pub disk: bool,
}

/// A client of coordination servers, so that tests can replace them.
pub trait Coordinators: Send + Sync {
    /// Returns each server's report, in the order of the servers. A server that hangs delays no
    /// other.
    fn probe_servers<'a>(&'a self, request: &'a ProbeRequest) -> BoxFuture<'a, Vec<KeeperServer>>;
}
