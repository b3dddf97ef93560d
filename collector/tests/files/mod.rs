//! The collector as a process that reads containers' logs: from files as the kubelet lays them out
//! to librdkafka's mock cluster; rotated, killed and started again on the way.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "otlp_logs";
/// What stands before a line's number.
const MARK: &[u8] = b"line ";
/// Digits of a line's number.
const DIGITS: usize = 6;

/// A node: its files, the collector that reads them, and the topic that it writes.
struct Node {
    folder: tempfile::TempDir,
    kafka: MockCluster<'static, DefaultProducerContext>,
    consumer: BaseConsumer,
    /// How often each line came.
    came: BTreeMap<u32, u32>,
    /// Requests that came.
    requests: Vec<Vec<u8>>,
    collector: Option<Child>,
}

impl Node {
    fn new() -> Self {
        let kafka = MockCluster::new(1).unwrap();
        kafka.create_topic(TOPIC, 1, 1).unwrap();
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap_servers())
            .set("group.id", "test")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(TOPIC, 0, Offset::Beginning).unwrap();
        consumer.assign(&place).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (came, requests) = (BTreeMap::new(), Vec::new());
        let node = Self { folder, kafka, consumer, came, requests, collector: None };
        fs::create_dir(node.path("pods")).unwrap();
        let document = format!(
            "admin: {{address: '127.0.0.1:0'}}\n\
             memory: {{limitBytes: 64Mi}}\n\
             positions: {{directory: {:?}}}\n\
             receivers: {{containers: {{directory: {:?}}}}}\n\
             exporters:\n  kafka:\n    topics: {{logs: {TOPIC}}}\n    \
             connection: {{bootstrapServers: ['{}']}}\n",
            node.path("positions"),
            node.path("pods"),
            node.kafka.bootstrap_servers(),
        );
        fs::write(node.path("collector.yaml"), document).unwrap();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-collector"));
        command.arg("run").arg("--config").arg(self.path("collector.yaml"));
        self.collector = Some(command.spawn().expect("a process"));
    }

    /// Ends it at once, as a memory limit does.
    fn kill(&mut self) {
        let mut collector = self.collector.take().unwrap();
        collector.kill().unwrap();
        collector.wait().unwrap();
    }

    /// SIGTERM, then how it ended.
    fn end(&mut self) -> ExitStatus {
        let mut collector = self.collector.take().unwrap();
        let pid = collector.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        collector.wait().unwrap()
    }

    /// Takes what the collector sends until `so`.
    fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            assert!(start.elapsed() < PATIENCE, "not in time: {what}; lines {}", self.came.len());
            let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(20)) else { continue };
            let request = message.payload().unwrap().to_vec();
            for number in numbers(&request) {
                *self.came.entry(number).or_default() += 1;
            }
            self.requests.push(request);
        }
    }

    fn has_all(&self, lines: std::ops::Range<u32>) -> bool {
        lines.into_iter().all(|number| self.came.contains_key(&number))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(collector) = &mut self.collector {
            let _ = collector.kill();
            let _ = collector.wait();
        }
    }
}

/// The numbers of all lines in a request.
fn numbers(request: &[u8]) -> Vec<u32> {
    let places = request.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK);
    let digits = places.filter_map(|(at, _)| request.get(at + MARK.len()..)?.get(..DIGITS));
    digits.map(|digits| std::str::from_utf8(digits).unwrap().parse().unwrap()).collect()
}

/// Writes lines as containerd does.
fn write(path: &Path, lines: std::ops::Range<u32>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for number in lines {
        writeln!(file, "2026-01-01T00:00:00.123456789Z stdout F line {number:0DIGITS$}").unwrap();
    }
}

fn contains(request: &[u8], text: &str) -> bool {
    request.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

/// Scenario: a container's file is read while it is written and rotated; another pod starts; the
/// collector is killed, more is written, rotated and compressed meanwhile, and it is started again;
/// then it
/// is ended in order and started once more. Guarantee: every line comes, with its pod; after an end
/// in order none comes twice.
#[test]
fn every_line_of_a_container_comes_through_rotations_kills_and_restarts() {
    let mut node = Node::new();
    let file = node.path("pods/shop_cart-1_uid-1/app/0.log");
    write(&file, 0..2000);
    node.start();
    node.until("what was there", |node| node.has_all(0..2000));
    write(&file, 2000..3000);
    fs::rename(&file, file.with_file_name("0.log.20260101-000001")).unwrap();
    write(&file, 3000..4000);
    let other = node.path("pods/shop_till-2_uid-2/app/3.log");
    write(&other, 4000..4100);
    node.until("what was rotated, and another pod", |node| node.has_all(0..4100));
    let sent = |node: &Node, pod: &str, number: u32| {
        let line = format!("line {number:0DIGITS$}");
        node.requests.iter().any(|it| contains(it, pod) && contains(it, &line))
    };
    assert!(sent(&node, "cart-1", 0) && sent(&node, "till-2", 4000));
    write(&file, 4100..9000);
    node.until("some of many", |node| node.came.len() > 4100);
    node.kill();
    write(&file, 9000..9500);
    let rotated = file.with_file_name("0.log.20260101-000002");
    fs::rename(&file, &rotated).unwrap();
    // Its rest is in the compressed file alone.
    assert!(Command::new("gzip").arg(&rotated).status().unwrap().success());
    write(&file, 9500..10_000);
    node.start();
    node.until("what was written meanwhile", |node| node.has_all(0..10_000));
    assert!(node.end().success());
    let before: u32 = node.came.values().sum();
    write(&other, 10_000..10_001);
    node.start();
    node.until("one line more", |node| node.has_all(0..10_001));
    assert!(node.end().success());
    assert_eq!(node.came.values().sum::<u32>(), before + 1, "lines came again");
}
