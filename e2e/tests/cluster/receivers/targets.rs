//! Scrape targets that this machine serves to pods of the cluster, and notes who asks.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The time between two scrapes of a target.
pub(crate) const INTERVAL: Duration = Duration::from_secs(15);
/// A busy machine scrapes late.
pub(crate) const SLACK: Duration = Duration::from_secs(4);

/// When a target was asked, and by which pod's address.
type Asked = Arc<Mutex<Vec<(Instant, IpAddr)>>>;

/// Targets that note who asks. Their threads end with them.
pub(crate) struct Targets {
    pub(crate) addresses: Vec<String>,
    asked: Vec<Asked>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Targets {
    pub(crate) fn start(host: IpAddr, count: usize) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let mut targets =
            Self { addresses: Vec::new(), asked: Vec::new(), ends, threads: Vec::new() };
        for _ in 0..count {
            let listener = TcpListener::bind((host, 0)).context("cannot listen for scrapes")?;
            let (asked, ends) = (Asked::default(), targets.ends.clone());
            targets.addresses.push(listener.local_addr()?.to_string());
            targets.asked.push(asked.clone());
            targets.threads.push(thread::spawn(move || {
                for stream in listener.incoming() {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let _ = stream.map(|stream| answer(stream, &asked));
                }
            }));
        }
        Ok(targets)
    }

    /// Which pods asked each target since then, one after the other.
    pub(crate) fn asked_by(&self, since: Instant) -> Vec<Vec<IpAddr>> {
        let by = |asked: &Asked| {
            let asked = asked.lock().unwrap();
            let by = asked.iter().filter(|(at, _)| *at >= since).map(|(_, by)| *by);
            let mut by: Vec<IpAddr> = by.collect();
            by.dedup();
            by
        };
        self.asked.iter().map(by).collect()
    }

    /// No target was asked twice in an interval, or missed more than one.
    pub(crate) fn judge(&self, since: Instant) {
        for (asked, address) in self.asked.iter().zip(&self.addresses) {
            let asked = asked.lock().unwrap();
            let asked: Vec<&(Instant, IpAddr)> =
                asked.iter().filter(|(at, _)| *at >= since).collect();
            let all: Vec<String> = asked
                .iter()
                .map(|(at, by)| format!("{:.1} s by {by}", at.duration_since(since).as_secs_f64()))
                .collect();
            for pair in asked.windows(2) {
                let gap = pair[1].0.duration_since(pair[0].0);
                assert!(gap > INTERVAL - SLACK, "{address}: twice within {gap:?}: {all:?}");
                assert!(gap < INTERVAL * 2 + SLACK, "{address}: not for {gap:?}: {all:?}");
            }
            let last = asked.last().map_or(Duration::MAX, |(at, _)| at.elapsed());
            assert!(last < INTERVAL * 2 + SLACK, "{address}: not for {last:?}: {all:?}");
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Wakes its thread.
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Notes the scrape and answers with one series.
fn answer(mut stream: TcpStream, asked: &Asked) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let by = stream.peer_addr()?.ip();
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut some)?;
        ensure!(read > 0 && head.len() < 65_536, "no request");
        head.extend_from_slice(&some[..read]);
    }
    asked.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), by));
    let body = "# TYPE requests counter\nrequests_total 1\n";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}
