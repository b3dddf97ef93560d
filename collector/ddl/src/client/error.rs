//! Errors between the client and a ClickHouse server, classified by the remedy. The class comes
//! from the server's exception code or, without an answer, from the transport.

use std::error::Error as StdError;
use std::time::Duration;

use millrace_coordination::error_codes::{Class, ErrorCode};

use super::endpoint::ServerEndpoint;
use super::limits::{Refused, TooLong};

/// The maximum length of a server's exception text in our messages: the code, the reason and the
/// object are always at its start; a stack trace may follow.
const SERVER_TEXT_CHARS_MAX: usize = 500;

/// What to do about a refused certificate.
const TLS_ADVICE: &str = "check the CA certificate, the name in the server's certificate, and the \
                          client certificate if the server requires one";

/// Describes an answer that isn't ClickHouse's, such as a proxy's, by its status alone: a number
/// can't disclose anything private.
fn not_its_form(status: Option<u16>) -> String {
    let status = status.map_or_else(String::new, |status| format!(" (HTTP status {status})"));
    format!("its answer{status} is not in ClickHouse's format")
}

/// A failed request to ClickHouse: what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The host name does not resolve.
    #[error("no such host: {endpoint}: {cause}; check the endpoint's spelling and the DNS")]
    UnknownHost {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The resolver's text.
        cause: String,
    },
    /// No connection, or it broke.
    #[error(
        "cannot reach ClickHouse at {endpoint}: {cause}; check that it runs, and that no \
             firewall or NetworkPolicy blocks it"
    )]
    Unreachable {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The transport's text.
        cause: String,
    },
    /// The certificate was not accepted, or the client used TLS on a plain port.
    #[error("the TLS connection to {endpoint} failed: {cause}; {}", TLS_ADVICE)]
    Tls {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The TLS library's text.
        cause: String,
    },
    /// No answer in time. The statement may or may not have run.
    #[error(
        "ClickHouse at {endpoint} did not answer within {} s; check its load, then retry",
        waited.as_secs_f32()
    )]
    Timeout {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// How long the client waited.
        waited: Duration,
    },
    /// The server refused the user or password (codes 192, 193, 194, 516).
    #[error(
        "ClickHouse at {endpoint} refuses user {user:?} or its password (code {code}); check \
             the credentials"
    )]
    Authentication {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The client's user.
        user: String,
        /// Exception code.
        code: u32,
    },
    /// The user lacks a privilege (code 497).
    #[error("user {user:?} lacks a privilege on {endpoint}: {message}; grant it")]
    Privilege {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The client's user.
        user: String,
        /// The privilege, in the server's words.
        message: String,
    },
    /// The session or the table is read-only (codes 164, 242).
    #[error("{endpoint} accepts no writes (code {code}): {message}{}", read_only_advice(*code))]
    ReadOnly {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// Exception code: 164 the session, 242 the table.
        code: u32,
        /// The server's words.
        message: String,
    },
    /// The database does not exist (code 81).
    #[error("unknown database on {endpoint}: {message}; check its name, or create it")]
    UnknownDatabase {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The server's words.
        message: String,
    },
    /// The table does not exist (code 60).
    #[error("unknown table on {endpoint}: {message}; check its name, or create it")]
    UnknownTable {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The server's words.
        message: String,
    },
    /// Any other exception.
    #[error(
        "ClickHouse at {endpoint} answered with an error (code {code}): {message}{}",
        advice_of(*code, message)
    )]
    Server {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// Exception code.
        code: u32,
        /// The server's words.
        message: String,
    },
    /// The answer is not ClickHouse's: a proxy, another service, a truncated body.
    #[error(
        "the server at {endpoint} is not ClickHouse's HTTP interface: {cause}; check host and port"
    )]
    Protocol {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The anomaly.
        cause: String,
    },
    /// The address is local to this link or this machine, or the API server's: none of our servers
    /// is there.
    #[error("{endpoint} resolves to {kind}, to which Millrace does not connect; use another host")]
    LocalAddress {
        /// The endpoint.
        endpoint: ServerEndpoint,
        /// The kind of the address, with its article.
        kind: &'static str,
    },
    /// The client cannot be created from its options.
    #[error("cannot set up the ClickHouse client: {0}")]
    Setup(String),
}

/// The stable name of an error's class, which decides whether waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Network or server down: try again later.
    Unreachable,
    /// The name does not resolve: try again later, but a person should check.
    UnknownHost,
    /// TLS refused.
    Tls,
    /// No answer in time: try again, the statements are idempotent.
    Timeout,
    /// The user or password is invalid.
    Authentication,
    /// A grant is missing.
    Privilege,
    /// The session, replica or table is read-only.
    ReadOnly,
    /// The database is missing.
    UnknownDatabase,
    /// The table is missing.
    UnknownTable,
    /// The server is temporarily too busy or partly available: try again later.
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
    /// The client does not connect to such an address.
    LocalAddress,
    /// Our own settings are invalid.
    Setup,
}

