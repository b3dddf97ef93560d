//! Who may read the console: clients with the token, or all clients of a restricted port.
//!
//! [`token`] checks tokens. Without one, the address is a loopback one, or the command line states
//! that access is guarded by other means.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::HeaderMap;
use http::header::HOST;

use crate::telemetry::token;

/// Who may read the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Clients with the token in this file.
    Token(PathBuf),
    /// Clients that connect to the pod's loopback address, by `kubectl port-forward`.
    Loopback,
    /// All clients that reach the port: the API server's proxy restricts access outside this
    /// process.
    Guarded,
}

/// An unsafe or contradictory choice of access.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AccessError {
    /// Anybody could read the console.
    #[error(
        "the console at {0} would be open to all: give --console-token-file, a loopback address, \
         or --console-guarded where a NetworkPolicy admits the API server alone"
    )]
    Open(SocketAddr),
    /// Two modes were chosen at once.
    #[error("--console-token-file and --console-guarded exclude each other: keep one")]
    Both,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The request has no token or an invalid one.
    Unknown,
    /// The request names a host other than this machine: a page elsewhere may have sent it.
    ForeignHost,
    /// The token can't be read.
    NoToken(String),
}

impl Access {
    /// Returns the access that the command line selects.
    ///
    /// # Errors
    /// When anybody could read the console, or two modes are selected.
    pub fn from_args(
        address: SocketAddr,
        token: Option<PathBuf>,
        guarded: bool,
    ) -> Result<Self, AccessError> {
        match (token, guarded) {
            (Some(_), true) => Err(AccessError::Both),
            (Some(file), false) => Ok(Self::Token(file)),
            (None, true) => Ok(Self::Guarded),
            (None, false) if address.ip().is_loopback() => Ok(Self::Loopback),
            (None, false) => Err(AccessError::Open(address)),
        }
    }

    pub(super) async fn admit_request(&self, headers: &HeaderMap) -> Result<(), Denied> {
        match self {
            Self::Guarded => Ok(()),
            Self::Loopback if is_of_this_machine(headers) => Ok(()),
            Self::Loopback => Err(Denied::ForeignHost),
            Self::Token(file) => match token::admits(file, headers).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Denied::Unknown),
                Err(why) => Err(Denied::NoToken(why)),
            },
        }
    }
}

/// Returns whether the requested host is this machine. A name that another party's DNS resolves to
/// loopback is not.
fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests;
