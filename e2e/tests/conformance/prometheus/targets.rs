//! A stand-in for targets on loopback. It counts the scrapes of each client by itself, and notes
//! when they came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::answers::{Answer, Target};

/// Who scrapes: a parameter of the request, `by`, says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Ours,
    Theirs,
}

impl Client {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }
}

/// No request's head takes longer to come, and no client stays longer once it has its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// When scrapes came, in milliseconds since 1970, by client.
type Came = Arc<Mutex<[Vec<i64>; 2]>>;

/// The running stand-in. Its threads end with it.
pub(crate) struct Targets {
    epoch_millis: u64,
    served: Vec<(Target, SocketAddr, Came)>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Targets {
    /// Starts all targets. Their own times begin at `epoch_millis`.
    pub(crate) fn start(epoch_millis: u64) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let mut targets = Self { epoch_millis, served: Vec::new(), ends, threads: Vec::new() };
        for target in Target::ALL {
            let listener = TcpListener::bind("127.0.0.1:0").context("no port for a target")?;
            let (came, ends) = (Came::default(), Arc::clone(&targets.ends));
            targets.served.push((target, listener.local_addr()?, Arc::clone(&came)));
            targets.threads.push(thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let came = Arc::clone(&came);
                    // Ends with its connection, which a client closes in time.
                    thread::spawn(move || serve(stream, target, epoch_millis, &came));
                }
            }));
        }
        Ok(targets)
    }

    /// Where a target is.
    pub(crate) fn address(&self, target: Target) -> Result<SocketAddr> {
        let served = self.served.iter().find(|(served, ..)| *served == target);
        served.map(|(_, address, _)| *address).context("no such target")
    }

    /// When a client's scrapes of a target came.
    pub(crate) fn came(&self, target: Target, client: Client) -> Vec<i64> {
        let served = self.served.iter().filter(|(served, ..)| *served == target);
        let came = served.map(|(.., came)| {
            came.lock().unwrap_or_else(PoisonError::into_inner)[client as usize].clone()
        });
        came.flatten().collect()
    }

    /// What the n-th scrape of a target was answered.
    pub(crate) fn answer(&self, target: Target, n: u64) -> Answer {
        target.answer(n, self.epoch_millis)
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for (_, address, _) in &self.served {
            // Wakes its thread.
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn serve(mut stream: TcpStream, target: Target, epoch_millis: u64, came: &Came) -> io::Result<()> {
    let at_millis = now_millis();
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let client = match head.lines().next() {
        Some(line) if line.contains("by=ours") => Client::Ours,
        Some(line) if line.contains("by=theirs") => Client::Theirs,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, head)),
    };
    let n = {
        let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
        came[client as usize].push(at_millis);
        came[client as usize].len() as u64 - 1
    };
    match target.answer(n, epoch_millis) {
        Answer::Body(kind, body) | Answer::Faulty(kind, body) => {
            put(&mut stream, "200 OK", kind, (&body, body.len()))
        }
        Answer::Refused => put(&mut stream, "500 Internal Server Error", "text/plain", (b"", 0)),
        Answer::Cut(kind, body) => {
            put(&mut stream, "200 OK", kind, (&body[..body.len() / 2], body.len()))
        }
        // The client closes first.
        Answer::Silent => stream.read(&mut [0]).map(drop),
        Answer::Closed => Ok(()),
    }
}

fn put(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    (body, length): (&[u8], usize),
) -> io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)
}

/// The head of a request.
pub(crate) fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 65_536 {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
