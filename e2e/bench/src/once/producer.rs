//! The program that sends: with the settings of the collector's producer, with or without
//! transactions. It prints one line of JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use cpu_time::ProcessTime;
use millrace_lines::{
    Container, FileAttributes, LineReader, LogsRequest, RecordRules, TextEncoding,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};

use super::job::{Job, Load, Made};
use crate::files::{Text, Words};
use crate::say;

/// As in the collector's producer: messages under way, its thread's wait, and room in a message.
const UNDER_WAY: usize = 8;
const POLL: Duration = Duration::from_millis(500);
const MESSAGE_MAX_BYTES: &str = "1064960";
/// The receiver's requests.
const REQUEST_BYTES: usize = 1_000_000;
const RECORD_BYTES: usize = 256 * 1024;
/// Different requests of a producer, sent in turns.
const POOL: usize = 8;
/// Files of a node that are written; each has 24 bytes in a record of positions.
const FILES: usize = 100;
const POSITION_BYTES: usize = 24;
/// A broker of the same machine answers sooner, or is broken.
const LIMIT: Duration = Duration::from_secs(30);

/// A request and its lines.
struct Sent {
    bytes: Vec<u8>,
    lines: u64,
}

/// Messages that the broker hasn't answered for.
#[derive(Default)]
struct Open {
    state: Mutex<(usize, Option<KafkaError>)>,
    changed: Condvar,
    ends: AtomicBool,
}

#[derive(Clone, Default)]
struct Deliveries(Arc<Open>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.saturating_sub(1);
        if let Err((error, _)) = result {
            state.1 = Some(error.clone());
        }
        self.0.changed.notify_all();
    }
}

impl Open {
    /// Waits until at most `count` are open, and counts one more if `adds`.
    fn wait(&self, count: usize, adds: bool) -> Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut state, late) = self
            .changed
            .wait_timeout_while(state, LIMIT, |(open, error)| *open > count && error.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.1.clone() {
            return Err(error).context("a message was not taken");
        }
        if late.timed_out() {
            bail!("{} messages have no answer", state.0);
        }
        state.0 += usize::from(adds);
        Ok(())
    }
}

/// Does what `text` says, as JSON, and prints what it came to.
pub(crate) fn run(text: &str) -> Result<()> {
    let job: Job = serde_json::from_str(text)?;
    let lines = match job.load {
        Load::Full => u64::MAX,
        Load::Steady => job.request_lines(),
    };
    let pool: Vec<Sent> = (0..POOL).map(|seed| request(seed as u64, lines)).collect();
    let clients =
        (0..job.producers).map(|number| Client::new(&job, number)).collect::<Result<Vec<_>>>()?;
    let (cpu, began) = (ProcessTime::now(), Instant::now());
    let all = thread::scope(|scope| {
        let (job, pool) = (&job, &pool);
        let send = |client| scope.spawn(move || Client::send_all(client, job, pool, began));
        let threads: Vec<_> = clients.iter().map(send).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Made>>| match thread.join() {
            Ok(made) => made,
            Err(_) => bail!("a producer's thread ended"),
        };
        threads.into_iter().map(join).collect::<Result<Vec<Made>>>()
    })?;
    let mut sum = Made {
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: cpu.elapsed().as_secs_f64(),
        ..Made::default()
    };
    for made in all {
        sum.lines += made.lines;
        sum.messages += made.messages;
        sum.commits += made.commits;
        sum.commit_seconds += made.commit_seconds;
    }
    say::line(&serde_json::to_string(&sum)?);
    Ok(())
}

/// A request of so many lines, or as many as it holds: those of many pods, a few of each.
fn request(seed: u64, lines: u64) -> Sent {
    let form = Arc::new(RecordRules {
        container: Container::Detect,
        encoding: TextEncoding::Utf8,
        multiline: None,
        parse: None,
        max_record_bytes: RECORD_BYTES,
        timeout_nanos: u64::MAX,
    });
    let mut words = Words::new(seed);
    let mut request = LogsRequest::with_limit(REQUEST_BYTES);
    let (mut number, files) = (0, FILES as u64);
    // Of each pod what makes a full request, or its share of the lines.
    let each = lines.min(4_000).div_ceil(files);
    for pod in 0..files {
        let name = format!("shop-5c7d9b6f4-{pod:05}");
        let source = FileAttributes::new(
            &[
                ("k8s.namespace.name", "shop"),
                ("k8s.pod.name", &name),
                ("k8s.container.name", "app"),
            ],
            &[],
        );
        let mut text = String::new();
        for _ in 0..each.min(lines - number.min(lines)) {
            text += &words.record(Text::Container, number);
            number += 1;
        }
        let mut reader = LineReader::new(Arc::clone(&form), 0);
        reader.read_bytes(text.as_bytes(), 0, &mut request.begin_records(&source));
        if request.is_full() {
            break;
        }
    }
    Sent { bytes: request.bytes().to_vec(), lines: request.record_count() }
}

