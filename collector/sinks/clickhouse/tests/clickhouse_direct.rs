//! The direct publisher against a scripted sink: what is batched, when it is cut, and how each
//! client is answered.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use millrace_config::{AcknowledgeInsert, Attributes, Batch, ByteSize, ClickHouseExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::component::RunningExporter as _;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::sink::{
    AppendedMessage, Block, BlockSlice, Completion, DeliveryOutcome, Encoder, Insert, QueueFull,
    Rejection, Sink, TableIndex,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_sink_clickhouse::{DirectParts, DirectPublisher};
use millrace_wire::Signal;
use millrace_wire::otlp::RequestOutline;

/// A time limit longer than any wait here, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests are texts here; the server refuses one that contains this.
const BAD: &[u8] = b"bad";
/// More than two requests that contain this exceed the server's memory.
const BIG: &[u8] = b"big";
/// A request that contains this can't be encoded.
const ODD: &[u8] = b"odd";

/// How the sink handles inserts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Store,
    Hold,
    Full,
}

/// A sink where a row is a request, and a block's body is its requests, each ended by a line break.
struct FakeSink {
    mode: Mutex<Mode>,
    reachable: Mutex<bool>,
    seen: mpsc::SyncSender<(String, Vec<u8>)>,
    held: Mutex<Vec<(Insert, Completion)>>,
}

#[derive(Default)]
struct FakeEncoder(Vec<u8>, usize);

impl Encoder for FakeEncoder {
    fn append(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection> {
        if message.windows(3).any(|w| w == ODD) {
            return Err(Rejection { reason: "odd", detail: String::new() });
        }
        self.0.extend_from_slice(message);
        self.0.push(b'\n');
        self.1 += 1;
        Ok(AppendedMessage { records: 1 })
    }

    fn row_count(&self) -> usize {
        self.1
    }

    fn plain_bytes(&self) -> usize {
        self.0.len()
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        let (body, rows) = (std::mem::take(&mut self.0), std::mem::take(&mut self.1) as u64);
        if rows == 0 {
            return Vec::new();
        }
        vec![Block {
            table: TableIndex(0),
            table_name: "t".into(),
            slice: BlockSlice { day: 7, number: 0 },
            rows,
            records: rows,
            plain_bytes: body.len() as u64,
            is_self_telemetry: false,
            body: body.into(),
        }]
    }
}

impl FakeSink {
    fn answer(insert: &Insert, completion: Completion) {
        let big = insert.block.body.to_vec().windows(3).filter(|w| *w == BIG).count();
        if big > 2 {
            // As in the real sink: returned if it has several requests, else retried for ever.
            assert!(insert.origin.range.span() > 1, "an insert of {big} requests is one request's");
            let reason = "too_much_for_clickhouse";
            completion.finish_with(DeliveryOutcome::Rejected(Rejection {
                reason,
                detail: String::new(),
            }));
            return;
        }
        let bad = insert.block.body.to_vec().windows(3).any(|w| w == BAD);
        completion.finish_with(if bad {
            DeliveryOutcome::Rejected(Rejection { reason: "bad_rows", detail: String::new() })
        } else {
            DeliveryOutcome::Stored
        });
    }

    fn let_go(&self) {
        *self.mode.lock().unwrap() = Mode::Store;
        for (insert, completion) in std::mem::take(&mut *self.held.lock().unwrap()) {
            Self::answer(&insert, completion);
        }
    }
}

impl Sink for FakeSink {
    fn new_encoder(&self, _: Signal) -> Box<dyn Encoder> {
        Box::<FakeEncoder>::default()
    }

    fn is_reachable(&self) -> bool {
        *self.reachable.lock().unwrap()
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>> {
        let mode = *self.mode.lock().unwrap();
        if mode == Mode::Full {
            return Err(Box::new(QueueFull { work: insert, completion }));
        }
        let sight = (insert.dedup_token(), insert.block.body.to_vec());
        if mode == Mode::Hold {
            // Hold it before it is reported: the test may release it at once.
            self.held.lock().unwrap().push((insert, completion));
            self.seen.try_send(sight).unwrap();
        } else {
            self.seen.try_send(sight).unwrap();
            Self::answer(&insert, completion);
        }
        Ok(())
    }
}

struct Rig {
    publisher: DirectPublisher,
    sink: Arc<FakeSink>,
    seen: mpsc::Receiver<(String, Vec<u8>)>,
    budget: Budget,
    drain: Drain,
    telemetry: Arc<Telemetry>,
}

impl Rig {
    fn new(mode: Mode, max_rows: u32, max_age_millis: u32) -> Self {
        Self::with(mode, max_rows, max_age_millis, AcknowledgeInsert::AfterInsert)
    }

