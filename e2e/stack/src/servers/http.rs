//! One HTTP/1.1 request to a local server, and its answer: for probes and tests, nothing more.
//!
//! No pool, no redirects, no TLS. Answers are read whole, under a cap; one that is cut is an error.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer larger than this is not one a test should hold in memory.
const ANSWER_LIMIT_BYTES: u64 = 256 << 20;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body, still encoded if it was.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of a name (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, without the line breaks at its end. Tabs stay: they may be empty columns.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end_matches(['\r', '\n']).to_owned()
    }
}

/// Sends one request on a connection of its own and reads the answer.
///
/// # Errors
/// The server can't be reached, doesn't answer within `timeout`, or breaks off its answer.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
) -> io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));

    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(head.as_bytes())?;
    // A server may refuse and close before it has read the body; what it answered is what counts.
    let sent = stream.write_all(body);

    let mut bytes = Vec::new();
    let read = stream.take(ANSWER_LIMIT_BYTES).read_to_end(&mut bytes);
    if let Some(answer) = parse(&bytes) {
        return Ok(answer);
    }
    sent?;
    read?;
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{address} broke off its answer")))
}

/// Cuts an answer into its parts; `None` when it is not whole.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: Vec::new() };
    let rest = &bytes[end + 4..];
    let coding = answer.header("transfer-encoding").unwrap_or_default();
    answer.body = if coding.eq_ignore_ascii_case("chunked") {
        unchunk(rest)?
    } else {
        let length = answer.header("content-length")?.parse::<usize>().ok()?;
        (rest.len() == length).then(|| rest.to_vec())?
    };
    Some(answer)
}

/// Joins the chunks of a body; `None` when the last one hasn't come.
fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection cut in the middle of an answer must not pass for a short answer.
    #[test]
    fn a_broken_off_answer_is_no_answer() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nOk.\n";
        assert_eq!(parse(whole).unwrap().text(), "Ok.");
        assert_eq!(parse(&whole[..whole.len() - 1]), None);
        assert_eq!(parse(&whole[..20]), None);
    }

    /// Servers that don't know the length beforehand send chunks; a missing last one is a cut.
    #[test]
    fn chunks_are_joined_and_a_missing_last_one_is_noticed() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n\
            2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(whole).unwrap().body, b"abcde");
        assert_eq!(parse(&whole[..whole.len() - 5]), None);
    }

    /// Header names differ in case from server to server.
    #[test]
    fn headers_are_found_in_any_case() {
        let answer =
            parse(b"HTTP/1.1 404 Not Found\r\nX-Code: 60\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.header("x-code")), (404, Some("60")));
    }
}