/// A client of the broker: a node's collector.
struct Client {
    producer: Arc<BaseProducer<Deliveries>>,
    open: Arc<Open>,
    thread: Option<thread::JoinHandle<()>>,
    number: u32,
}

impl Client {
    fn new(job: &Job, number: u32) -> Result<Self> {
        let deliveries = Deliveries::default();
        let open = Arc::clone(&deliveries.0);
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &job.bootstrap)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("compression.codec", "zstd")
            .set("compression.level", "1")
            .set("linger.ms", "0")
            .set("message.max.bytes", MESSAGE_MAX_BYTES)
            .set("batch.size", MESSAGE_MAX_BYTES);
        if job.commit_millis.is_some() {
            config.set("transactional.id", format!("{}-{number}", job.topic));
        }
        let producer: BaseProducer<Deliveries> = config.create_with_context(deliveries)?;
        let producer = Arc::new(producer);
        let (polled, ending) = (Arc::clone(&producer), Arc::clone(&open));
        let poll = move || {
            while !ending.ends.load(Ordering::Acquire) {
                polled.poll(POLL);
            }
        };
        let thread = Some(thread::Builder::new().name("deliveries".to_owned()).spawn(poll)?);
        if job.commit_millis.is_some() {
            producer.init_transactions(LIMIT).context("no transactions")?;
        } else {
            producer.client().fetch_metadata(Some(&job.topic), LIMIT)?;
        }
        Ok(Self { producer, open, thread, number })
    }

    /// Sends until the time is over, then waits for all answers.
    fn send_all(&self, job: &Job, pool: &[Sent], began: Instant) -> Result<Made> {
        let mut made = Made::default();
        let until = Duration::from_secs(job.seconds);
        let commit_after = job.commit_millis.map(Duration::from_millis);
        let between = Duration::from_millis(job.request_millis);
        // Nodes don't send at the same moment.
        let shift = between * self.number / job.producers.max(1);
        let mut transaction: Option<Instant> = None;
        for (turn, sent) in (1_u32..).zip(pool.iter().cycle()) {
            if job.load == Load::Steady {
                let due = shift + between * turn;
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
            if began.elapsed() >= until {
                break;
            }
            if commit_after.is_some() && transaction.is_none() {
                self.producer.begin_transaction()?;
                transaction = Some(Instant::now());
            }
            self.open.wait(UNDER_WAY - 1, true)?;
            self.send(job, sent)?;
            made.lines += sent.lines;
            made.messages += 1;
            let is_due = |since: Instant| {
                // The request that ends a period is in its transaction.
                let slack = between + between / 4;
                commit_after.is_some_and(|after| since.elapsed() + slack >= after)
            };
            if transaction.is_some_and(is_due) {
                self.commit(job, &mut made)?;
                transaction = None;
            }
        }
        if transaction.is_some() {
            self.commit(job, &mut made)?;
        }
        self.open.wait(0, false)?;
        Ok(made)
    }

    fn send(&self, job: &Job, sent: &Sent) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let first_line = i64::try_from(now)? - i64::try_from(job.request_millis)?;
        let mut record = BaseRecord::<(), [u8]>::to(&job.topic)
            .payload(sent.bytes.as_slice())
            .timestamp(first_line);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => return Err(error).context("cannot enqueue"),
            }
        }
    }

    /// Positions of all files in one record, and the commit: nothing is sent until it is answered.
    fn commit(&self, job: &Job, made: &mut Made) -> Result<()> {
        let began = Instant::now();
        let positions = [7; FILES * POSITION_BYTES];
        let key = self.number.to_be_bytes();
        let record = BaseRecord::<[u8], [u8]>::to(&job.positions).key(&key).payload(&positions);
        self.open.wait(usize::MAX, true)?;
        self.producer.send(record).map_err(|(error, _)| error)?;
        self.open.wait(0, false)?;
        // The client's own flush would wait for 100 ms if it had anything to wait for.
        while self.producer.in_flight_count() > 0 {
            thread::sleep(Duration::from_micros(100));
        }
        self.producer.commit_transaction(LIMIT).context("not committed")?;
        made.commits += 1;
        made.commit_seconds += began.elapsed().as_secs_f64();
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.open.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
