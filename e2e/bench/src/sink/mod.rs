//! The null sink: takes inserts as ClickHouse's HTTP interface does, counts them and forgets them.
//!
//! It lives in the harness, so that its work doesn't count for the collector under test. Rows are
//! read from the head of each block; nothing is decompressed, checked or kept. It answers just
//! enough questions for clickhouse-go, the client of the OpenTelemetry Collector's exporter.
//!
//! Limits: blocks after a body's first are found where a frame begins with one, so a plain body has
//! one block; [`CONNECTIONS_MAX`] connections.

mod answers;
mod block;
mod frames;
mod request;

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use request::{Kind, Request};

/// A collector opens one connection for each insert in flight, tens at the most.
const CONNECTIONS_MAX: u32 = 128;
/// One read's buffer: large against a segment, small against the caches.
const BUFFER_BYTES: usize = 256 << 10;
/// A connection that says nothing for so long is dropped.
const IDLE: Duration = Duration::from_secs(120);

/// What came in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Inserts answered.
    pub(crate) inserts: u64,
    /// Rows of their blocks.
    pub(crate) rows: u64,
    /// Bytes of their bodies, as sent: compressed.
    pub(crate) bytes: u64,
    /// Requests that were no insert with a block, and none of the questions known.
    pub(crate) unknown: u64,
}

#[derive(Debug, Default)]
struct Shared {
    inserts: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    unknown: AtomicU64,
    connections: AtomicU32,
    ends: AtomicBool,
    last_insert: Mutex<Option<Instant>>,
}

/// A running sink. Dropping it closes its listener.
#[derive(Debug)]
pub(crate) struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<thread::JoinHandle<()>>,
}

impl Sink {
    /// Listens on a free loopback port.
    pub(crate) fn start() -> Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the sink")?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let listener = thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || accept(&socket, &accepting))
            .context("no thread for the sink")?;
        Ok(Self { address, shared, listener: Some(listener) })
    }

    /// Where it answers, as `http://127.0.0.1:port`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came in since the start.
    pub(crate) fn counts(&self) -> Counts {
        let Shared { inserts, rows, bytes, unknown, .. } = &*self.shared;
        Counts {
            inserts: inserts.load(Ordering::Acquire),
            rows: rows.load(Ordering::Acquire),
            bytes: bytes.load(Ordering::Acquire),
            unknown: unknown.load(Ordering::Acquire),
        }
    }

    /// When the last insert was answered.
    pub(crate) fn last_insert(&self) -> Option<Instant> {
        *self.shared.last_insert.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Wakes the listener, which waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn accept(socket: &TcpListener, shared: &Arc<Shared>) {
    for stream in socket.incoming() {
        if shared.ends.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let served = Arc::clone(shared);
        let spawned = thread::Builder::new().name("sink-connection".to_owned()).spawn(move || {
            // A client that goes away or talks nonsense ends its own connection, nothing else.
            let _ = serve(stream, &served);
            served.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    let mut out = stream.try_clone()?;
    let mut input = BufReader::with_capacity(BUFFER_BYTES, stream);
    while let Some(request) = Request::read(&mut input, &mut out)? {
        if shared.ends.load(Ordering::Acquire) {
            break;
        }
        out.write_all(&answer(&request, shared))?;
    }
    Ok(())
}

fn answer(request: &Request, shared: &Shared) -> Vec<u8> {
    let unknown = || {
        shared.unknown.fetch_add(1, Ordering::AcqRel);
        answers::refusal(&request.describe())
    };
    match request.kind() {
        Kind::Ping => answers::pong(),
        Kind::Insert => {
            let Some(rows) = request.rows() else { return unknown() };
            shared.bytes.fetch_add(request.body_bytes, Ordering::AcqRel);
            shared.rows.fetch_add(rows, Ordering::AcqRel);
            let now = Some(Instant::now());
            *shared.last_insert.lock().unwrap_or_else(PoisonError::into_inner) = now;
            shared.inserts.fetch_add(1, Ordering::AcqRel);
            answers::inserted(rows)
        }
        // The sink has no tables to show. The collector goes on with those it expects.
        Kind::Question(text) if is_look(&text) => answers::refusal(&request.describe()),
        Kind::Question(text) => {
            answers::to_question(&text, request.wants_frames()).unwrap_or_else(unknown)
        }
    }
}

/// Whether a gateway looks at the live tables, as it does now and then.
fn is_look(question: &str) -> bool {
    ["system.tables", "system.columns"].iter().any(|table| question.contains(table))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::{Counts, Sink};

    fn exchange(sink: &Sink, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(sink.address).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Scenario: a plain Native block of three rows, then the same in chunks. Guarantee: both are
    /// counted whole, and the answer says the rows as ClickHouse does.
    #[test]
    fn inserts_are_counted_by_rows_and_bytes() {
        let sink = Sink::start().unwrap();
        let body = b"\x01\x03\x01x\x05UInt8abc";
        let mut request = format!(
            "POST /?query=INSERT%20INTO%20t%20FORMAT%20Native HTTP/1.1\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let answer = exchange(&sink, &request);
        assert!(answer.contains("\"written_rows\":\"3\""), "{answer}");
        let mut chunked =
            b"POST /?query=insert+into+t HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        chunked.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        chunked.extend_from_slice(body);
        chunked.extend_from_slice(b"\r\n0\r\n\r\n");
        assert!(exchange(&sink, &chunked).starts_with("HTTP/1.1 200"));
        let bytes = 2 * body.len() as u64;
        assert_eq!(sink.counts(), Counts { inserts: 2, rows: 6, bytes, unknown: 0 });
        assert!(sink.last_insert().is_some());
    }

    /// Scenario: a question nobody taught it. Guarantee: refused and counted, not taken for an
    /// insert.
    #[test]
    fn what_it_does_not_know_is_refused() {
        let sink = Sink::start().unwrap();
        let answer = exchange(&sink, b"POST / HTTP/1.1\r\ncontent-length: 8\r\n\r\nDROP ALL");
        assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("DROP ALL"), "{answer}");
        assert_eq!(sink.counts(), Counts { unknown: 1, ..Counts::default() });
    }

    /// Scenario: a gateway looks at the live tables. Guarantee: it is refused, so that the gateway
    /// goes on with the tables it expects, and not counted as something nobody taught the sink.
    #[test]
    fn a_look_at_the_tables_is_refused_and_does_not_count() {
        let sink = Sink::start().unwrap();
        let text = "SELECT name FROM system.tables";
        let length = text.len();
        let request = format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{text}");
        let answer = exchange(&sink, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        assert_eq!(sink.counts(), Counts::default());
    }
}
