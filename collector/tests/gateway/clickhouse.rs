//! A ClickHouse that keeps no rows, but the offsets of those it took, as inserts' tokens name them,
//! each token once. It takes a while for each insert, and is in trouble with one table when the
//! test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long an insert takes: far longer than what this machine does for one, so that the places of
/// the sink's window decide the rate.
const ANSWER_TAKES: Duration = Duration::from_millis(600);

/// What becomes of inserts into a table in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// They are refused with this code.
    Code(u32),
    /// They are read, and never answered.
    Hang,
}

/// A topic's name and a partition's number.
type Partition = (String, i32);

#[derive(Default)]
struct State {
    trouble: Mutex<Option<(&'static str, Trouble)>>,
    /// Offsets of the inserts that were taken, by partition, in the order of their answers.
    taken: Mutex<BTreeMap<Partition, Taken>>,
    /// Inserts that met the trouble.
    troubled: Mutex<usize>,
    stopped: AtomicBool,
}

/// What was taken of a partition.
#[derive(Clone, Default)]
struct Taken {
    ranges: Vec<Range<i64>>,
    messages: i64,
    tokens: BTreeSet<String>,
}

/// The server, while this lives.
pub(crate) struct ClickHouse {
    address: SocketAddr,
    state: Arc<State>,
}

impl ClickHouse {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&serving);
                thread::spawn(move || serve(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this becomes of inserts into the table with this name, and no other.
    pub(crate) fn trouble(&self, table_and_trouble: Option<(&'static str, Trouble)>) {
        *self.state.trouble.lock().unwrap() = table_and_trouble;
    }

    pub(crate) fn troubled(&self) -> usize {
        *self.state.troubled.lock().unwrap()
    }

    /// Messages of a topic's partition that are stored, copies included.
    pub(crate) fn stored(&self, topic: &str, partition: i32) -> i64 {
        let taken = self.state.taken.lock().unwrap();
        taken.get(&(topic.to_owned(), partition)).map_or(0, |taken| taken.messages)
    }

    /// The offsets stored of a topic's partition, in order; neighbours aren't joined.
    pub(crate) fn ranges(&self, topic: &str, partition: i32) -> Vec<Range<i64>> {
        let taken = self.state.taken.lock().unwrap();
        let taken = taken.get(&(topic.to_owned(), partition)).cloned();
        let mut ranges = taken.unwrap_or_default().ranges;
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves one connection until either side closes it.
fn serve(stream: TcpStream, state: &State) {
    let mut reader = BufReader::new(stream);
    while let Some((target, body)) = read(&mut reader) {
        let Some(token) = parameter(&target, "insert_deduplication_token") else {
            // A ping, or a question of system tables: there are none.
            respond(reader.get_mut(), if body.is_empty() { "Ok.\n" } else { "" }, None);
            continue;
        };
        let trouble = *state.trouble.lock().unwrap();
        let trouble = trouble.filter(|(table, _)| target.contains(&format!(".%60{table}%60")));
        let Some((_, trouble)) = trouble else {
            thread::sleep(ANSWER_TAKES);
            state.take(token);
            respond(reader.get_mut(), "", None);
            continue;
        };
        *state.troubled.lock().unwrap() += 1;
        match trouble {
            Trouble::Code(code) => {
                let text = format!("Code: {code}. DB::Exception: as scripted. (NAME)\n");
                respond(reader.get_mut(), &text, Some(code));
            }
            Trouble::Hang => {
                // Until the client closes it.
                let _ = reader.read(&mut [0; 1]);
                return;
            }
        }
    }
}

impl State {
    /// Notes an insert by its token, percent-encoded:
    /// `millrace:2:group:topic:partition:first-last:...`.
    fn take(&self, token: &str) {
        let token = token.replace("%3A", ":");
        let mut parts = token.split(':').skip(3);
        let topic = parts.next().unwrap().to_owned();
        let partition = parts.next().unwrap().parse().unwrap();
        let (first, last) = parts.next().unwrap().split_once('-').unwrap();
        let range: Range<i64> = first.parse().unwrap()..last.parse::<i64>().unwrap() + 1;
        let mut taken = self.taken.lock().unwrap();
        let taken = taken.entry((topic, partition)).or_default();
        // As the tables do: what comes again under its token is there already.
        if !taken.tokens.insert(token.clone()) {
            return;
        }
        taken.messages += range.end - range.start;
        taken.ranges.push(range);
    }
}

fn parameter<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// A request's target and body.
fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((target, body))
}

fn respond(stream: &mut TcpStream, body: &str, code: Option<u32>) {
    let status = if code.is_some() { 500 } else { 200 };
    let mut text = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
    if let Some(code) = code {
        text.push_str(&format!("X-ClickHouse-Exception-Code: {code}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    // In one piece: the rest of an answer in several waits for the client's acknowledgement.
    let _ = stream.write_all(text.as_bytes());
}