    fn with(
        mode: Mode,
        max_rows: u32,
        max_age_millis: u32,
        acknowledge: AcknowledgeInsert,
    ) -> Self {
        let (sender, seen) = mpsc::sync_channel(1000);
        let sink = Arc::new(FakeSink {
            mode: Mutex::new(mode),
            reachable: Mutex::new(true),
            seen: sender,
            held: Mutex::default(),
        });
        let budget = Budget::new(16 << 20);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "test", "system").unwrap());
        let drain = Drain::new(Duration::from_secs(20));
        let max_bytes = ByteSize::mib(1);
        let exporter = ClickHouseExporter {
            batch: Batch { max_rows, max_bytes, max_age_millis },
            acknowledge,
            attributes: Some(Attributes::Json),
            ..ClickHouseExporter::default()
        };
        let parts = DirectParts {
            sink: Arc::clone(&sink) as Arc<dyn Sink>,
            budget: budget.clone(),
            telemetry: Arc::clone(&telemetry),
            drain: drain.clone(),
            shards: 2,
        };
        let publisher = DirectPublisher::start(&exporter, parts).unwrap();
        Self { publisher, sink, seen, budget, drain, telemetry }
    }

    fn send(&self, text: &[u8]) -> Result<PendingDelivery, PublishError> {
        self.send_checked(text, RequestOutline { records: 1, ..RequestOutline::default() })
    }

    fn send_checked(
        &self,
        text: &[u8],
        checked: RequestOutline,
    ) -> Result<PendingDelivery, PublishError> {
        let reservation = self.budget.try_reserve(text.len() as u64).ok_or(PublishError::Full)?;
        let cancellation = Cancellation::default();
        let request = PublishRequest {
            signal: Signal::Logs,
            bytes: text,
            checked,
            reservation,
            cancellation,
            client: None,
        };
        self.telemetry.records_in(Signal::Logs, 1);
        self.publisher.publish(request)
    }

    /// Returns the next insert's body.
    fn next(&self) -> Vec<u8> {
        self.seen.recv_timeout(PATIENCE).expect("no insert in time").1
    }

    fn figure(&self, name: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let lines = text.lines().filter(|l| l.starts_with(name) && l.contains("\"logs\""));
        lines.map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

async fn within<T>(delivery: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, delivery).await.expect("no answer in time")
}

/// Scenario: three requests into batches of two, then nothing more. Guarantee: two share an insert
/// at once, by rows; the third is sent alone, by age; each is answered only after its insert.
#[tokio::test]
async fn requests_share_inserts_by_rows_and_by_age() {
    let rig = Rig::new(Mode::Hold, 2, 50);
    let sent: Vec<PendingDelivery> =
        [&b"one"[..], b"two", b"three"].map(|text| rig.send(text).unwrap()).into();
    assert_eq!(rig.next(), b"one\ntwo\n");
    assert_eq!(rig.next(), b"three\n");
    rig.sink.let_go();
    for delivery in sent {
        assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
    }
    assert_eq!(rig.figure("millrace_records_out_total"), 3);
    assert_eq!(rig.figure("millrace_records_in_flight"), 0);
}

/// Scenario: a request longer than a batch's bytes. Guarantee: the batch is cut at once.
#[tokio::test]
async fn a_batch_is_cut_by_its_bytes() {
    let rig = Rig::new(Mode::Store, 1000, 60_000);
    let long = vec![b'x'; 1 << 20];
    assert_eq!(within(rig.send(&long).unwrap()).await, Ok(DeliveryReceipt::default()));
    assert_eq!(rig.next().len(), (1 << 20) + 1);
}

/// Scenario: the server refuses rows of two requests among eight, and another can't be encoded.
/// Guarantee: the six good ones are stored, the others' clients learn what was excluded, and every
/// insert had its own token.
#[tokio::test]
async fn bad_requests_are_told_from_their_neighbours() {
    let rig = Rig::new(Mode::Store, 8, 60_000);
    let odd = rig.send(b"an odd one").unwrap();
    assert_eq!(within(odd).await, Ok(DeliveryReceipt::with_rejected(1)));
    let texts: Vec<String> = (0..8)
        .map(|n| if n == 2 || n == 7 { format!("bad{n}") } else { format!("good{n}") })
        .collect();
    let sent: Vec<PendingDelivery> =
        texts.iter().map(|t| rig.send(t.as_bytes()).unwrap()).collect();
    for (delivery, text) in sent.into_iter().zip(&texts) {
        let rejected_records = u64::from(text.starts_with("bad"));
        assert_eq!(
            within(delivery).await,
            Ok(DeliveryReceipt::with_rejected(rejected_records)),
            "{text}"
        );
    }
    let inserts: Vec<(String, Vec<u8>)> = rig.seen.try_iter().collect();
    let stored = inserts.iter().filter(|(_, body)| !body.windows(3).any(|w| w == BAD));
    let stored = stored.flat_map(|(_, body)| body.split(|b| *b == b'\n')).filter(|r| !r.is_empty());
    let mut stored: Vec<&[u8]> = stored.collect();
    stored.sort_unstable();
    let good = texts.iter().filter(|t| t.starts_with("good")).map(String::as_bytes);
    assert_eq!(stored, good.collect::<Vec<_>>());
    let mut tokens: Vec<&String> = inserts.iter().map(|(token, _)| token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), inserts.len(), "a token covers one set of rows");
    assert_eq!(rig.figure("millrace_records_out_total"), 6);
    assert_eq!(rig.figure("millrace_records_refused_total"), 3);
    assert_eq!(rig.figure("millrace_records_in_flight"), 0);
}

