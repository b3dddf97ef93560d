//! Asks the Keeper or ZooKeeper servers that a spec names how they are: `mntr` as a four-letter
//! word, or through Keeper's HTTP API. It reads and decides nothing: `millrace_coordination` reads
//! the answers and judges them.
//!
//! Anybody who may write a spec names hosts, so they go through [`crate::outbound`] like all
//! others. Limits: 9 servers a spec (the API's), each within [`LOOK_MAX`] and
//! [`ANSWER_BYTES_MAX`]; a connection for each question.

mod probe;

use std::str::FromStr;
use std::time::Duration;

use futures::future::BoxFuture;
use millrace_coordination::observation::Server;

pub use probe::Prober;

use crate::outbound::credentials::Login;

/// Longest look at one server: it answers from its memory, within milliseconds, and a hanging one
/// must not delay the reconcile of its tables.
pub const LOOK_MAX: Duration = Duration::from_secs(5);

/// The longest answer: ZooKeeper 3.9 with all its metrics writes about 30 KiB.
pub const ANSWER_BYTES_MAX: u32 = 128 * 1024;

/// Where a server is asked, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    host: String,
    port: u16,
    speaks: Speaks,
}

/// What a server is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    /// Four-letter words, encrypted if the spec has TLS.
    Words,
    /// Keeper's HTTP API.
    Http,
    /// The same, encrypted.
    Https,
}

/// Text that is no address of a server.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither host:port nor http://host:port nor https://host:port")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(text.to_owned());
        let (speaks, place) = match text.split_once("://") {
            None => (Speaks::Words, text),
            Some(("http", place)) => (Speaks::Http, place),
            Some(("https", place)) => (Speaks::Https, place),
            Some(_) => return Err(refused()),
        };
        let (host, port) = place.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().map_err(|_| refused())?;
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(refused());
        }
        Ok(Self { text: text.to_owned(), host: bare.to_owned(), port, speaks })
    }
}

/// Whom to ask, with what. Has no `Debug`: it may hold a password.
#[derive(Default)]
pub struct Ask {
    /// The servers.
    pub servers: Vec<Address>,
    /// Four-letter words go over an encrypted connection.
    pub encrypted: bool,
    /// The authority, in PEM form; none: the system's.
    pub authority: Option<Vec<u8>>,
    /// For HTTP basic authentication.
    pub login: Option<Login>,
    /// Also ask for the bytes on disk.
    pub disk: bool,
}

/// Whoever can ask servers, so that tests can replace them.
pub trait Coordinators: Send + Sync {
    /// What each server says, in their order. A server that hangs delays no other.
    fn look<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Vec<Server>>;
}
