//! One request to a server a test started, within a time limit a healthy one never needs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
pub use millrace_stack::http::Answer;
use millrace_stack::http::ask;

/// A test server on this machine answers in less, or is broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// GET a path.
///
/// # Errors
/// When the server can't be reached or its answer is no HTTP.
pub fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    send(address, "GET", path, &[], &[])
}

/// Send one request.
///
/// # Errors
/// When the server can't be reached or its answer is no HTTP.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer> {
    ask(address, method, path, headers, body, TIMEOUT)
        .with_context(|| format!("no answer from {address}{path}"))
}
