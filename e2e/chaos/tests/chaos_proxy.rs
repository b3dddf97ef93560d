//! The proxies by themselves, before a small server: each mode does what it says, to connections
//! that are open and to new ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use millrace_chaos::proxy::http::{Act, HttpProxy, Script};
use millrace_chaos::proxy::{Mode, Proxy};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// What doesn't come within this is held back.
const HELD: Duration = Duration::from_millis(300);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Gives back what it gets, for as long as the test lives.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// How an attempt ends that must not reach a server. A reset may come before the client sees that
/// it was connected, and is an error of the connecting then.
fn attempt(address: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read(&mut [0; 16])
}

fn is_reset(outcome: std::io::Result<usize>) {
    assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// Sends a word and reads its echo.
fn passes(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).unwrap();
    receives(stream, word);
}

fn receives(stream: &mut TcpStream, word: &[u8]) {
    let mut answer = vec![0; word.len()];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, word);
}

/// Nothing comes for a while, and the connection stays.
fn is_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(HELD)).unwrap();
    let error = stream.read(&mut [0; 16]).unwrap_err();
    let kinds = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
    assert!(kinds.contains(&error.kind()), "{error}");
}

/// Scenario: no byte passes for a while, on an open connection and on one opened meanwhile; then
/// all passes again. Guarantee: nothing is lost or cut, it only comes late.
#[test]
fn a_black_hole_holds_bytes_and_gives_them_back() {
    let runtime = runtime();
    let proxy = Proxy::start(runtime.handle(), echo()).unwrap();
    let mut open = connect(proxy.address());
    passes(&mut open, b"before");
    proxy.set(Mode::BlackHole);
    let mut new = connect(proxy.address());
    for stream in [&mut open, &mut new] {
        stream.write_all(b"held").unwrap();
        is_silent(stream);
    }
    proxy.set(Mode::Pass);
    for stream in [&mut open, &mut new] {
        receives(stream, b"held");
        passes(stream, b"after");
    }
    assert_eq!(proxy.connections(), 2);
}

/// Scenario: answers don't come back for a while. Guarantee: what was sent arrived; the answer
/// comes when the way is free.
#[test]
fn one_way_carries_requests_and_holds_answers() {
    let runtime = runtime();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(runtime.handle(), listener.local_addr().unwrap()).unwrap();
    let mut client = connect(proxy.address());
    let (mut server, _) = listener.accept().unwrap();
    proxy.set(Mode::OnlyToServer);
    client.write_all(b"ask").unwrap();
    receives(&mut server, b"ask");
    server.write_all(b"answer").unwrap();
    is_silent(&mut client);
    proxy.set(Mode::OnlyToClient);
    receives(&mut client, b"answer");
    client.write_all(b"again").unwrap();
    is_silent(&mut server);
    proxy.set(Mode::Pass);
    receives(&mut server, b"again");
}

/// Scenario: connections are cut. Guarantee: open ones and new ones are reset, which no client can
/// take for an orderly end; later ones pass.
#[test]
fn a_cut_resets_every_connection() {
    let runtime = runtime();
    let proxy = Proxy::start(runtime.handle(), echo()).unwrap();
    let mut open = connect(proxy.address());
    passes(&mut open, b"before");
    proxy.set(Mode::Cut);
    is_reset(open.read(&mut [0; 16]));
    is_reset(attempt(proxy.address()));
    proxy.set(Mode::Pass);
    passes(&mut connect(proxy.address()), b"after");
}

/// Scenario: the server isn't there, then closes in the middle. Guarantee: clients see a reset and
/// an end, not silence.
#[test]
fn a_server_that_is_away_is_not_silence() {
    let runtime = runtime();
    // Bound and not listening: the port refuses, and is nobody else's meanwhile.
    let _inside = runtime.enter();
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(runtime.handle(), bound.local_addr().unwrap()).unwrap();
    is_reset(attempt(proxy.address()));
    let listener = bound.listen(8).unwrap().into_std().unwrap();
    listener.set_nonblocking(false).unwrap();
    let mut client = connect(proxy.address());
    let (server, _) = listener.accept().unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0; 16]).unwrap_or(0), 0);
}

