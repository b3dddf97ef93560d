//! The least HTTP a test needs: one request on one connection, answer read whole, with a timeout.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// A test server on this machine answers in less, or is broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer: status, head, body.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers as sent.
    pub head: String,
    /// The body, chunked framing undone.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

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
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    // A server may answer and close before the body is whole; its answer is what counts.
    let _ = stream.write_all(body);
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).with_context(|| format!("no answer from {address}{path}"))?;
    parse(&raw)
}

fn parse(raw: &[u8]) -> Result<Answer> {
    let end =
        raw.windows(4).position(|window| window == b"\r\n\r\n").context("no end of headers")?;
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    let rest = &raw[end + 4..];
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(rest)? } else { rest.to_vec() };
    Ok(Answer { status, head, body })
}

fn unchunk(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").context("no chunk size")?;
        let size = std::str::from_utf8(&rest[..end])?;
        let size = usize::from_str_radix(size.trim(), 16).context("a chunk size is no number")?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(rest.get(..size).context("a chunk is cut")?);
        rest = rest.get(size + 2..).context("a chunk has no end")?;
    }
}
