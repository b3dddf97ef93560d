//! A whole gateway as a process, from librdkafka's mock cluster to a ClickHouse that is in trouble
//! with one table: what that costs the other signals, and what becomes of the table's own.

mod clickhouse;

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use clickhouse::{ClickHouse, Trouble};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// For how long messages are counted: 60 inserts, as the window's four places let through.
const COUNTED: Duration = Duration::from_secs(9);
/// How often they are counted at most while a table is in trouble. The server's pace is an upper
/// bound, so a busy machine only takes away from a count: one good count shows the rate, a fault
/// spoils all. Next to a compiler three counts were too few.
const ROUNDS: usize = 8;
/// Rows of an insert. As many are sent to a partition at once, and age cuts no batch before it has
/// them: what is stored in a time is then what the window lets through.
const INSERT_ROWS: i64 = 10;
/// How long an insert may take. A table that doesn't answer is set aside within a twelfth of it.
const INSERT_TIMEOUT_SECONDS: u64 = 12;

/// One signal's messages, each of one record.
struct Load {
    topic: &'static str,
    partitions: i32,
    /// Messages of a partition that are sent and not stored yet, at most.
    backlog: i64,
    message: Vec<u8>,
    sent: Vec<i64>,
}

impl Load {
    fn new(topic: &'static str, partitions: i32, backlog: i64, message: Vec<u8>) -> Self {
        let sent = vec![0; partitions as usize];
        Self { topic, partitions, backlog, message, sent }
    }

    /// Sends as much as may be waiting.
    fn send(&mut self, world: &World) {
        for partition in 0..self.partitions {
            let sent = &mut self.sent[partition as usize];
            let stored = world.clickhouse.stored(self.topic, partition);
            while *sent - stored + INSERT_ROWS <= self.backlog {
                for _ in 0..INSERT_ROWS {
                    let record = BaseRecord::<(), _>::to(self.topic).partition(partition);
                    world.producer.send(record.payload(&self.message)).unwrap();
                    *sent += 1;
                }
            }
        }
    }

    fn stored(&self, world: &World) -> i64 {
        (0..self.partitions).map(|p| world.clickhouse.stored(self.topic, p)).sum()
    }

    /// Waits until everything is stored; all of it must be, once.
    fn ends_whole(&self, world: &World) {
        let start = Instant::now();
        while self.stored(world) < self.sent.iter().sum() {
            assert!(start.elapsed() < PATIENCE, "{}: not all is stored", self.topic);
            thread::sleep(Duration::from_millis(20));
        }
        for partition in 0..self.partitions {
            let mut next = 0;
            for range in world.clickhouse.ranges(self.topic, partition) {
                assert_eq!(range.start, next, "{} {partition}: lost or doubled", self.topic);
                next = range.end;
            }
            assert_eq!(next, self.sent[partition as usize], "{} {partition}", self.topic);
        }
    }
}

/// The gateway and what it stands between.
struct World {
    clickhouse: ClickHouse,
    producer: BaseProducer,
    gateway: Child,
    _settings: tempfile::TempDir,
    _kafka: MockCluster<'static, DefaultProducerContext>,
}

impl World {
    /// One worker, inserts of ten rows, and 51 MiB for records, of which a quarter is fetched
    /// ahead.
    fn start(loads: &[&Load]) -> Self {
        let kafka = MockCluster::new(1).unwrap();
        for load in loads {
            kafka.create_topic(load.topic, load.partitions, 1).unwrap();
        }
        let servers = kafka.bootstrap_servers();
        let clickhouse = ClickHouse::start();
        let document = format!(
            "admin: {{address: '127.0.0.1:0'}}\n\
             memory: {{limitBytes: 256Mi, budgetPercent: 20}}\n\
             receivers:\n  kafka:\n    workers: 1\n    \
             topics: {{traces: otlp_traces, logs: otlp_logs, metrics: otlp_metrics}}\n    \
             connection: {{bootstrapServers: ['{servers}']}}\n\
             exporters:\n  clickhouse:\n    endpoints: ['{}']\n    attributes: JSON\n    \
             maxInsertsInFlight: 4\n    \
             insertTimeoutSeconds: {INSERT_TIMEOUT_SECONDS}\n    \
             batch: {{maxRows: {INSERT_ROWS}, maxAgeMillis: 10000}}\n",
            clickhouse.url(),
        );
        let settings = tempfile::tempdir().unwrap();
        let path = settings.path().join("collector.yaml");
        fs::write(&path, document).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-collector"));
        let gateway = command.arg("run").arg("--config").arg(&path).spawn().expect("a process");
        let producer = ClientConfig::new()
            .set("bootstrap.servers", servers)
            .set("linger.ms", "0")
            .create()
            .unwrap();
        Self { clickhouse, producer, gateway, _settings: settings, _kafka: kafka }
    }