/// Scenario: a batch of seven requests exceeds the server's memory, which holds two. Guarantee: all
/// are stored, in inserts of two requests at most, and no client gets a rejected record. An insert
/// of a single request states that: the sink retries it for ever.
#[tokio::test]
async fn an_insert_that_is_too_much_for_the_servers_memory_is_made_smaller() {
    let rig = Rig::new(Mode::Store, 7, 60_000);
    let texts: Vec<String> = (0..7).map(|n| format!("big{n}")).collect();
    let sent: Vec<PendingDelivery> =
        texts.iter().map(|t| rig.send(t.as_bytes()).unwrap()).collect();
    for delivery in sent {
        assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
    }
    let mut stored = Vec::new();
    for (token, body) in rig.seen.try_iter() {
        let requests: Vec<&[u8]> =
            body.split(|b| *b == b'\n').filter(|request| !request.is_empty()).collect();
        let (first, last) = token.split(':').nth(5).unwrap().split_once('-').unwrap();
        let span = last.parse::<i64>().unwrap() - first.parse::<i64>().unwrap() + 1;
        assert_eq!(span, requests.len() as i64, "{token}");
        if requests.len() <= 2 {
            stored
                .extend(requests.into_iter().map(|text| String::from_utf8(text.to_vec()).unwrap()));
        }
    }
    assert_eq!(stored, texts, "each is stored once, in order");
    assert_eq!(rig.figure("millrace_records_out_total"), 7);
    assert_eq!(rig.figure("millrace_records_refused_total"), 0);
}

/// Scenario: the first request of a process can't be encoded, and only one request follows, in both
/// modes of answering; then both once more. Guarantee: the lone request is stored once its batch is
/// old, without another one to trigger it; the refused one holds no memory.
#[tokio::test]
async fn a_lone_request_behind_a_refused_one_is_stored_in_time() {
    for acknowledge in [AcknowledgeInsert::AfterInsert, AcknowledgeInsert::AfterBuffering] {
        let rig = Rig::with(Mode::Store, 1000, 50, acknowledge);
        for lone in [&b"one\n"[..], b"two\n"] {
            let odd = rig.send(b"an odd one").unwrap();
            assert_eq!(within(odd).await, Ok(DeliveryReceipt::with_rejected(1)));
            let delivery = rig.send(&lone[..3]).unwrap();
            assert_eq!(rig.next(), lone);
            assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
            // The answer arrives before the timer thread has released the batch.
            let Rig { budget, .. } = &rig;
            let deadline = Instant::now() + PATIENCE;
            while budget.used_bytes() > 0 {
                assert!(Instant::now() < deadline, "memory is held");
                std::thread::yield_now();
            }
        }
    }
}

