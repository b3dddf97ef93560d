//! What clients send to a ZooKeeper, counted on its way: a relay on loopback that reads each
//! request's kind, and of a multi those of its operations, whoever the client is.
//!
//! It passes bytes on as they come. A request that it can't read ends the test.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// ZooKeeper's own limit (`jute.maxbuffer`) has 1 MiB.
const REQUEST_BYTES_MAX: u32 = 4 << 20;

/// Requests by kind. What keeps a session alive isn't counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// Operations within multis.
    pub(crate) parts: BTreeMap<&'static str, u64>,
    /// Multis by their operations, in order.
    pub(crate) shapes: BTreeMap<String, u64>,
    /// Reads that leave a watch.
    pub(crate) watches: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn all(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Of all requests those of a kind.
    pub(crate) fn share(&self, kind: &str) -> f64 {
        share(&self.kinds, kind)
    }

    /// Of all operations within multis those of a kind.
    pub(crate) fn part(&self, kind: &str) -> f64 {
        share(&self.parts, kind)
    }

    /// Operations of a multi, in the mean.
    pub(crate) fn multi_size(&self) -> f64 {
        self.parts.values().sum::<u64>() as f64 / self.kinds["multi"] as f64
    }

    fn add(&mut self, request: &[u8]) {
        let mut rest = Fields(request);
        let (_number, code) = (rest.int(), rest.int());
        let Some(kind) = name(code) else { return };
        *self.kinds.entry(kind).or_default() += 1;
        if matches!(kind, "get" | "exists" | "list") && request.last() == Some(&1) {
            *self.watches.entry(kind).or_default() += 1;
        }
        if kind != "multi" {
            return;
        }
        let mut shape = Vec::new();
        loop {
            let (code, done, _error) = (rest.int(), rest.take(1) == [1], rest.int());
            if done {
                break;
            }
            let part = name(code).unwrap_or_else(|| panic!("a part of kind {code}"));
            rest.skip(part);
            *self.parts.entry(part).or_default() += 1;
            shape.push(part);
        }
        *self.shapes.entry(shape.join(" ")).or_default() += 1;
    }
}

fn share(of: &BTreeMap<&'static str, u64>, kind: &str) -> f64 {
    of.get(kind).copied().unwrap_or_default() as f64 / of.values().sum::<u64>() as f64
}

/// A kind by its code (`ZooDefs.OpCode`); none for a session's own: pings, its end, logging in,
/// watches set again.
fn name(code: i32) -> Option<&'static str> {
    Some(match code {
        1 | 15 => "create",
        2 => "remove",
        3 => "exists",
        4 => "get",
        5 => "set",
        8 | 12 => "list",
        9 => "sync",
        13 => "check",
        14 => "multi",
        22 => "multi-read",
        11 | -11 | 100..=102 | 105 | 106 => return None,
        other => panic!("a request of kind {other}"),
    })
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(bytes);
        self.0 = rest;
        head
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    /// A text or bytes; -1 is none of them.
    fn buffer(&mut self) {
        let length = self.int();
        self.take(usize::try_from(length).unwrap_or(0));
    }

    /// What a part of a multi has.
    fn skip(&mut self, part: &str) {
        self.buffer();
        if matches!(part, "create" | "set") {
            self.buffer();
        }
        if part == "create" {
            for _ in 0..self.int() {
                self.take(4);
                self.buffer();
                self.buffer();
            }
        }
        // Flags of a create, the version of any other.
        self.take(4);
    }
}

/// A relay. Dropping it lets nobody in any more; what goes through it goes on.
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
    ends: Arc<AtomicBool>,
}

impl Tap {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let tap = Self { address, counts: Arc::default(), ends: Arc::default() };
        let (counts, ends) = (tap.counts.clone(), tap.ends.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let answers = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || drop(pass(answers.0, answers.1)));
                let counts = counts.clone();
                thread::spawn(move || drop(count(client, server, &counts)));
            }
        });
        tap
    }

    /// What came since the last time that it was asked.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().unwrap())
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let passed = io::copy(&mut from, &mut to);
    to.shutdown(Shutdown::Both)?;
    passed.map(drop)
}

fn count(mut from: TcpStream, mut to: TcpStream, counts: &Mutex<Counts>) -> io::Result<()> {
    let mut greeted = false;
    loop {
        let mut head = [0; 4];
        if let Err(ended) = from.read_exact(&mut head) {
            to.shutdown(Shutdown::Both)?;
            return Err(ended);
        }
        let length = u32::from_be_bytes(head);
        if !greeted && length > REQUEST_BYTES_MAX {
            // A four-letter word.
            return to.write_all(&head);
        }
        let mut message = head.to_vec();
        (&mut from).take(length.into()).read_to_end(&mut message)?;
        if greeted {
            note(counts, &message[head.len()..]);
        }
        greeted = true;
        to.write_all(&message)?;
    }
}

fn note(counts: &Mutex<Counts>, request: &[u8]) {
    counts.lock().unwrap().add(request);
}
