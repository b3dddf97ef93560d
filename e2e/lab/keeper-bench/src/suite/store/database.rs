//! Questions to ClickHouse by HTTP. Their text is in `sql`; here is none.
//!
//! Limits: no TLS; an answer is held whole.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use millrace_stack::http;
use serde_json::Value;

/// A question reads some thousand rows; a server that measures on the same machine is slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("{0} is no address of ClickHouse: write http://HOST:PORT (TLS is not supported)")]
    Address(String),
    #[error("cannot ask ClickHouse at {url}: {cause}")]
    Ask { url: String, cause: io::Error },
    #[error("ClickHouse at {url} answered with status {status}: {text}")]
    Refused { url: String, status: u16, text: String },
    #[error("ClickHouse at {url} answered with a row that is no JSON: {cause}")]
    Row { url: String, cause: serde_json::Error },
}

/// A user and the password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A database of a ClickHouse server.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    address: SocketAddr,
    name: String,
    login: Option<Login>,
}

impl Database {
    pub(crate) fn new(url: &str, name: &str, login: Option<Login>) -> Result<Self, DatabaseError> {
        let refused = || DatabaseError::Address(url.to_owned());
        let host = url.strip_prefix("http://").ok_or_else(refused)?.trim_end_matches('/');
        let mut found = host.to_socket_addrs().map_err(|_| refused())?;
        let address = found.next().ok_or_else(refused)?;
        Ok(Self { url: url.to_owned(), address, name: name.to_owned(), login })
    }

    pub(crate) fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// The rows of an answer in JSON, one a line.
    pub(crate) fn rows(
        &self,
        sql: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<Value>, DatabaseError> {
        let mut path = format!("/?database={}", encoded(&self.name));
        for (name, value) in parameters {
            path += &format!("&param_{name}={}", encoded(value));
        }
        let headers: Vec<(&str, &str)> = match &self.login {
            None => Vec::new(),
            Some(login) => {
                vec![("X-ClickHouse-User", &login.user), ("X-ClickHouse-Key", &login.password)]
            }
        };
        let url = || self.url.clone();
        let answer = http::ask(self.address, "POST", &path, &headers, sql.as_bytes(), TIMEOUT)
            .map_err(|cause| DatabaseError::Ask { url: url(), cause })?;
        let text = answer.text();
        if answer.status != 200 {
            return Err(DatabaseError::Refused { url: url(), status: answer.status, text });
        }
        let rows: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        rows.map_err(|cause| DatabaseError::Row { url: url(), cause })
    }
}

/// A value in a URL's query.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a cell's name; addresses that are none. Guarantee: nothing in it ends the value;
    /// what to write instead is said.
    #[test]
    fn values_and_addresses_are_checked() {
        assert_eq!(encoded("3.9 x1, 1 cpu / a&b"), "3.9%20x1%2C%201%20cpu%20%2F%20a%26b");
        assert_eq!(
            Database::new("http://127.0.0.1:1/", "d", None).unwrap().url(),
            "http://127.0.0.1:1"
        );
        for wrong in ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1"] {
            let refused = Database::new(wrong, "d", None).unwrap_err().to_string();
            assert!(refused.contains("write http://HOST:PORT"), "{refused}");
        }
    }
}
