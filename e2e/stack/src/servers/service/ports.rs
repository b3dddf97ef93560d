//! Ports for servers of tests, which choose theirs before they listen.
//!
//! Tests run as processes side by side, and each starts servers that take a moment to bind. A port
//! is therefore reserved with a locked file until the process that chose it ends: nobody else
//! chooses it in between.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::{Result, ServiceError, random};

/// Ports tried before giving up; any busy machine has a free one among so many.
const ATTEMPTS: u16 = 200;
/// Where free ports are looked for: below Linux' range for outgoing connections (32768 and up), so
/// that a stopped server finds its port free when it starts again.
const RANGE: std::ops::Range<u16> = 20_000..31_000;

/// The locked files of this process's ports.
static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on `host` that nothing listens on, and that no other call gives while this process runs.
///
/// # Errors
/// When none was found free in 200 tries.
pub fn free_port(host: IpAddr) -> Result<u16> {
    let span = RANGE.end - RANGE.start;
    let first = (random() % u64::from(span)) as u16;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 0..ATTEMPTS {
        let port = RANGE.start + (first + step) % span;
        match reserve(port).and_then(|file| TcpListener::bind((host, port)).map(|_| file)) {
            Ok(file) => {
                RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(file);
                return Ok(port);
            }
            Err(error) => last = error,
        }
    }
    Err(ServiceError::Io { action: format!("find a free port on {host}"), source: last })
}

fn reserve(port: u16) -> io::Result<File> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(port.to_string()))?;
    file.try_lock()?;
    Ok(file)
}

fn folder() -> PathBuf {
    std::env::temp_dir().join("millrace-ports")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::{free_port, reserve};

    /// Scenario: a port is chosen, and nothing listens on it yet. Guarantee: nobody else gets it.
    #[test]
    fn a_chosen_port_is_not_chosen_again() {
        let port = free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(reserve(port).is_err());
    }
}
