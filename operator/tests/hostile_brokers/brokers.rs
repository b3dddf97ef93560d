//! Clusters of one broker that speaks just enough of Kafka's protocol to be asked something, and
//! then does what it likes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Kinds of requests by the protocol's numbers.
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
/// The kinds that it says it knows, each in one version: those above, offsets, groups, settings.
const KNOWN: [(i16, i16, i16); 6] =
    [(2, 1, 2), (METADATA, 4, 4), (9, 1, 5), (10, 1, 2), (API_VERSIONS, 0, 3), (32, 1, 1)];

/// How long one that stops or drips waits.
const PAUSE: Duration = Duration::from_millis(20);

/// What a cluster does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Will {
    /// Begins an answer of so many bytes, unasked, and stops before its last ones.
    Stop(usize),
    /// The same, and goes on byte by byte.
    Drip(usize),
    /// Sends answers of so many bytes, unasked, one after the other.
    Flood(usize),
    /// Answers with metadata of so many bytes.
    Metadata(usize),
    /// Names so many brokers as its own.
    Brokers(i32),
}

/// A cluster. Takes no more connections once it is dropped.
pub(crate) struct Cluster {
    address: SocketAddr,
    was_hostile: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Cluster {
    pub(crate) fn start(will: Will) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (was_hostile, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(false.into()));
        let this = Self { address, was_hostile: was_hostile.clone(), ended: Arc::clone(&ended) };
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let broker = Broker {
                    will,
                    address,
                    was_hostile: was_hostile.clone(),
                    ended: ended.clone(),
                };
                thread::spawn(move || broker.serve(client));
            }
        });
        this
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it came to do what it likes.
    pub(crate) fn was_hostile(&self) -> bool {
        self.was_hostile.load(Ordering::Acquire)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the one who accepts.
        drop(TcpStream::connect(self.address));
    }
}

/// One connection's side.
struct Broker {
    will: Will,
    address: SocketAddr,
    was_hostile: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Broker {
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        loop {
            let mut size = [0; 4];
            client.read_exact(&mut size)?;
            let mut request = vec![0; u32::from_be_bytes(size) as usize];
            client.read_exact(&mut request)?;
            let (kind, version) = (short(&request, 0), short(&request, 2));
            let body = match kind {
                API_VERSIONS => versions(version),
                METADATA => self.metadata(),
                _ => continue,
            };
            client.write_all(&[&length(body.len() + 4), &request[4..8], &body].concat())?;
            if kind == METADATA {
                self.was_hostile.store(true, Ordering::Release);
                self.push(&mut client)?;
            }
        }
    }

    fn push(&self, client: &mut TcpStream) -> std::io::Result<()> {
        let (Will::Stop(bytes) | Will::Drip(bytes) | Will::Flood(bytes)) = self.will else {
            return Ok(());
        };
        let mut answer = vec![0xff; bytes + 4];
        answer[..4].copy_from_slice(&length(bytes));
        let most = bytes - bytes / 16;
        match self.will {
            Will::Flood(_) => loop {
                client.write_all(&answer)?;
            },
            _ => client.write_all(&answer[..most])?,
        }
        while !self.ended.load(Ordering::Acquire) {
            thread::sleep(PAUSE);
            if matches!(self.will, Will::Drip(_)) {
                client.write_all(&[0])?;
            }
        }
        Ok(())
    }

    /// In version 4: its brokers, and one topic.
    fn metadata(&self) -> Vec<u8> {
        let (brokers, bytes) = match self.will {
            Will::Brokers(count) => (count, 0),
            Will::Metadata(bytes) => (1, bytes),
            _ => (1, 0),
        };
        let mut body = 0_i32.to_be_bytes().to_vec();
        body.extend(brokers.to_be_bytes());
        for id in 1..=brokers {
            body.extend(id.to_be_bytes());
            body.extend(text("127.0.0.1"));
            body.extend(i32::from(self.address.port()).to_be_bytes());
            body.extend((-1_i16).to_be_bytes());
        }
        body.extend((-1_i16).to_be_bytes());
        body.extend([1_i32.to_be_bytes(), 1_i32.to_be_bytes()].concat());
        body.extend([0, 0].into_iter().chain(text("t")).chain([0]));
        /// An error, a number, a leader, and replicas, in sync or not, of which there are none.
        const PARTITION_BYTES: usize = 18;
        let room = bytes.saturating_sub(body.len() + 8) / PARTITION_BYTES;
        let partitions = i32::try_from(room.clamp(3, 99_999)).unwrap();
        body.extend(partitions.to_be_bytes());
        for number in 0..partitions {
            let leader = 1 + number % brokers;
            body.extend([0, 0]);
            body.extend([number, leader, 0, 0].iter().flat_map(|it| it.to_be_bytes()));
        }
        body.resize(body.len().max(bytes.saturating_sub(4)), 0);
        body
    }
}

/// As an answer begins.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap().to_be_bytes()
}

fn short(request: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([request[at], request[at + 1]])
}

fn text(text: &str) -> Vec<u8> {
    [&i16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

/// The kinds it knows, in the version asked for.
fn versions(version: i16) -> Vec<u8> {
    let count = i32::try_from(KNOWN.len()).unwrap();
    let is_compact = version >= 3;
    let mut body = vec![0, 0];
    match is_compact {
        true => body.push(u8::try_from(count + 1).unwrap()),
        false => body.extend(count.to_be_bytes()),
    }
    for (kind, from, to) in KNOWN {
        body.extend([kind, from, to].iter().flat_map(|it| it.to_be_bytes()));
        body.extend(is_compact.then_some(0));
    }
    if version >= 1 {
        body.extend(0_i32.to_be_bytes());
    }
    body.extend(is_compact.then_some(0));
    body
}