/// Scenario: the sink accepts nothing and the memory fills. Guarantee: clients get a retryable
/// answer, no accepted request is lost, and the budget is free in the end.
#[tokio::test]
async fn a_full_budget_refuses_and_loses_nothing() {
    let rig = Rig::new(Mode::Full, 1000, 20);
    let text = vec![b'x'; 300 << 10];
    let mut taken = Vec::new();
    let refused = loop {
        match rig.send(&text) {
            Ok(delivery) => taken.push(delivery),
            Err(refused) => break refused,
        }
        assert!(taken.len() < 100, "a budget of 16 MiB takes no 30 MB");
    };
    assert_eq!(refused, PublishError::Full);
    assert!(!taken.is_empty());
    rig.sink.let_go();
    for delivery in taken {
        assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
    }
    let Rig { publisher, budget, .. } = rig;
    assert!(publisher.flush(PATIENCE));
    drop(publisher);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a request whose columns need more than the complete budget, by their bytes or by what
/// their rows repeat, and one that fits. Guarantee: the clients of the former learn that they must
/// send smaller ones, instead of sending again for ever.
#[tokio::test]
async fn a_request_that_never_fits_is_not_asked_for_again() {
    let rig = Rig::new(Mode::Store, 1000, 20);
    let long = vec![b'x'; 4 << 20];
    assert_eq!(rig.send(&long).map(drop), Err(PublishError::TooLarge));
    let repeats = RequestOutline { records: 1, written_bytes: 20 << 20, ..Default::default() };
    assert_eq!(rig.send_checked(b"short", repeats).map(drop), Err(PublishError::TooLarge));
    assert_eq!(rig.budget.used_bytes(), 0);
    let fits = rig.send(&long[..2 << 20]).unwrap();
    assert_eq!(within(fits).await, Ok(DeliveryReceipt::default()));
}

/// Scenario: no server can be reached. Guarantee: clients are refused at once, with a reason to
/// retry; those answered when buffered are still accepted.
#[tokio::test]
async fn without_a_server_clients_are_told_to_come_back() {
    let rig = Rig::new(Mode::Store, 10, 10);
    *rig.sink.reachable.lock().unwrap() = false;
    assert!(matches!(rig.send(b"one"), Err(PublishError::Unavailable(_))));
    let rig = Rig::with(Mode::Store, 10, 10, AcknowledgeInsert::AfterBuffering);
    *rig.sink.reachable.lock().unwrap() = false;
    assert_eq!(within(rig.send(b"one").unwrap()).await, Ok(DeliveryReceipt::default()));
}

/// Scenario: a long age, then the process drains and flushes. Guarantee: all accepted requests are
/// stored at once and answered; none is accepted afterwards.
#[tokio::test]
async fn a_flush_stores_what_is_open_and_takes_nothing_more() {
    let rig = Rig::new(Mode::Store, 1000, 60_000);
    let delivery = rig.send(b"one").unwrap();
    rig.drain.begin();
    let started = Instant::now();
    assert!(rig.publisher.flush(PATIENCE));
    assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
    assert!(started.elapsed() < PATIENCE);
    assert_eq!(rig.next(), b"one\n");
    assert_eq!(rig.send(b"two").map(drop), Err(PublishError::Draining));
}

/// Scenario: the sink is full until all clients have disconnected. Guarantee: what they will send
/// again isn't stored first.
#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_sent() {
    let rig = Rig::new(Mode::Full, 1, 10);
    drop(rig.send(b"one").unwrap());
    let second = rig.send(b"two").unwrap();
    rig.sink.let_go();
    assert_eq!(within(second).await, Ok(DeliveryReceipt::default()));
    assert_eq!(rig.next(), b"two\n");
    assert!(rig.publisher.flush(PATIENCE));
    assert!(rig.seen.try_recv().is_err(), "the first one was not sent");
}

/// Scenario: a signal's inserts don't end. Guarantee: it accepts a bounded number of batches; other
/// signals continue.
#[tokio::test]
async fn a_signal_that_is_stuck_takes_a_bounded_number_of_batches() {
    let rig = Rig::new(Mode::Hold, 1, 10);
    let taken: Vec<_> = (0..50).map_while(|_| rig.send(b"one").ok()).collect();
    assert_eq!(taken.len(), 16);
    assert_eq!(rig.send(b"one").map(drop), Err(PublishError::Full));
    let reservation = rig.budget.try_reserve(3).unwrap();
    let checked = RequestOutline { records: 1, ..RequestOutline::default() };
    let cancellation = Cancellation::default();
    let other = PublishRequest {
        signal: Signal::Traces,
        bytes: b"two",
        checked,
        reservation,
        cancellation,
        client: None,
    };
    assert!(rig.publisher.publish(other).is_ok());
    rig.sink.let_go();
    for delivery in taken {
        assert_eq!(within(delivery).await, Ok(DeliveryReceipt::default()));
    }
}
