//! Addresses and credentials of a ClickHouse server. They are checked on construction, so that no
//! later step meets a malformed address; a secret has no `Debug`, `Display` or `Serialize` that
//! shows it.

use std::fmt;
use std::str::FromStr;

use hyper_util::client::legacy::connect::dns::Name;

/// ClickHouse's own default HTTP ports.
const HTTP_PORT: u16 = 8123;
const HTTPS_PORT: u16 = 8443;

/// The longest host name in the DNS (RFC 1035, 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// `http://host:port` or `https://host:port` of one ClickHouse server's HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerEndpoint {
    https: bool,
    host: String,
    port: u16,
}

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a ClickHouse endpoint: {reason}; write http://host:8123 or https://host:8443"
)]
pub struct EndpointError {
    text: String,
    reason: &'static str,
}

impl ServerEndpoint {
    /// Returns whether the connection is encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Returns the host name or address, with brackets around IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for ServerEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| {
            // A message must not repeat a password typed into the address.
            let text = if text.contains('@') { "(an address with '@')" } else { text };
            EndpointError { text: text.to_owned(), reason }
        };
        let (https, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(refuse("it starts with neither http:// nor https://"));
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains('@') {
            return Err(refuse("it contains credentials"));
        }
        if authority.contains(['/', '?', '#']) {
            return Err(refuse("it has a path or a query"));
        }
        let (host, port) =
            split_port(authority).ok_or_else(|| refuse("its port is not a number"))?;
        if !is_host(host) {
            return Err(refuse("its host name is malformed"));
        }
        let port = port.unwrap_or(if https { HTTPS_PORT } else { HTTP_PORT });
        if port == 0 {
            return Err(refuse("its port is 0"));
        }
        Ok(Self { https, host: host.to_owned(), port })
    }
}

/// Splits `host[:port]`; `None` if the text after the colon is not a port.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let colon = match authority.rfind(']') {
        Some(bracket) => authority[bracket..].find(':').map(|at| bracket + at),
        None => authority.find(':'),
    };
    match colon {
        None => Some((authority, None)),
        Some(at) => {
            let digits = &authority[at + 1..];
            let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?;
            Some((&authority[..at], Some(number?)))
        }
    }
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !host.is_empty()
        && host.len() <= HOST_BYTES_MAX
        && host.bytes().all(letters)
        && host.parse::<Name>().is_ok()
}

impl fmt::Display for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// A password. Nothing shows it: `Debug` prints a placeholder.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password, without the one newline that files have at the end.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Self(text)
    }

    /// Returns the password, for the one header that carries it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The client's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserCredentials {
    /// A user with a password.
    Password {
        /// ClickHouse user name.
        user: String,
        /// Its password; empty for a user without one.
        password: Secret,
    },
    /// A user `IDENTIFIED WITH ssl_certificate`: the certificate is the TLS identity.
    Certificate {
        /// ClickHouse user name.
        user: String,
    },
    /// A bearer token (JWT), which names its user.
    Token(Secret),
}

impl UserCredentials {
    /// Returns the user's name as messages show it.
    pub(crate) fn user(&self) -> &str {
        match self {
            Self::Password { user, .. } | Self::Certificate { user } => user,
            Self::Token(_) => "(of the token)",
        }
    }

    /// Adds the credentials to a client.
    pub(crate) fn authenticate(&self, http: clickhouse::Client) -> clickhouse::Client {
        match self {
            Self::Password { user, password } => {
                http.with_user(user.as_str()).with_password(password.reveal())
            }
            Self::Certificate { user } => {
                http.with_user(user.as_str()).with_header(CERTIFICATE_HEADER, "on")
            }
            Self::Token(token) => http.with_access_token(token.reveal()),
        }
    }
}

/// Makes ClickHouse identify the user by the connection's certificate.
pub const CERTIFICATE_HEADER: &str = "x-clickhouse-ssl-certificate-auth";

impl Default for UserCredentials {
    fn default() -> Self {
        Self::Password { user: "default".to_owned(), password: Secret::new("") }
    }
}

#[cfg(test)]
mod tests;
