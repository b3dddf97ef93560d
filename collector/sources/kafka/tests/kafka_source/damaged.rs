//! Records whose bytes change between the broker and the gateway.

use std::io::{Read, Write, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// The host of mock brokers.
const HOST: &[u8] = b"127.0.0.1";

/// A proxy between clients and the one mock broker. It changes one byte to a client, once: the last
/// of the first record that ends with the given text.
struct Proxy {
    address: SocketAddr,
    way: Arc<Way>,
}

struct Way {
    broker: SocketAddr,
    record: &'static [u8],
    is_changed: AtomicBool,
    is_stopped: AtomicBool,
}

impl Proxy {
    fn start(kafka: &Kafka, record: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::new(Way {
            broker: kafka.cluster.bootstrap_servers().parse().unwrap(),
            record: record.as_bytes(),
            is_changed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&way);
        thread::spawn(move || {
            for client in listener.incoming() {
                if serving.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let way = Arc::clone(&serving);
                thread::spawn(move || way.serve(&client.unwrap(), address.port()));
            }
        });
        Self { address, way }
    }

    fn has_changed_it(&self) -> bool {
        self.way.is_changed.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.way.is_stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Way {
    /// Serves one connection, until either side closes it.
    fn serve(&self, client: &TcpStream, port: u16) {
        let Ok(broker) = TcpStream::connect(self.broker) else { return };
        let (mut requests, mut to_broker) =
            (client.try_clone().unwrap(), broker.try_clone().unwrap());
        let up = thread::spawn(move || {
            let _ = copy(&mut requests, &mut to_broker);
            let _ = to_broker.shutdown(std::net::Shutdown::Both);
        });
        let (mut answers, mut to_client) = (&broker, client);
        while let Some(mut answer) = read_answer(&mut answers) {
            self.change(&mut answer, port);
            if to_client.write_all(&answer).is_err() {
                break;
            }
        }
        let _ = client.shutdown(std::net::Shutdown::Both);
        up.join().unwrap();
    }

    /// Replaces the broker's address in an answer by this proxy's, and changes the record.
    fn change(&self, answer: &mut [u8], port: u16) {
        let named = [HOST, &u32::from(self.broker.port()).to_be_bytes()[..]].concat();
        let ours = [HOST, &u32::from(port).to_be_bytes()[..]].concat();
        while let Some(at) = answer.windows(named.len()).position(|bytes| bytes == named) {
            answer[at..at + named.len()].copy_from_slice(&ours);
        }
        let length = self.record.len();
        if let Some(at) = answer.windows(length).position(|bytes| bytes == self.record)
            && !self.is_changed.swap(true, Ordering::SeqCst)
        {
            answer[at + length - 1] ^= 1;
        }
    }
}

/// Reads one answer with its length before it.
fn read_answer(broker: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    broker.read_exact(&mut length).ok()?;
    let mut answer = length.to_vec();
    answer.resize(4 + u32::from_be_bytes(length) as usize, 0);
    broker.read_exact(&mut answer[4..]).ok()?;
    Some(answer)
}

/// Scenario: effectively once; one byte of a record's payload changes once between the broker and
/// the gateway. Guarantee: the damaged record is never stored; it is fetched again and stored as it
/// was sent, and every other one once: an insert that was in flight by then may be repeated under
/// its token, and a table drops it. Slow: the mock group waits 3 s before it assigns partitions,
/// and librdkafka waits before it fetches again.
#[test]
fn a_record_that_is_altered_on_its_way_is_fetched_again_and_stored_as_it_was() {
    let kafka = Kafka::new(1);
    let proxy = Proxy::start(&kafka, "m00014");
    let sink = FakeSink::new(Mode::Store);
    kafka.send(0, messages("m", 30));
    let servers = Some(proxy.address.to_string());
    let delivery = DeliveryMode::EffectivelyOnce;
    let options = Options { servers, delivery, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("committed", || kafka.committed(0) == Some(30));
    assert!(proxy.has_changed_it());
    let mut inserts = sink.stored();
    inserts.sort_by(|a, b| a.messages.cmp(&b.messages));
    inserts.dedup();
    let stored: Vec<String> = inserts.into_iter().flat_map(|insert| insert.messages).collect();
    assert_eq!(stored, messages("m", 30));
    running.stop();
}
