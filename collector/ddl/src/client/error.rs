//! What went wrong between us and a ClickHouse server, classed by what can be done about it. The
//! class is read from the server's exception code; where there is no answer, from the transport.

use std::error::Error as StdError;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::limits::{LinkLocal, TooLong};

/// An exception as the server words it, shortened to this many characters in our messages: the
/// code, the reason and the object are always at its front; a stack trace may follow.
const SERVER_TEXT_CHARS_MAX: usize = 500;

/// What is said of an answer that isn't ClickHouse's, such as a proxy's: its status is a number,
/// which can't say anything that is nobody's business.
fn not_its_form(status: Option<u16>) -> String {
    let status = status.map_or_else(String::new, |status| format!(" (HTTP status {status})"));
    format!("its answer{status} is not in clickhouse's own form")
}

/// A failed conversation with ClickHouse: what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The host name does not resolve.
    #[error("no such host: {endpoint}: {cause}; check the endpoint's spelling and the DNS")]
    UnknownHost {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// What the resolver said.
        cause: String,
    },
    /// No connection, or it broke.
    #[error(
        "cannot reach clickhouse at {endpoint}: {cause}; check that it runs and that nothing \
             blocks the way"
    )]
    Unreachable {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// What the transport said.
        cause: String,
    },
    /// The certificate was not accepted, or TLS was spoken to a plain port.
    #[error(
        "no trusted connection to {endpoint}: {cause}; check the CA certificate, the name in \
         the server's certificate, and our own certificate where it asks for one"
    )]
    Tls {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// What the TLS library said.
        cause: String,
    },
    /// No answer in time. The statement may or may not have run.
    #[error("clickhouse at {endpoint} gave no answer within {} s", waited.as_secs_f32())]
    Timeout {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// How long we waited.
        waited: Duration,
    },
    /// User or password refused (codes 192, 193, 194, 516).
    #[error(
        "clickhouse at {endpoint} refuses user {user:?} or its password (code {code}); check \
             the credentials"
    )]
    Authentication {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// The user we named.
        user: String,
        /// Exception code.
        code: u32,
    },
    /// The user may not do this (code 497).
    #[error("user {user:?} lacks a privilege on {endpoint}: {message}; grant it")]
    Privilege {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// The user we named.
        user: String,
        /// Which privilege, in the server's words.
        message: String,
    },
    /// The session or the table only reads (codes 164, 242).
    #[error("{endpoint} is read-only here (code {code}): {message}")]
    ReadOnly {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// Exception code: 164 the session, 242 the table.
        code: u32,
        /// The server's words.
        message: String,
    },
    /// The database does not exist (code 81).
    #[error("unknown database on {endpoint}: {message}")]
    UnknownDatabase {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// The server's words.
        message: String,
    },
    /// The table does not exist (code 60).
    #[error("unknown table on {endpoint}: {message}")]
    UnknownTable {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// The server's words.
        message: String,
    },
    /// Any other exception.
    #[error(
        "clickhouse at {endpoint} answered with an error (code {code}): {message}{}", advice(*code)
    )]
    Server {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// Exception code.
        code: u32,
        /// The server's words.
        message: String,
    },
    /// An answer that is not ClickHouse's: a proxy, another service, a cut body.
    #[error("what answers at {endpoint} does not speak clickhouse: {cause}; check host and port")]
    Protocol {
        /// Asked endpoint.
        endpoint: Endpoint,
        /// What was odd.
        cause: String,
    },
    /// The address is of this link alone, where no server of ours is.
    #[error("{endpoint} is at a link-local address, which is not connected to; name another host")]
    LinkLocal {
        /// Asked endpoint.
        endpoint: Endpoint,
    },
    /// The client itself cannot be made from what was given.
    #[error("cannot set up the clickhouse client: {0}")]
    Setup(String),
}