/// Scenario: 2 kB at 4 kB a second, and a delay. Guarantee: both take their time, and what is held
/// by either comes at once when all passes again.
#[test]
fn slow_ways_are_slow_until_they_are_not() {
    let runtime = runtime();
    let proxy = Proxy::start(runtime.handle(), echo()).unwrap();
    let mut stream = connect(proxy.address());
    passes(&mut stream, b"before");
    proxy.set(Mode::Throttle { bytes_per_second: 4096 });
    let began = Instant::now();
    passes(&mut stream, &[7; 2048]);
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    proxy.set(Mode::Delay(HELD));
    let began = Instant::now();
    passes(&mut stream, b"late");
    assert!(began.elapsed() >= HELD, "{:?}", began.elapsed());
    proxy.set(Mode::Throttle { bytes_per_second: 1 });
    stream.write_all(b"slower still").unwrap();
    proxy.set(Mode::Pass);
    receives(&mut stream, b"slower still");
}

/// An HTTP server that answers every request alike and counts them by lines of their heads.
fn http_server() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = std::sync::mpsc::sync_channel(100);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, seen) = (stream.unwrap(), seen.clone());
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    let _ = seen.send(text.lines().next().unwrap_or_default().to_owned());
                    let answer = "HTTP/1.1 200 OK\r\nX-ClickHouse-Summary: \
                                  {\"written_rows\":\"10\",\"x\":\"1\"}\r\nContent-Length: 0\r\n\r\n";
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

const INSERT: &str =
    "POST /?insert_deduplication_token=a HTTP/1.1\r\nContent-Length: 4\r\n\r\nrows";

/// Sends a request and reads what comes back, up to the end of the connection or a pause.
fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..count]);
        stream.set_read_timeout(Some(HELD)).unwrap();
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn script(act: Act) -> Option<Script> {
    Some(Script { acts: vec![act], chance: 1.0, times: 1, seed: 1 })
}

/// Scenario: each act once, on an insert. Guarantee: what the client gets is what the act says, the
/// server hears of it exactly if the act says so, and the next insert passes untouched.
#[test]
fn scripted_answers_are_given_once() {
    let runtime = runtime();
    let (server, requests) = http_server();
    let proxy = HttpProxy::start(runtime.handle(), server).unwrap();
    let answered = Act::Answer { status: 503, text: "away".to_owned() };
    let replaced = Act::ReplaceBody("Code: 236.".to_owned());
    for (act, carried_out, expected) in [
        (answered, false, "HTTP/1.1 503 Scripted\r\nContent-Length: 4\r\n\r\naway"),
        (Act::LoseAnswer, true, ""),
        (Act::CutAnswer, true, "HTTP/1.1 200 OK\r\n"),
        (replaced, true, "HTTP/1.1 200 Scripted\r\nContent-Length: 10\r\n\r\nCode: 236."),
        (Act::FewerRows, true, "HTTP/1.1 200 OK\r\nX-ClickHouse-Summary: {\"written_rows\":\"9\""),
    ] {
        let name = format!("{act:?}");
        let is_cut = act == Act::CutAnswer;
        proxy.set(script(act));
        let answer = ask(&mut connect(proxy.address()), INSERT);
        match expected {
            "" => assert_eq!(answer, "", "{name}"),
            _ => assert!(answer.starts_with(expected), "{name}: {answer}"),
        }
        assert!(!is_cut || !answer.contains("\r\n\r\n"), "{name}: {answer}");
        let heard = requests.recv_timeout(if carried_out { PATIENCE } else { HELD });
        assert_eq!(heard.is_ok(), carried_out, "{name}");
        let untouched = ask(&mut connect(proxy.address()), INSERT);
        assert!(untouched.contains("\"written_rows\":\"10\""), "{name}: {untouched}");
        requests.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!((proxy.seen().inserts, proxy.seen().struck), (10, 5));
}

/// Scenario: a ping and a query while every insert is struck; two requests on one connection, one
/// of them in chunks. Guarantee: what is no insert passes, and messages are told apart.
#[test]
fn only_inserts_are_struck_and_requests_are_told_apart() {
    let runtime = runtime();
    let (server, requests) = http_server();
    let proxy = HttpProxy::start(runtime.handle(), server).unwrap();
    proxy.set(Some(Script { acts: vec![Act::LoseAnswer], chance: 1.0, times: 9, seed: 1 }));
    let mut stream = connect(proxy.address());
    let ping = "GET /ping HTTP/1.1\r\n\r\n";
    let chunked = "POST /?query=x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n0\r\n\r\n";
    for (request, line) in [(ping, "GET /ping"), (chunked, "POST /?query=x")] {
        assert!(ask(&mut stream, request).starts_with("HTTP/1.1 200"), "{line}");
        assert!(requests.recv_timeout(PATIENCE).unwrap().starts_with(line), "{line}");
    }
    assert_eq!(proxy.seen().struck, 0);
}
