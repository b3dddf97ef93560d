//! ZooKeeper's four-letter words: one connection, four bytes, the answer as text until its end.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that takes longer is paused, or far too busy.
const TIMEOUT: Duration = Duration::from_secs(2);
/// `mntr` is 4 KiB, with summaries of everything 40 KiB; `cons` has a line for each of a thousand
/// clients, 200 bytes each.
const ANSWER_LIMIT_BYTES: u64 = 1 << 20;

/// What a server is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is the only one.
    Standalone,
    /// It leads.
    Leader,
    /// It follows.
    Follower,
    /// It is without quorum, and serves reads alone.
    ReadOnly,
}

/// Asks a server one of the four-letter words (`ruok`, `srvr`, `mntr`, `cons`...).
///
/// # Errors
/// No connection, no answer within 2 s, an answer that is no text or over 1 MiB.
pub fn four_letters(address: SocketAddr, word: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_LIMIT_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// What `mntr` says of a server, by name (`zk_server_state`, `zk_outstanding_requests`...).
///
/// # Errors
/// Those of [`four_letters`]; a server that serves nobody, which answers in words.
pub fn mntr(address: SocketAddr) -> io::Result<BTreeMap<String, String>> {
    let answer = four_letters(address, "mntr")?;
    let pair = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    let values: BTreeMap<_, _> = answer.lines().filter_map(pair).collect();
    if values.is_empty() {
        return Err(io::Error::other(answer.trim().to_owned()));
    }
    Ok(values)
}

/// What a server is now; it serves, if this succeeds.
///
/// # Errors
/// Those of [`four_letters`]; a server that serves nobody, for want of a quorum.
pub fn role(address: SocketAddr) -> io::Result<Role> {
    let answer = four_letters(address, "srvr")?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    match mode {
        Some("standalone") => Ok(Role::Standalone),
        Some("leader") => Ok(Role::Leader),
        Some("follower") => Ok(Role::Follower),
        Some("read-only") => Ok(Role::ReadOnly),
        _ => Err(io::Error::other(format!("it does not serve: {}", answer.trim()))),
    }
}