/// A stable name of an error's class, and whether waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Network or server down: try again later.
    Unreachable,
    /// The name does not resolve: try again later, but someone should look.
    UnknownHost,
    /// TLS refused.
    Tls,
    /// No answer in time: try again, the statements are idempotent.
    Timeout,
    /// Wrong user or password.
    Authentication,
    /// A grant is missing.
    Privilege,
    /// Read-only session, replica or table.
    ReadOnly,
    /// Database missing.
    UnknownDatabase,
    /// Table missing.
    UnknownTable,
    /// The server is too busy or half available for now: try again later.
    Overloaded,
    /// The server has no session with its Keeper (codes 225, 999): try again later.
    KeeperLost,
    /// The server's disk is full (code 243).
    DiskFull,
    /// The user's quota is used up (code 201).
    Quota,
    /// Any other exception.
    Server,
    /// Not ClickHouse.
    Protocol,
    /// An address that is not connected to.
    LinkLocal,
    /// Our own settings.
    Setup,
}

impl Category {
    /// The condition reason and metric label of this class.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "ClickHouseUnreachable",
            Self::UnknownHost => "ClickHouseHostUnknown",
            Self::Tls => "ClickHouseTlsFailed",
            Self::Timeout => "ClickHouseTimeout",
            Self::Authentication => "ClickHouseAuthenticationFailed",
            Self::Privilege => "ClickHouseNotAuthorized",
            Self::ReadOnly => "ClickHouseReadOnly",
            Self::UnknownDatabase => "ClickHouseDatabaseMissing",
            Self::UnknownTable => "ClickHouseTableMissing",
            Self::Overloaded => "ClickHouseOverloaded",
            Self::KeeperLost => "ClickHouseKeeperLost",
            Self::DiskFull => "ClickHouseDiskFull",
            Self::Quota => "ClickHouseQuotaExceeded",
            Self::Server => "ClickHouseError",
            Self::Protocol => "ClickHouseProtocolError",
            Self::LinkLocal => "ClickHouseLinkLocal",
            Self::Setup => "ClickHouseClientSetup",
        }
    }

    /// Whether the same statement may work later with nothing changed by anyone.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::UnknownHost
                | Self::Timeout
                | Self::Overloaded
                | Self::KeeperLost
                | Self::Quota
                | Self::ReadOnly
        )
    }
}

impl ClientError {
    /// The class of this error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::UnknownHost { .. } => Category::UnknownHost,
            Self::Unreachable { .. } => Category::Unreachable,
            Self::Tls { .. } => Category::Tls,
            Self::Timeout { .. } => Category::Timeout,
            Self::Authentication { .. } => Category::Authentication,
            Self::Privilege { .. } => Category::Privilege,
            Self::ReadOnly { .. } => Category::ReadOnly,
            Self::UnknownDatabase { .. } => Category::UnknownDatabase,
            Self::UnknownTable { .. } => Category::UnknownTable,
            Self::Server { code: 225 | 999, .. } => Category::KeeperLost,
            Self::Server { code: 243, .. } => Category::DiskFull,
            Self::Server { code: 201, .. } => Category::Quota,
            Self::Server { code, .. } if is_overload(*code) => Category::Overloaded,
            Self::Server { .. } => Category::Server,
            Self::Protocol { .. } => Category::Protocol,
            Self::LinkLocal { .. } => Category::LinkLocal,
            Self::Setup(_) => Category::Setup,
        }
    }

    /// Whether another endpoint may answer where this one did not.
    pub(crate) fn is_endpoint_fault(&self) -> bool {
        matches!(
            self.category(),
            Category::Unreachable | Category::UnknownHost | Category::Tls | Category::Protocol
        )
    }
}

/// Codes of a server that cannot for now: 159 timeout, 202 too many queries, 203 and 209 and 210
/// network, 236 aborted, 241 memory, 252 too many parts, 279 no connection,
/// 285 and 286 replicas, 319 unknown state, 364 busy, 425 system, 439 no thread, 499 object store.
fn is_overload(code: u32) -> bool {
    matches!(
        code,
        159 | 202
            | 203
            | 209
            | 210
            | 236
            | 241
            | 252
            | 279
            | 285
            | 286
            | 319
            | 364
            | 425
            | 439
            | 499
    )
}

