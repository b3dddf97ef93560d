//! Asks a broker over its own protocol whether it serves, with two of Kafka's smallest requests.
//!
//! No client library: a probe must not retry, cache or start threads. Answers are read under a cap.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A broker that takes longer is not ready.
const TIMEOUT: Duration = Duration::from_secs(2);
/// ApiVersions of Kafka 4.1 takes under 1 KiB, Metadata of no topics under 200 B.
const ANSWER_LIMIT_BYTES: usize = 64 * 1024;

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const CORRELATION_ID: i32 = 7;

/// Whether the listener at `address` answers Kafka's ApiVersions, which needs no login.
///
/// # Errors
/// No connection, no answer within 2 s, or an answer that is not Kafka's.
pub fn answers(address: SocketAddr) -> io::Result<()> {
    let answer = ask(address, API_VERSIONS, 0, &[])?;
    match number::<2>(&answer, 0).map(i16::from_be_bytes)? {
        0 => Ok(()),
        code => Err(io::Error::other(format!("ApiVersions was answered with error {code}"))),
    }
}

/// Whether the broker at `address`, a listener without login, lists a broker that clients can use:
/// one that is starting does not list itself yet.
///
/// # Errors
/// As for [`answers`], or no broker listed.
pub fn serves(address: SocketAddr) -> io::Result<()> {
    // Metadata version 1, with an empty list of topics: brokers only.
    let answer = ask(address, METADATA, 1, &0_i32.to_be_bytes())?;
    match number::<4>(&answer, 0).map(i32::from_be_bytes)? {
        1.. => Ok(()),
        _ => Err(io::Error::other("the broker lists no broker yet")),
    }
}

/// Sends one request with header version 1 and returns the answer behind its correlation id.
fn ask(address: SocketAddr, api: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::with_capacity(14 + body.len());
    request.extend_from_slice(&api.to_be_bytes());
    request.extend_from_slice(&version.to_be_bytes());
    request.extend_from_slice(&CORRELATION_ID.to_be_bytes());
    request.extend_from_slice(&(-1_i16).to_be_bytes()); // no client id
    request.extend_from_slice(body);
    let length = (request.len() as u32).to_be_bytes();

    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&[&length[..], &request[..]].concat())?;

    let mut head = [0_u8; 8];
    stream.read_exact(&mut head)?;
    let length = number::<4>(&head, 0).map(u32::from_be_bytes)? as usize;
    if !(4..=ANSWER_LIMIT_BYTES).contains(&length) {
        return Err(io::Error::other(format!("{address} does not speak Kafka's protocol")));
    }
    if number::<4>(&head, 4).map(i32::from_be_bytes)? != CORRELATION_ID {
        return Err(io::Error::other(format!("{address} answered another request")));
    }
    let mut answer = vec![0; length - 4];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// `N` bytes at `offset`, or an error when the answer is shorter.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> io::Result<[u8; N]> {
    bytes
        .get(offset..offset + N)
        .and_then(|slice| slice.try_into().ok())
        .ok_or_else(|| io::Error::other("the broker's answer is too short"))
}
