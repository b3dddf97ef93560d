//! What stands in for targets, and for a server that remote writes go to.
//!
//! Bodies are made and compressed before a run, so an answer costs a write to a socket. All targets
//! have one port and an address of loopback's network each; every request of a target gets the
//! next body. It lives in the harness, so its work doesn't count for collectors.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::parse;

/// A request's head: Prometheus' have 400 bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Where remote writes go.
const SINK_PATH: &str = "/api/v1/write";
/// Targets of a network of loopback.
const NETWORK: u64 = 250;

/// A body, made before it is asked for.
#[derive(Debug)]
pub(super) struct Body {
    plain: Vec<u8>,
    packed: Vec<u8>,
    /// What it becomes, by our own conversion.
    points: u64,
}

impl Body {
    /// Compresses a text as exporters do: for speed.
    pub(super) fn new(text: String) -> Result<Self> {
        let points = parse::points(&text)?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(text.as_bytes())?;
        let packed = packer.finish()?;
        Ok(Self { plain: text.into_bytes(), packed, points })
    }

    /// Bytes of its text.
    pub(super) fn bytes(&self) -> usize {
        self.plain.len()
    }
}

/// A target's requests.
#[derive(Debug, Default)]
struct Asked {
    /// All of them: which body is next.
    count: usize,
    /// Microseconds from the beginning to each that isn't forgotten.
    times: Vec<u64>,
}

struct Shared {
    began: Instant,
    /// One body after another, the first again after the last.
    bodies: Mutex<Arc<[Body]>>,
    targets: Vec<Mutex<Asked>>,
    /// Points of answers that were written whole.
    answered: AtomicU64,
    is_silent: AtomicBool,
    sunk_bytes: AtomicU64,
    is_over: AtomicBool,
}

