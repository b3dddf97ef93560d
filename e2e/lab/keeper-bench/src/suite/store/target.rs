//! What was sampled, as a Prometheus target on loopback. A scrape takes the oldest point of each
//! server that waits, with the time at which it was sampled: no point is left out because a scrape
//! was late, and none is told twice. Whether it arrived is asked of the table, not known here.
//!
//! Limits: it serves one request at a time, since one collector asks; of the request it reads the
//! head and nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::exposition::{self, Point};

/// Points that may wait: a second's of three servers for almost an hour, 100 MB at 100 values each.
/// What comes beyond them isn't taken; whoever asks the table offers it again.
const WAITING_MAX: usize = 10_000;
/// Servers in one scrape: rounds that are stored later come side by side. 100 lines of 250 bytes
/// each, 600 kB.
const SERVERS_PER_SCRAPE: usize = 24;
/// The collector gives a scrape one second.
const PATIENCE: Duration = Duration::from_secs(2);
/// A collector's request has some 300 bytes.
const HEAD_LIMIT_BYTES: u64 = 16 << 10;

/// The target. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    emptied: Condvar,
    ending: AtomicBool,
}

/// Points by server and round, each oldest first.
#[derive(Debug, Default)]
struct Waiting {
    by_series: BTreeMap<String, VecDeque<Point>>,
    count: usize,
}

impl Waiting {
    fn push(&mut self, point: Point) {
        if self.count < WAITING_MAX {
            self.by_series.entry(point.labels().to_owned()).or_default().push_back(point);
            self.count += 1;
        }
    }

    /// What the next scrape gets.
    fn next(&self) -> Vec<Point> {
        let firsts = self.by_series.values().filter_map(VecDeque::front);
        firsts.take(SERVERS_PER_SCRAPE).cloned().collect()
    }

    /// A scrape got them.
    fn taken(&mut self, points: &[Point]) {
        for point in points {
            let Some(queue) = self.by_series.get_mut(point.labels()) else { continue };
            self.count -= usize::from(queue.pop_front().is_some());
            if queue.is_empty() {
                self.by_series.remove(point.labels());
            }
        }
    }
}

impl Target {
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let queue = Arc::new(Queue::default());
        let serving = Arc::clone(&queue);
        let serve = move || serve(&listener, &serving);
        let thread = Some(thread::Builder::new().name("target".to_owned()).spawn(serve)?);
        Ok(Self { address, queue, thread })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn offer(&self, points: impl IntoIterator<Item = Point>) {
        let mut waiting = self.queue.lock();
        points.into_iter().for_each(|point| waiting.push(point));
    }

    /// Waits until every point has been scraped, a second for each of the server that has most and
    /// so much longer; whether they have been.
    pub(crate) fn wait_scraped(&self, longer: Duration) -> bool {
        let waiting = self.queue.lock();
        let scrapes = waiting.by_series.values().map(VecDeque::len).max().unwrap_or_default();
        let patience = Duration::from_secs(scrapes as u64) + longer;
        let is_waiting = |waiting: &mut Waiting| waiting.count > 0;
        let waited = self.queue.emptied.wait_timeout_while(waiting, patience, is_waiting);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.queue.ending.store(true, Ordering::SeqCst);
        // Whoever waits for a connection gets one, and sees that it ends.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, points: &[Point]) {
        let mut waiting = self.lock();
        waiting.taken(points);
        if waiting.count == 0 {
            self.emptied.notify_all();
        }
    }
}

fn serve(listener: &TcpListener, queue: &Queue) {
    for stream in listener.incoming() {
        if queue.ending.load(Ordering::SeqCst) {
            return;
        }
        // A scrape that breaks off takes nothing, and another comes in a second.
        let _ = stream.and_then(|stream| answer(stream, queue));
    }
}

fn answer(mut stream: TcpStream, queue: &Queue) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    read_head(&mut stream)?;
    let points = queue.lock().next();
    let body = exposition::body(&points);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=1.0.0; charset=utf-8; \
         escaping=allow-utf-8\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    queue.taken(&points);
    Ok(())
}

fn read_head(stream: &mut TcpStream) -> io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    let mut limited = stream.take(HEAD_LIMIT_BYTES);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match limited.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&piece[..read]),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_stack::http;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn point(server: u32, time_ms: u64) -> Point {
        let sample = json!({
            "cell": "c", "repeat": 1, "server": server, "time_ms": time_ms, "second": 0.0,
        });
        Point::new("r", &sample).unwrap()
    }

    fn scrape(target: &Target) -> String {
        let answer = http::ask(target.address(), "GET", "/metrics", &[], b"", PATIENCE).unwrap();
        assert_eq!(answer.status, 200);
        answer.text()
    }

    /// Scenario: two points of one server and one of another, then nothing; a connection that ends
    /// before it has asked comes in between. Guarantee: each is told once, the older one first, and
    /// no scrape has two of a server; whoever waits for the end sees it then and not before.
    #[test]
    fn each_point_is_scraped_once_and_in_order() {
        let target = Target::start().unwrap();
        target.offer([point(0, 1), point(0, 2), point(1, 1)]);
        drop(TcpStream::connect(target.address()).unwrap());
        let first = scrape(&target);
        assert_eq!(first.lines().count(), 2);
        assert!(first.lines().all(|line| line.ends_with(" 0 1")), "{first}");
        assert_eq!(target.queue.lock().count, 1);
        let second = scrape(&target);
        assert!(second.contains("server=\"0\"} 0 2") && second.lines().count() == 1, "{second}");
        assert!(target.wait_scraped(PATIENCE));
        assert_eq!(scrape(&target), "");
    }

    proptest! {
        /// Scenario: points of several servers are offered between scrapes, some of which fail.
        /// Guarantee: in the end each was told exactly once, a server's in the order of their
        /// times, and never two of one server at once.
        #[test]
        fn nothing_is_told_twice_or_left_out(
            steps in prop::collection::vec((0_u32..40, any::<bool>()), 1..200)
        ) {
            let (mut waiting, mut told) = (Waiting::default(), Vec::new());
            let mut scrape = |waiting: &mut Waiting, works: bool| {
                let points = waiting.next();
                let mut servers: Vec<_> = points.iter().map(Point::labels).collect();
                servers.dedup();
                assert_eq!(servers.len(), points.len());
                if works {
                    waiting.taken(&points);
                    told.extend(points);
                }
            };
            for (time, (server, works)) in steps.iter().enumerate() {
                waiting.push(point(*server, time as u64));
                scrape(&mut waiting, *works);
            }
            while waiting.count > 0 {
                scrape(&mut waiting, true);
            }
            prop_assert!(waiting.by_series.is_empty());
            prop_assert_eq!(told.len(), steps.len());
            for server in 0..40_u32 {
                let server = server.to_string();
                let times: Vec<u64> =
                    told.iter().map(Point::key).filter(|key| key.0 == server).map(|key| key.1).collect();
                prop_assert!(times.is_sorted_by(|a, b| a < b));
            }
        }
    }
}