/// What to do about the exceptions that a person has to do something about.
fn advice(code: u32) -> &'static str {
    match code {
        201 => "; wait for the quota's next interval, or raise it",
        225 | 999 => "; look at Keeper's quorum",
        243 => "; make room on the server's disk",
        _ => "",
    }
}

/// Classes an error of the `clickhouse` crate. `user` is named in refusals; passwords never are.
/// `status` is that of the answer, if it is known.
pub(crate) fn classify(
    error: clickhouse::error::Error,
    at: &Endpoint,
    user: &str,
    status: Option<u16>,
) -> ClientError {
    use clickhouse::error::Error;
    match error {
        Error::BadResponse(text) => answered(&text, at, user, status),
        Error::TimedOut => ClientError::Timeout { endpoint: at.clone(), waited: Duration::ZERO },
        Error::Network(cause) => unanswered(&*cause, at),
        Error::InvalidParams(cause) => {
            ClientError::Protocol { endpoint: at.clone(), cause: chain(&*cause) }
        }
        // What the others say may hold the answer's own words; see `answered`.
        _ => ClientError::Protocol { endpoint: at.clone(), cause: not_its_form(status) },
    }
}

fn answered(text: &str, at: &Endpoint, user: &str, status: Option<u16>) -> ClientError {
    let endpoint = at.clone();
    // Whatever answers may be anybody's server, and what it says nobody's business: only an
    // exception in ClickHouse's own form is repeated.
    let Some((code, text)) = exception(text) else {
        return ClientError::Protocol { endpoint, cause: not_its_form(status) };
    };
    let message: String = text.chars().take(SERVER_TEXT_CHARS_MAX).collect();
    let user = user.to_owned();
    match code {
        192 | 193 | 194 | 516 => ClientError::Authentication { endpoint, user, code },
        497 => ClientError::Privilege { endpoint, user, message },
        164 | 242 => ClientError::ReadOnly { endpoint, code, message },
        81 => ClientError::UnknownDatabase { endpoint, message },
        60 => ClientError::UnknownTable { endpoint, message },
        _ => ClientError::Server { endpoint, code, message },
    }
}

/// The exception `Code: 60. DB::Exception: ...` in a text: its number, and the text from there on.
/// Keeper's are `Coordination::Exception`, the network's `DB::NetException`.
fn exception(text: &str) -> Option<(u32, &str)> {
    let text = &text[text.find("Code: ")?..];
    let after = text.strip_prefix("Code: ")?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (digits, words) = after.split_at(end);
    // Without words it is what the answer's header says, which ClickHouse alone sends.
    (words.is_empty() || names_a_class(words)).then_some(())?;
    Some((digits.parse().ok()?, text))
}

/// Whether what follows the number is `. NAMESPACE::SomeException: ...`, as ClickHouse writes it.
fn names_a_class(words: &str) -> bool {
    let Some((namespace, rest)) = words.strip_prefix(". ").and_then(|it| it.split_once("::"))
    else {
        return false;
    };
    let class = rest.split(':').next().unwrap_or_default();
    let named = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    named(namespace) && named(class) && class.ends_with("Exception")
}

fn unanswered(error: &(dyn StdError + 'static), at: &Endpoint) -> ClientError {
    let endpoint = at.clone();
    let cause = chain(error);
    if find::<TooLong>(error) {
        return ClientError::Protocol { endpoint, cause };
    }
    if find::<LinkLocal>(error) {
        return ClientError::LinkLocal { endpoint };
    }
    if find::<rustls::Error>(error) {
        return ClientError::Tls { endpoint, cause };
    }
    // The resolver's error has no public type; hyper-util names it so in the chain.
    if cause.contains("dns error") {
        return ClientError::UnknownHost { endpoint, cause };
    }
    ClientError::Unreachable { endpoint, cause }
}

/// Whether an error of type `E` is in the chain; `std::io::Error` hides the one it wraps.
fn find<E: StdError + 'static>(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<E>() {
            return true;
        }
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref())
            && find::<E>(inner)
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// The error and its causes, outermost first, without repeats.
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "../../tests/unit/client/error.rs"]
mod tests;
