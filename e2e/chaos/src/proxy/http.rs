//! A proxy that reads HTTP, so that it can do to whole requests and answers what a server, a load
//! balancer or a bad moment does: answer in the server's place, lose the answer after the request
//! was carried out, or change it.
//!
//! HTTP/1.1 with bodies of a stated length or in chunks: what the collector and the engine speak.
//! Only inserts are struck, known by their deduplication token; pings and queries pass.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_stack::random::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// What marks a request as an insert.
const INSERT_MARK: &[u8] = b"insert_deduplication_token=";
/// The longest head of a request or an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body: a collector's largest insert is 16 MiB before compression.
const BODY_BYTES_MAX: usize = 64 << 20;
/// A reply that is left in the middle by then was never going to come.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// What is done to one insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Answered here; the server never hears of it.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The body.
        text: String,
    },
    /// Carried out; the client's connection is reset instead of an answer.
    LoseAnswer,
    /// Carried out; the connection is reset in the middle of the answer.
    CutAnswer,
    /// Carried out; a success with this text in its body.
    ReplaceBody(String),
    /// Carried out; the answer says that one row less was written.
    FewerRows,
}

/// Which inserts are struck, and how.
#[derive(Debug, Clone)]
pub struct Script {
    /// Drawn from for each insert that is struck.
    pub acts: Vec<Act>,
    /// The chance that an insert is struck, 0 to 1: below 1, an insert that is sent again and again
    /// gets through.
    pub chance: f64,
    /// How many are struck at most.
    pub times: u64,
    /// Decides which are.
    pub seed: u64,
}

/// What happened to inserts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Inserts that came.
    pub inserts: u64,
    /// Of these, struck.
    pub struck: u64,
}

#[derive(Debug, Default)]
struct State {
    script: Option<(Script, Random)>,
    seen: Seen,
}

impl State {
    /// What to do to an insert that has just come.
    fn take(&mut self) -> Option<Act> {
        self.seen.inserts += 1;
        let (script, random) = self.script.as_mut()?;
        if script.times == 0 || random.unit() >= script.chance {
            return None;
        }
        script.times -= 1;
        self.seen.struck += 1;
        random.pick(&script.acts).cloned()
    }
}

