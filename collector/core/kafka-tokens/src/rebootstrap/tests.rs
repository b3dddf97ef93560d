//! A broker that leaves itself out of its answers, and when servers are added again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::*;

/// The number of clients that meet the broker while it lists none.
const CLIENTS: usize = 20;

/// A broker that only answers requests for metadata, and that may leave itself out of its answers.
struct Broker {
    address: String,
    is_listed: Arc<AtomicBool>,
}

impl Broker {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_listed = Arc::new(AtomicBool::new(true));
        let listed = Arc::clone(&is_listed);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let listed = Arc::clone(&listed);
                thread::spawn(move || answer_requests(stream.unwrap(), port, &listed));
            }
        });
        Self { address: format!("127.0.0.1:{port}"), is_listed }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.address)
            // The oldest form of metadata.
            .set("api.version.request", "false")
            .set("broker.version.fallback", "0.9.0")
            .set("reconnect.backoff.ms", "10")
            .set("reconnect.backoff.max.ms", "100");
        config
    }

    fn client(&self) -> BaseConsumer {
        self.config().create().unwrap()
    }
}

/// Answers until the client closes the connection.
fn answer_requests(mut stream: TcpStream, port: u16, is_listed: &AtomicBool) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut request).is_err() {
            return;
        }
        let mut answer = request[4..8].to_vec();
        let listed = is_listed.load(Ordering::Acquire);
        answer.extend(i32::from(listed).to_be_bytes());
        if listed {
            answer.extend(1_i32.to_be_bytes());
            answer.extend(b"\0\x09127.0.0.1");
            answer.extend(i32::from(port).to_be_bytes());
        }
        // One topic, without an error and without partitions. The library expects that an answer in
        // memory is at most four times as long as sent, which is wrong for one this short.
        answer.extend([0, 0, 0, 1, 0, 0, 0, 1, b't', 0, 0, 0, 0]);
        answer.extend([0; 256]);
        let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
        if stream.write_all(&[&length[..], &answer].concat()).is_err() {
            return;
        }
    }
}

/// Returns the number of brokers in an answer to the client; `None` without an answer.
fn count_brokers(client: &BaseConsumer) -> Option<usize> {
    let answer = client.fetch_metadata(Some("t"), Duration::from_millis(300));
    answer.ok().map(|metadata| metadata.brokers().len())
}

/// Scenario: clients know a broker, which then leaves itself out of an answer, as one of KRaft does
/// at its start, and lists itself again afterwards. Guarantee: each client reaches it again once
/// what it reported is due, also those that knew no broker any more.
#[test]
fn a_client_whose_brokers_listed_none_reaches_them_again() {
    let broker = Broker::start();
    let mut lost = 0;
    for round in 0..CLIENTS {
        broker.is_listed.store(true, Ordering::Release);
        let client = broker.client();
        assert_eq!(count_brokers(&client), Some(1), "round {round}");
        broker.is_listed.store(false, Ordering::Release);
        count_brokers(&client);
        broker.is_listed.store(true, Ordering::Release);
        if count_brokers(&client).is_some() {
            continue;
        }
        lost += 1;
        let (plan, now) = (Rebootstrap::of_client(&broker.config()), Instant::now());
        plan.report_unreachable(now);
        let found = DELAYS.iter().any(|delay| {
            assert!(plan.run_due(&client, now + *delay));
            count_brokers(&client) == Some(1)
        });
        assert!(found, "round {round}: the client never reaches the broker again");
    }
    println!("{lost} of {CLIENTS} clients knew no broker any more");
}

/// Scenario: a report, a second one while times are left, and one after them. Guarantee: the servers
/// are added at three times after the first, and at three after the last.
#[test]
fn a_report_is_followed_by_three_tries_and_a_report_meanwhile_changes_nothing() {
    let broker = Broker::start();
    let client = broker.client();
    let (plan, start) = (Rebootstrap::of_client(&broker.config()), Instant::now());
    let due_at = |now: Instant| plan.run_due(&client, now);
    assert!(!due_at(start), "nothing was reported");
    plan.report_unreachable(start);
    assert!(!due_at(start + DELAYS[0] - Duration::from_millis(1)));
    assert!(due_at(start + DELAYS[0]));
    plan.report_unreachable(start + DELAYS[0]);
    assert!(!due_at(start + DELAYS[0]));
    assert!(due_at(start + DELAYS[1]) && due_at(start + DELAYS[2]));
    assert!(!due_at(start + DELAYS[2] * 2), "the second report added no times");
    plan.report_unreachable(start + DELAYS[2]);
    assert!(due_at(start + DELAYS[2] + DELAYS[0]));
}
