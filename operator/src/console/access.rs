//! Who may look: whoever has the token, or whoever reaches the port where only a few can.
//!
//! A token is read from its file at each request, so that a changed Secret counts at once, and
//! compared by digests in constant time. Without a token the address is a loopback one, or it was
//! said explicitly that others guard it.

use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

/// The shortest token: with 32 random characters nobody guesses it, however often they ask.
pub const TOKEN_BYTES_MIN: usize = 32;
/// The longest.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Who may look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever has the token in this file.
    Token(PathBuf),
    /// Whoever reaches the pod's loopback address: by `kubectl port-forward`.
    Loopback,
    /// Whoever reaches the port: what lets through, the API server's proxy, is outside.
    Guarded,
}

/// An access that can't be meant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AccessError {
    /// Anybody could look.
    #[error(
        "the console at {0} would be open to all: give --console-token-file, a loopback address, \
         or --console-guarded where a NetworkPolicy admits the API server alone"
    )]
    Open(SocketAddr),
    /// Two ways at once.
    #[error("--console-token-file and --console-guarded exclude each other: keep one")]
    Both,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// It has no token, or another one.
    Unknown,
    /// It names another host than the machine's own: a page elsewhere may have sent it.
    ForeignHost,
    /// The token can't be read.
    NoToken(String),
}

impl Access {
    /// What the command line asks for.
    ///
    /// # Errors
    /// When anybody could look.
    pub fn of(
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

    /// Whether a request may be answered.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<(), Denied> {
        match self {
            Self::Guarded => Ok(()),
            Self::Loopback if is_of_this_machine(headers) => Ok(()),
            Self::Loopback => Err(Denied::ForeignHost),
            Self::Token(file) => {
                let token = read(file).await.map_err(Denied::NoToken)?;
                let given = given(headers).unwrap_or_default();
                if is_same(&given, &token) { Ok(()) } else { Err(Denied::Unknown) }
            }
        }
    }
}

/// The token in the file, without the white space around it.
async fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(TOKEN_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    file.take(most).read_to_end(&mut bytes).await.map_err(failed)?;
    let token = bytes.trim_ascii();
    match token.len() {
        TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX => Ok(token.to_vec()),
        length => Err(format!(
            "{}: the token has {length} bytes: use {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}",
            path.display()
        )),
    }
}

/// The token that a request has: as a bearer's, or as the password of any user, which a browser
/// asks for.
fn given(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().as_bytes().to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()))?.ok()?;
    let at = pair.iter().position(|byte| *byte == b':')?;
    pair.get(at + 1..).map(<[u8]>::to_vec)
}

/// Compares digests, each byte of them: the time says nothing about the token.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let (given, token) = (Sha256::digest(given), Sha256::digest(token));
    given.iter().zip(token.iter()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Whether the host asked for is this machine: a name that somebody else's DNS points at loopback
/// isn't.
fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
#[path = "../../tests/unit/console/access.rs"]
mod tests;