/// A running proxy. It ends when this is dropped.
#[derive(Debug)]
pub struct HttpProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl HttpProxy {
    /// Listens on a free loopback port and forwards to `target`.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(runtime: &Handle, target: SocketAddr) -> Result<Self> {
        let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = bound.context("no port for a proxy")?;
        let address = listener.local_addr().context("no port for a proxy")?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let accepting = runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let connection =
                    Connection { client: Side::new(client), target, state: Arc::clone(&shared) };
                tokio::spawn(connection.run());
            }
        });
        Ok(Self { address, state, accepting })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to strike inserts, or stops with `None`.
    pub fn set(&self, script: Option<Script>) {
        let with_random = |script: Script| {
            let random = Random::new(script.seed);
            (script, random)
        };
        lock(&self.state).script = script.map(with_random);
    }

    /// What happened so far.
    pub fn seen(&self) -> Seen {
        lock(&self.state).seen
    }

    /// Waits until `struck` inserts in all were struck.
    ///
    /// # Errors
    /// When they weren't within `limit`.
    pub fn reached(&self, struck: u64, limit: Duration) -> Result<()> {
        millrace_e2e::wait::until(&format!("{struck} inserts to be struck"), limit, || {
            match self.seen().struck {
                now if now < struck => bail!("{now} so far"),
                _ => Ok(()),
            }
        })
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Counters and a list: whole even if a holder panicked.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream and what was read of it beyond the last message.
struct Side {
    stream: TcpStream,
    ahead: Vec<u8>,
}

/// A request or an answer as it came.
struct Message {
    head: Vec<u8>,
    body: Vec<u8>,
}

struct Connection {
    client: Side,
    target: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Connection {
    async fn run(mut self) {
        // The client goes, or the server does: either way the connection is over, and a reset says
        // so where a close could be taken for an end.
        let _ = self.exchange().await;
        let _ = self.client.stream.set_zero_linger();
    }

    async fn exchange(&mut self) -> Result<()> {
        let mut server: Option<Side> = None;
        while let Some(request) = self.client.message().await? {
            let line = request.head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let is_insert = line.windows(INSERT_MARK.len()).any(|part| part == INSERT_MARK);
            let act = is_insert.then(|| lock(&self.state).take()).flatten();
            if let Some(Act::Answer { status, text }) = &act {
                self.client.stream.write_all(&canned(*status, text)).await?;
                continue;
            }
            let side = match &mut server {
                Some(side) => side,
                None => {
                    let stream = TcpStream::connect(self.target).await?;
                    stream.set_nodelay(true)?;
                    server.insert(Side::new(stream))
                }
            };
            side.stream.write_all(&request.head).await?;
            side.stream.write_all(&request.body).await?;
            let answer = tokio::time::timeout(UPSTREAM_TIMEOUT, side.message()).await?;
            let answer = answer?.context("the server closed instead of answering")?;
            let changed = match act {
                None | Some(Act::Answer { .. }) => [answer.head, answer.body].concat(),
                Some(Act::LoseAnswer) => bail!("the answer is lost"),
                Some(Act::CutAnswer) => {
                    self.client.stream.write_all(&half(&answer)).await?;
                    self.client.stream.flush().await?;
                    bail!("the answer is cut");
                }
                Some(Act::ReplaceBody(text)) => canned(200, &text),
                Some(Act::FewerRows) => [fewer_rows(&answer.head), answer.body].concat(),
            };
            self.client.stream.write_all(&changed).await?;
        }
        Ok(())
    }
}

impl Side {
    fn new(stream: TcpStream) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    /// The next message, or none when the peer closed between two.
    async fn message(&mut self) -> Result<Option<Message>> {
        let end = loop {
            if let Some(at) = find(&self.ahead, b"\r\n\r\n") {
                break at + 4;
            }
            if self.ahead.len() > HEAD_BYTES_MAX {
                bail!("a head of more than {HEAD_BYTES_MAX} bytes");
            }
            if self.more().await? == 0 {
                return if self.ahead.is_empty() { Ok(None) } else { bail!("cut in a head") };
            }
        };
        let head: Vec<u8> = self.ahead.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let body = if field("transfer-encoding") == Some("chunked") {
            self.chunks().await?
        } else {
            let length = field("content-length").map_or(Ok(0), str::parse::<usize>);
            self.take(length.context("a content-length that is no number")?).await?
        };
        Ok(Some(Message { head, body }))
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            bail!("a body of {length} bytes");
        }
        while self.ahead.len() < length {
            if self.more().await? == 0 {
                bail!("cut in a body");
            }
        }
        Ok(self.ahead.drain(..length).collect())
    }

    /// A chunked body as it came, with its frames.
    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                match find(&self.ahead, b"\r\n") {
                    Some(at) => break at + 2,
                    None if self.more().await? == 0 => bail!("cut in a chunk"),
                    None => {}
                }
            };
            let line: Vec<u8> = self.ahead.drain(..end).collect();
            let size = String::from_utf8_lossy(&line);
            let size = size.split([';', '\r']).next().unwrap_or_default().trim().to_owned();
            let size = usize::from_str_radix(&size, 16).context("a chunk's size is no number")?;
            body.extend_from_slice(&line);
            body.extend(self.take(size + 2).await?);
            if body.len() > BODY_BYTES_MAX {
                bail!("a chunked body of more than {BODY_BYTES_MAX} bytes");
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn more(&mut self) -> Result<usize> {
        Ok(self.stream.read_buf(&mut self.ahead).await?)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn canned(status: u16, text: &str) -> Vec<u8> {
    let length = text.len();
    let head = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), text.as_bytes()].concat()
}

/// The first half of an answer, bodies promised longer than they are.
fn half(answer: &Message) -> Vec<u8> {
    let whole = [&answer.head[..], &answer.body].concat();
    whole[..whole.len() / 2].to_vec()
}

/// The head with one written row less in its summary; unchanged if it has none.
fn fewer_rows(head: &[u8]) -> Vec<u8> {
    const FIELD: &str = "\"written_rows\":\"";
    let text = String::from_utf8_lossy(head).into_owned();
    let Some(at) = text.find(FIELD).map(|at| at + FIELD.len()) else { return head.to_vec() };
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    let fewer = digits.parse::<u64>().unwrap_or(0).saturating_sub(1);
    [&text[..at], &fewer.to_string(), &text[at + digits.len()..]].concat().into_bytes()
}
