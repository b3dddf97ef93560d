//! One HTTP/1.1 request as the sink needs it: its target, the first bytes of its body and of each
//! frame in it, and how many there were. Bodies are counted and dropped.

use std::io::{BufRead, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;

use super::block;
use super::frames::Frames;

/// A request's line and headers: an insert's URL names its columns, some 2 KiB encoded.
const HEADERS_MAX_BYTES: usize = 64 << 10;
/// What is kept of a body: a frame's head and a block's, or a whole question.
const HEAD_MAX_BYTES: usize = 4096;

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `GET /ping`.
    Ping,
    /// Rows.
    Insert,
    /// A query in the body or the URL.
    Question(String),
}

/// A request that has been read to its end.
#[derive(Debug, Default)]
pub(super) struct Request {
    target: String,
    /// The first bytes of the body.
    pub(super) head: Vec<u8>,
    frames: Frames,
    /// All bytes of the body.
    pub(super) body_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunks,
}

impl Request {
    /// Reads the next request; `None` when the client has no more. `out` is for `100 Continue`.
    pub(super) fn read(input: &mut impl BufRead, out: &mut TcpStream) -> Result<Option<Self>> {
        let Some(line) = header_line(input)? else { return Ok(None) };
        let target = line.split(' ').nth(1).ok_or_else(|| bad("no target"))?.to_owned();
        let mut request = Self { target, ..Self::default() };
        let mut framing = Framing::Length(0);
        let mut total = line.len();
        loop {
            let line = header_line(input)?.ok_or_else(|| bad("the headers are cut"))?;
            if line.is_empty() {
                break;
            }
            total += line.len();
            if total > HEADERS_MAX_BYTES {
                return Err(bad("the headers are too long"));
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad("no header"))?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.parse().map_err(|_| bad("no length"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunks;
            } else if name.eq_ignore_ascii_case("expect") {
                out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
        }
        match framing {
            Framing::Length(bytes) => request.take(input, bytes)?,
            Framing::Chunks => request.take_chunks(input)?,
        }
        Ok(Some(request))
    }

    fn take_chunks(&mut self, input: &mut impl BufRead) -> Result<()> {
        loop {
            let line = header_line(input)?.ok_or_else(|| bad("the chunks are cut"))?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| bad("no chunk size"))?;
            self.take(input, size)?;
            // The line end of a chunk, or the empty line after the last one.
            header_line(input)?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn take(&mut self, input: &mut impl BufRead, mut bytes: u64) -> Result<()> {
        self.body_bytes += bytes;
        let is_framed = self.is_framed();
        while bytes > 0 {
            let buffer = input.fill_buf()?;
            if buffer.is_empty() {
                return Err(bad("the body is cut"));
            }
            let part = buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            let kept = part.min(HEAD_MAX_BYTES - self.head.len());
            self.head.extend_from_slice(&buffer[..kept]);
            if is_framed {
                self.frames.feed(&buffer[..part]);
            }
            input.consume(part);
            bytes -= part as u64;
        }
        Ok(())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// Rows of an insert's blocks; `None` when its body is none.
    pub(super) fn rows(&self) -> Option<u64> {
        if self.is_framed() {
            block::rows_of_frames(self.frames.heads())
        } else {
            block::rows_of_plain(&self.head)
        }
    }

    /// Whether the body is in ClickHouse's own compressed frames.
    fn is_framed(&self) -> bool {
        self.parameter("decompress") == Some("1")
    }

    /// Whether the answer must be in such frames.
    pub(super) fn wants_frames(&self) -> bool {
        self.parameter("compress") == Some("1")
    }

    /// What it is.
    pub(super) fn kind(&self) -> Kind {
        if self.target.starts_with("/ping") {
            return Kind::Ping;
        }
        let query = self.parameter("query").map(decoded);
        let is_insert = |query: &String| {
            query.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"))
        };
        match query {
            Some(query) if is_insert(&query) => Kind::Insert,
            Some(query) => Kind::Question(query),
            None => Kind::Question(String::from_utf8_lossy(&self.head).into_owned()),
        }
    }

    /// The request in a few words, for a refusal.
    pub(super) fn describe(&self) -> String {
        match self.kind() {
            Kind::Question(text) => text.chars().take(200).collect(),
            Kind::Ping | Kind::Insert => self.target.chars().take(200).collect(),
        }
    }
}

/// A line without its end; `None` at the end of the stream.
fn header_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(HEADERS_MAX_BYTES as u64).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| bad("a header is not text"))
}

fn bad(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Undoes percent-encoding, `+` for a space included.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = |byte: u8| char::from(byte).to_digit(16);
        match (byte, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = &after[2..];
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Kind, Request, decoded};

    /// Scenario: an insert in the URL, in small letters and encoded. Guarantee: known as one.
    #[test]
    fn inserts_are_known_by_their_first_word() {
        let request = |target: &str| Request { target: target.to_owned(), ..Request::default() };
        assert_eq!(request("/?decompress=1&query=%0A%20inSERT%20INTO").kind(), Kind::Insert);
        assert!(request("/?decompress=1&query=x").is_framed());
        assert_eq!(request("/?query=SELECT+1").kind(), Kind::Question("SELECT 1".to_owned()));
        assert_eq!(decoded("a%2Bb%zz%4"), "a+b%zz%4");
    }
}
