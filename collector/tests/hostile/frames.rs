//! HTTP/2 by hand: frames and header blocks that no client library would send.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

/// The largest frame that every server takes.
pub(crate) const FRAME_BYTES: usize = 16 * 1024;

/// How long a write may wait for a server that doesn't read.
const WRITE_TIME: Duration = Duration::from_secs(1);

/// A connection on which HTTP/2 was begun, with the server's settings acknowledged unseen.
pub(crate) fn connect(address: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_write_timeout(Some(WRITE_TIME)).ok()?;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let begin = [preface, frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    stream.write_all(&begin).ok()?;
    Some(stream)
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The ids a client gives its streams: 1, 3, 5...
pub(crate) fn ids(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// The beginning of a gRPC call's header block: all that makes it a call, and nothing indexed.
pub(crate) fn call() -> Vec<u8> {
    let path = b"/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    // POST and http from the static table, then `:path` and `content-type` as literals.
    let mut block = vec![0x83, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path);
    block.extend_from_slice(&[0x0f, 0x10, 16]);
    block.extend_from_slice(b"application/grpc");
    block
}

/// A header that goes into the table: the newest entry has the index 62, written 0xbe.
pub(crate) fn indexed(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0x40, name.len() as u8], name, &[value.len() as u8], value].concat()
}

/// The newest entry of the table, so many times.
pub(crate) fn repeated(times: usize) -> Vec<u8> {
    vec![0xbe; times]
}

/// A header that stays out of the table, with a value of up to 16,000 bytes.
pub(crate) fn literal(name: &[u8], length: usize) -> Vec<u8> {
    let mut block = vec![0x00, name.len() as u8];
    block.extend_from_slice(name);
    // A length with a prefix of seven bits.
    assert!((127..16_000).contains(&length));
    let rest = length - 127;
    block.extend_from_slice(&[0x7f, (rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8]);
    block.resize(block.len() + length, b'v');
    block
}

/// The beginning of a literal header whose value is said to have 2 MiB.
pub(crate) fn open_literal() -> Vec<u8> {
    vec![0x00, 1, b'l', 0x7f, 0x81, 0xff, 0x7f]
}
