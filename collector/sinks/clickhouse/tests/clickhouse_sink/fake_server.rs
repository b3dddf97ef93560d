//! A ClickHouse HTTP interface that answers from a script, one reply per insert, and records its
//! requests. It always answers `/ping` with success, and queries of system tables with the live
//! tables that the test sets: none at first.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The length of a value that an exception quotes: more than a client should retain.
const QUOTED_BYTES: usize = 200_000;

/// One reply. After the end of the script every insert succeeds.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Ok,
    /// Success, with this many rows in the summary.
    Wrote(u64),
    /// An exception with its code in header and body.
    Exception(u16, u32),
    /// An exception in the body of a success, without a header.
    Late(u32),
    /// An exception of a materialized view, `otel.slow_spans`, once the table has been written. It
    /// quotes a long value.
    View(u32),
    /// A status without ClickHouse's headers, as from a proxy.
    Proxy(u16),
    /// Reads the complete request and closes the connection without an answer.
    Cut,
    /// Closes the connection inside the answer.
    CutMidway,
    /// Doesn't answer, and leaves the connection open.
    Hang,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn goes_into(&self, table: &str) -> bool {
        let table = format!(".%60{table}%60");
        self.parameter("query").is_some_and(|query| query.contains(&table))
    }

    /// Returns a parameter of the URL, still percent-encoded.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The answers of system tables, as lines of JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) tables: String,
    pub(super) columns: String,
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Reply>>,
    inserts: Mutex<Vec<Request>>,
    test_rows: Mutex<VecDeque<Result<String, u32>>>,
    live: Mutex<Live>,
    trouble: Mutex<Option<(&'static str, Reply)>>,
    answer_takes: Mutex<Duration>,
    stopped: AtomicBool,
}

pub(super) struct FakeServer {
    address: SocketAddr,
    state: Arc<State>,
}

impl FakeServer {
    pub(super) fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(script, serve)
    }

    /// Starts the same server behind TLS, at `https://localhost` and [`FakeServer::port`].
    pub(super) fn encrypted(config: Arc<rustls::ServerConfig>) -> Self {
        Self::with([], move |stream, state| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(rustls::StreamOwned::new(connection, stream), state);
        })
    }

    fn with(
        script: impl IntoIterator<Item = Reply>,
        serve: impl Fn(TcpStream, &State) + Send + Sync + 'static,
    ) -> Self {
        let serve = Arc::new(serve);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            script: Mutex::new(script.into_iter().collect()),
            ..State::default()
        });
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (state, serve) = (Arc::clone(&serving), Arc::clone(&serve));
                std::thread::spawn(move || serve(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the live tables.
    pub(super) fn show(&self, live: Live) {
        *self.state.live.lock().unwrap() = live;
    }

    /// Answers queries for test records with these, one after the other: rows as lines of JSON, or
    /// an exception's code.
    pub(super) fn tell(&self, answers: impl IntoIterator<Item = Result<String, u32>>) {
        self.state.test_rows.lock().unwrap().extend(answers);
    }

    /// Fails inserts into the table with this name, and no other, with this code from now on.
    pub(super) fn refuse(&self, table_and_code: Option<(&'static str, u32)>) {
        let trouble = table_and_code.map(|(table, code)| (table, Reply::Exception(500, code)));
        *self.state.trouble.lock().unwrap() = trouble;
    }

    /// Answers inserts into the table with this name, and no other, like this from now on.
    pub(super) fn always(&self, table: &'static str, reply: Reply) {
        *self.state.trouble.lock().unwrap() = Some((table, reply));
    }

    /// Never answers inserts into the table with this name, and no other, from now on.
    pub(super) fn hang(&self, table: Option<&'static str>) {
        *self.state.trouble.lock().unwrap() = table.map(|table| (table, Reply::Hang));
    }

    /// Answers an accepted insert only after this time from now on.
    pub(super) fn take_time(&self, time: Duration) {
        *self.state.answer_takes.lock().unwrap() = time;
    }

    pub(super) fn inserts(&self) -> Vec<Request> {
        self.state.inserts.lock().unwrap().clone()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn exception(code: u32) -> String {
    format!("Code: {code}. DB::Exception: as scripted. (NAME)\n")
}

/// Serves one connection until either side closes it.
fn serve(stream: impl Read + Write, state: &State) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let stream = reader.get_mut();
        if request.target == "/ping" {
            respond(stream, 200, &[], "Ok.\n");
            continue;
        }
        if request.body.starts_with(b"SELECT") {
            let live = state.live.lock().unwrap().clone();
            let question = String::from_utf8_lossy(&request.body).into_owned();
            if question.contains(millrace_ddl::TEST_SERVICE) {
                let told = state.test_rows.lock().unwrap().pop_front();
                match told.unwrap_or_else(|| Ok(String::new())) {
                    Ok(rows) => respond(stream, 200, &[], &rows),
                    Err(code) => respond(stream, 500, &[], &exception(code)),
                }
                continue;
            }
            let of_columns = question.contains("system.columns");
            respond(stream, 200, &[], if of_columns { &live.columns } else { &live.tables });
            continue;
        }
        let trouble = state.trouble.lock().unwrap().clone();
        let trouble = trouble.filter(|(table, _)| request.goes_into(table));
        let reply = match trouble {
            Some((_, reply)) => reply,
            None => {
                std::thread::sleep(*state.answer_takes.lock().unwrap());
                state.script.lock().unwrap().pop_front().unwrap_or(Reply::Ok)
            }
        };
        state.inserts.lock().unwrap().push(request);
        match reply {
            Reply::Ok => respond(stream, 200, &[], ""),
            Reply::Wrote(rows) => {
                let summary = format!("{{\"read_rows\":\"0\",\"written_rows\":\"{rows}\"}}");
                respond(stream, 200, &[("X-ClickHouse-Summary", &summary)], "");
            }
            Reply::Exception(status, code) => {
                let header = [("X-ClickHouse-Exception-Code", &*code.to_string())];
                respond(stream, status, &header, &exception(code));
            }
            Reply::Late(code) => respond(stream, 200, &[], &exception(code)),
            Reply::View(code) => {
                let header = [("X-ClickHouse-Exception-Code", &*code.to_string())];
                let value = "x".repeat(QUOTED_BYTES);
                let text = format!(
                    "Code: {code}. DB::Exception: Cannot parse string '{value}' as UInt64: while \
                     pushing to view otel.slow_spans (6ed5b5b3-0f8f-4a50-8f0f-1f3d6f7e7c11). \
                     (NAME)\n"
                );
                respond(stream, 500, &header, &text);
            }
            Reply::Proxy(status) => respond(stream, status, &[], "<html>busy</html>"),
            Reply::Cut => break,
            Reply::CutMidway => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf");
                break;
            }
            Reply::Hang => {
                let _ = reader.read(&mut [0; 1]);
                break;
            }
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { target, headers, body })
}

fn respond(stream: &mut impl Write, status: u16, headers: &[(&str, &str)], body: &str) {
    let mut text = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}