    fn send_until(&self, loads: &mut [&mut Load], mut so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            assert!(start.elapsed() < PATIENCE, "not in time");
            loads.iter_mut().for_each(|load| load.send(self));
            self.producer.poll(Duration::from_millis(2));
        }
    }

    /// Messages of each load that are stored while [`COUNTED`] passes.
    fn rates<const N: usize>(&self, loads: &mut [&mut Load; N]) -> [i64; N] {
        let stored = |loads: &[&mut Load; N]| loads.each_ref().map(|load| load.stored(self));
        let (before, start) = (stored(loads), Instant::now());
        self.send_until(loads.as_mut_slice(), |_| start.elapsed() >= COUNTED);
        let after = stored(loads);
        std::array::from_fn(|n| after[n] - before[n])
    }

    /// SIGTERM, then how it ended.
    fn end(mut self) -> ExitStatus {
        let pid = self.gateway.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.gateway.wait().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.gateway.kill();
        let _ = self.gateway.wait();
    }
}

/// A field of protobuf with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// A request of any signal: one resource, one scope, one record (of `number` in the scope).
fn request(number: u8, record: &[u8]) -> Vec<u8> {
    field(1, &field(2, &field(number, record)))
}

fn traces() -> Load {
    Load::new("otlp_traces", 12, 20, request(2, &field(5, b"a span")))
}

fn metrics() -> Load {
    // A point with the value 1.
    let point = [&[4 << 3 | 1][..], &1_f64.to_le_bytes()].concat();
    let metric = [field(1, b"a metric"), field(5, &field(1, &point))].concat();
    Load::new("otlp_metrics", 12, 20, request(2, &metric))
}

/// Long lines that don't compress on many partitions: a batch of 2 MB of each is more than the
/// gateway's budget holds beside what it fetches and the other signals' batches, and all that waits
/// of a partition is less than the 5 MiB that a mock broker keeps.
fn logs() -> Load {
    let mut state = 7_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b' ' + (state >> 24) as u8 % 90
    };
    let line: Vec<u8> = (0..200_000).map(|_| letter()).collect();
    Load::new("otlp_logs", 16, 20, request(2, &field(5, &field(1, &line))))
}

/// Runs spans and metric points through a gateway whose inserts are what is scarce, then logs
/// beside them, with the logs' table in trouble.
fn one_table_in_trouble(trouble: Trouble) {
    let (mut traces, mut metrics, mut logs) = (traces(), metrics(), logs());
    let world = World::start(&[&traces, &metrics, &logs]);
    world.send_until(&mut [&mut traces, &mut metrics], |world| {
        world.clickhouse.stored("otlp_traces", 0) > 0
            && world.clickhouse.stored("otlp_metrics", 0) > 0
    });
    let usual = world.rates(&mut [&mut traces, &mut metrics]);
    assert!(usual.iter().all(|rate| *rate > 0), "{usual:?}");
    world.clickhouse.trouble(Some(("otel_logs", trouble)));
    let mut met: Option<Instant> = None;
    world.send_until(&mut [&mut traces, &mut metrics, &mut logs], |world| {
        if world.clickhouse.troubled() > 0 {
            met.get_or_insert_with(Instant::now);
        }
        let noticed = match trouble {
            Trouble::Code(_) => Duration::ZERO,
            Trouble::Hang => Duration::from_secs(INSERT_TIMEOUT_SECONDS) / 6,
        };
        met.is_some_and(|met| met.elapsed() >= noticed)
    });
    let (mut kept, mut rounds) = (false, Vec::new());
    while !kept && rounds.len() < ROUNDS {
        let during = world.rates(&mut [&mut traces, &mut metrics, &mut logs]);
        assert_eq!(during[2], 0, "logs are in trouble");
        let sum: i64 = during.iter().sum();
        let neither_starves = during[..2].iter().all(|rate| rate * 10 >= sum);
        kept = neither_starves && sum * 10 >= usual.iter().sum::<i64>() * 9;
        rounds.push(during);
    }
    assert!(kept, "{trouble:?}: the others' rates fell: {rounds:?} in place of {usual:?}");
    world.clickhouse.trouble(None);
    for load in [&traces, &metrics, &logs] {
        load.ends_whole(&world);
    }
    let status = world.end();
    assert!(status.success(), "{status}");
}

/// Scenario: a gateway at its full rate with spans and metric points; then logs come, in batches
/// that together are more than its memory budget, and the server says of their table alone that it
/// has too many parts; then takes them. Guarantee: spans and points keep nine tenths at least of
/// the rate they had while there were no logs at all, and neither starves (how the places divide
/// among the two varies in seconds, by whose batches came first); all logs are stored in the end;
/// nothing is lost or doubled. Slow: messages are counted for 9 s before the trouble, and for 9 s
/// up to eight times during it.
#[test]
fn a_table_with_too_many_parts_costs_the_other_signals_nothing() {
    one_table_in_trouble(Trouble::Code(252));
}

/// Scenario: the same, but inserts into logs' table are read and never answered. Guarantee: the
/// same, once the server had a sixth of an insert's time-out to answer. Slow: messages are counted
/// for 9 s before the trouble, and for 9 s up to eight times during it.
#[test]
fn a_table_that_hangs_costs_the_other_signals_nothing() {
    one_table_in_trouble(Trouble::Hang);
}