/// Running targets. Dropping it ends them.
pub(super) struct StandIn {
    port: u16,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl StandIn {
    /// Starts `count` targets on a free port.
    pub(super) fn start(count: usize, bodies: Arc<[Body]>) -> Result<Self> {
        ensure!(count as u64 <= NETWORK * NETWORK && !bodies.is_empty(), "too many targets");
        let shared = Arc::new(Shared {
            began: Instant::now(),
            bodies: Mutex::new(bodies),
            targets: (0..count).map(|_| Mutex::default()).collect(),
            answered: AtomicU64::new(0),
            is_silent: AtomicBool::new(false),
            sunk_bytes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Of all addresses: loopback's network has millions. Others are turned away.
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let port = listener.local_addr()?.port();
        let (end, ended) = oneshot::channel::<()>();
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stand-in".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, &serving) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { port, shared, end: Some(end), thread: Some(thread) })
    }

    /// Each target's `host:port`.
    pub(super) fn targets(&self) -> Vec<String> {
        let host = |number: u64| {
            Ipv4Addr::new(127, 1, (number / NETWORK) as u8, (number % NETWORK) as u8 + 1)
        };
        (0..self.shared.targets.len() as u64)
            .map(|it| format!("{}:{}", host(it), self.port))
            .collect()
    }

    /// Where remote writes are taken.
    pub(super) fn sink(&self) -> String {
        format!("http://127.0.0.1:{}{SINK_PATH}", self.port)
    }

    /// What targets answer from now on.
    pub(super) fn serve(&self, bodies: Arc<[Body]>) {
        *locked(&self.shared.bodies) = bodies;
    }

    /// Forgets when targets were asked.
    pub(super) fn forget(&self) {
        self.shared.targets.iter().for_each(|it| locked(it).times.clear());
    }

    /// When each target was asked, in microseconds from the start.
    pub(super) fn times(&self) -> Vec<Vec<u64>> {
        self.shared.targets.iter().map(|it| locked(it).times.clone()).collect()
    }

    /// The least number of requests of any target.
    pub(super) fn least(&self) -> usize {
        self.shared.targets.iter().map(|it| locked(it).times.len()).min().unwrap_or_default()
    }

    /// Answers nobody any more: whoever asks waits.
    pub(super) fn fall_silent(&self) {
        self.shared.is_silent.store(true, Ordering::Release);
    }

    /// Points of the answers that were written whole.
    pub(super) fn answered_points(&self) -> u64 {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// Bytes of remote writes.
    pub(super) fn sunk_bytes(&self) -> u64 {
        self.shared.sunk_bytes.load(Ordering::Acquire)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, peer)) = listener.accept().await {
        if peer.ip().is_loopback() && !shared.is_over.load(Ordering::Acquire) {
            let shared = Arc::clone(shared);
            // A client that goes away or talks nonsense ends its own connection, nothing else.
            tokio::spawn(async move { serve(stream, &shared).await.ok() });
        }
    }
}

/// What is read of a request's head.
struct Head {
    is_write: bool,
    takes_gzip: bool,
    length: usize,
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    let target = number(stream.local_addr()?);
    let mut input = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut input).await? {
        if head.is_write {
            sink(&mut stream, &mut input, head.length).await?;
            shared.sunk_bytes.fetch_add(head.length as u64, Ordering::AcqRel);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
            continue;
        }
        if shared.is_silent.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        let now = u64::try_from(shared.began.elapsed().as_micros())?;
        let target = target.context("no target of ours")?;
        let turn = target + note(shared.targets.get(target).context("no such target")?, now);
        let bodies = Arc::clone(&locked(&shared.bodies));
        let body = bodies.get(turn % bodies.len()).context("no body")?;
        let (bytes, packed) = match head.takes_gzip {
            true => (&body.packed, "Content-Encoding: gzip\r\n"),
            false => (&body.plain, ""),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             {packed}Content-Length: {}\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(bytes).await?;
        shared.answered.fetch_add(body.points, Ordering::AcqRel);
    }
    Ok(())
}

/// Notes a request of a target. How many there were before.
fn note(target: &Mutex<Asked>, now: u64) -> usize {
    let mut asked = locked(target);
    asked.times.push(now);
    asked.count += 1;
    asked.count - 1
}

/// Which target an address of loopback's network is.
fn number(address: SocketAddr) -> Option<usize> {
    match address {
        SocketAddr::V4(address) => match address.ip().octets() {
            [127, 1, network, host @ 1..=u8::MAX] => {
                Some(usize::from(network) * NETWORK as usize + usize::from(host) - 1)
            }
            _ => None,
        },
        SocketAddr::V6(_) => None,
    }
}

/// Reads a request's head; `input` keeps what came behind it. `None` when the client has no more.
async fn read_head(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<Option<Head>> {
    let end = loop {
        if let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") {
            break end;
        }
        ensure!(input.len() <= HEAD_BYTES_MAX, "a head of over {HEAD_BYTES_MAX} bytes");
        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
    let value = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(it, _)| *it == name).map(|(_, value)| value.trim())
    };
    let head = Head {
        is_write: text.starts_with("post "),
        takes_gzip: value("accept-encoding").is_some_and(|it| it.contains("gzip")),
        length: value("content-length").map_or(Ok(0), str::parse)?,
    };
    input.drain(..end + 4);
    Ok(Some(head))
}

/// Reads a body to its end, and forgets it.
async fn sink(stream: &mut TcpStream, input: &mut Vec<u8>, length: usize) -> Result<()> {
    let mut left = length;
    loop {
        let taken = left.min(input.len());
        input.drain(..taken);
        left -= taken;
        if left == 0 {
            return Ok(());
        }
        ensure!(stream.read_buf(input).await? > 0, "a body that is cut off");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::sync::Arc;

    use super::{Body, StandIn};

    fn exchange(address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Scenario: two requests on a connection, one that takes gzip, a remote write. Guarantee: body
    /// after body, compressed where it may be; each target's requests and the write are noted.
    #[test]
    fn targets_answer_one_body_after_another() {
        let bodies = ["a 1\n", "a 2\n"].map(|text| Body::new(text.to_owned()).unwrap());
        let server = StandIn::start(300, Arc::new(bodies)).unwrap();
        let targets = server.targets();
        let last = targets.last().unwrap();
        let get = "GET /metrics HTTP/1.1\r\n\r\n";
        let both = exchange(last, &get.repeat(2));
        // Targets begin with different ones: this is the 300th.
        let (first, second) = (both.find("a 2\n").unwrap(), both.find("a 1\n").unwrap());
        assert!(first < second, "{both}");
        server.forget();
        let packed = exchange(last, "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n");
        assert!(packed.contains("Content-Encoding: gzip\r\n") && !packed.contains("a 1\n"));
        assert_eq!(
            (server.times()[299].len(), server.times()[0].len(), server.answered_points()),
            (1, 0, 18)
        );
        let sink = server.sink();
        let address = sink.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        let write = "POST /api/v1/write HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        assert!(exchange(&address, write).starts_with("HTTP/1.1 204"));
        assert_eq!((server.sunk_bytes(), server.least()), (5, 0));
    }
}