impl Category {
    /// Returns the condition reason and metric label of this class.
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
            Self::LocalAddress => "ClickHouseLocalAddress",
            Self::Setup => "ClickHouseClientSetup",
        }
    }

    /// Returns whether the same statement may succeed later without any change.
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
    /// Returns the class of this error.
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
            Self::LocalAddress { .. } => Category::LocalAddress,
            Self::Setup(_) => Category::Setup,
        }
    }

    /// Returns whether another endpoint may answer where this one failed.
    pub(crate) fn is_endpoint_fault(&self) -> bool {
        matches!(
            self.category(),
            Category::Unreachable | Category::UnknownHost | Category::Tls | Category::Protocol
        )
    }
}

/// Returns whether a server is temporarily overloaded.
fn is_overload(code: u32) -> bool {
    matches!(ErrorCode::from_code(code).class, Class::RetrySame | Class::SlowDown)
}

/// Returns the advice for a refused write: code 164 is about the user, code 242 about the table.
fn read_only_advice(code: u32) -> &'static str {
    match code {
        164 => "; set readonly to 0 in the user's settings profile",
        242 => "; check the server's session with Keeper",
        _ => "",
    }
}

/// Returns the advice for exceptions that a person has to resolve.
fn advice_of(code: u32, message: &str) -> &'static str {
    match code {
        // A database with engine Replicated (`default` of some installations): what is refused
        // where it wasn't detected, or where the declaration names a path.
        36 if message.contains("zookeeper_path and replica_name") => {
            "; the database replicates itself: declare replication ServerDefault"
        }
        80 if message.contains("ON CLUSTER") => {
            "; the database replicates itself: remove the cluster from the declaration"
        }
        201 => "; wait for the quota's next interval, or raise it",
        225 | 999 => "; check Keeper's quorum",
        243 => "; free space on the server's disk",
        _ => "",
    }
}

/// Classifies an error of the `clickhouse` crate. Refusals name `user`; no message contains a
/// password. `status` is the answer's, if known.
pub(crate) fn classify_error(
    error: clickhouse::error::Error,
    at: &ServerEndpoint,
    user: &str,
    status: Option<u16>,
) -> ClientError {
    use clickhouse::error::Error;
    match error {
        Error::BadResponse(text) => classify_response(&text, at, user, status),
        Error::TimedOut => ClientError::Timeout { endpoint: at.clone(), waited: Duration::ZERO },
        Error::Network(cause) => classify_transport(&*cause, at),
        Error::InvalidParams(cause) => {
            ClientError::Protocol { endpoint: at.clone(), cause: error_chain(&*cause) }
        }
        // Other errors may contain the answer's own words; see `answered`.
        _ => ClientError::Protocol { endpoint: at.clone(), cause: not_its_form(status) },
    }
}

fn classify_response(
    text: &str,
    at: &ServerEndpoint,
    user: &str,
    status: Option<u16>,
) -> ClientError {
    let endpoint = at.clone();
    // Any server may have sent the answer, and its words may be private: only an exception in
    // ClickHouse's own form is repeated.
    let Some((code, text)) = parse_exception(text) else {
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

/// Finds the exception `Code: 60. DB::Exception: ...` in a text: returns its number, and the text
/// from there on. Keeper's are `Coordination::Exception`, the network's `DB::NetException`.
fn parse_exception(text: &str) -> Option<(u32, &str)> {
    let text = &text[text.find("Code: ")?..];
    let after = text.strip_prefix("Code: ")?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (digits, words) = after.split_at(end);
    // Without words the code comes from the answer's header, which only ClickHouse sends.
    (words.is_empty() || names_a_class(words)).then_some(())?;
    Some((digits.parse().ok()?, text))
}

/// Returns whether the number is followed by `. NAMESPACE::SomeException: ...`, as ClickHouse
/// writes it.
fn names_a_class(words: &str) -> bool {
    let Some((namespace, rest)) = words.strip_prefix(". ").and_then(|it| it.split_once("::"))
    else {
        return false;
    };
    let class = rest.split(':').next().unwrap_or_default();
    let named = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    named(namespace) && named(class) && class.ends_with("Exception")
}

fn classify_transport(error: &(dyn StdError + 'static), at: &ServerEndpoint) -> ClientError {
    let endpoint = at.clone();
    let cause = error_chain(error);
    if has_cause::<TooLong>(error).is_some() {
        return ClientError::Protocol { endpoint, cause };
    }
    if let Some(Refused(kind)) = has_cause(error) {
        return ClientError::LocalAddress { endpoint, kind };
    }
    if has_cause::<rustls::Error>(error).is_some() {
        return ClientError::Tls { endpoint, cause };
    }
    // The resolver's error has no public type; hyper-util uses this text in the chain.
    if cause.contains("dns error") {
        return ClientError::UnknownHost { endpoint, cause };
    }
    ClientError::Unreachable { endpoint, cause }
}

/// Describes why a server gave no answer; if TLS failed, with what to check.
#[must_use]
pub fn describe_transport_error(error: &(dyn StdError + 'static)) -> String {
    let cause = error_chain(error);
    match has_cause::<rustls::Error>(error) {
        Some(_) => format!("the TLS connection failed: {cause}; {TLS_ADVICE}"),
        None => cause,
    }
}

/// Returns the first error of type `E` in the chain; `std::io::Error` hides the one it wraps.
fn has_cause<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        if let Some(found) = inner.and_then(|inner| has_cause::<E>(inner)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Returns the error and its causes, outermost first, without repeats.
#[must_use]
pub fn error_chain(error: &(dyn StdError + 'static)) -> String {
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
mod tests;
