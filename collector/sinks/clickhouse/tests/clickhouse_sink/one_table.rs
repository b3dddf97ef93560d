//! One table fails: its inserts wait separately, and the others' continue unaffected.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{Completion, DeliveryOutcome, Insert, PartId, Sink, TableIndex};

use super::fake_server::{FakeServer, Reply};
use super::{ALLOWED, Fixture, PATIENCE, eventually};

const TRACES: TableIndex = TableIndex(0);
const LOGS: TableIndex = TableIndex(2);
/// The server's time for an insert: far longer than this machine's own work for one.
const ANSWER_TAKES: Duration = Duration::from_millis(25);
/// The time over which inserts are counted.
const COUNTED: Duration = Duration::from_secs(1);

/// A source with as much work for two tables as the sink accepts, like a gateway's worker: one
/// queue, whose front waits for the sink, and from which a blocked table's inserts are stalled.
struct Source {
    fixture: Fixture,
    /// Whether it has logs alongside spans.
    with_logs: bool,
    next: u32,
    front: Option<(Insert, Completion)>,
    /// The accepted inserts for logs, by number.
    logs: BTreeMap<PartId, u32>,
    /// The inserts for logs that were returned.
    again: Vec<u32>,
    traces_stored: u64,
    logs_stored: usize,
}

impl Source {
    fn new(server: &FakeServer, insert_timeout_seconds: u32) -> Self {
        let fixture = Fixture::with(vec![server.url()], |exporter| {
            exporter.max_inserts_in_flight = 4;
            exporter.insert_timeout_seconds = insert_timeout_seconds;
        });
        eventually("ready", || fixture.readiness.is_ready());
        Self {
            fixture,
            with_logs: true,
            next: 0,
            front: None,
            logs: BTreeMap::new(),
            again: Vec::new(),
            traces_stored: 0,
            logs_stored: 0,
        }
    }

    /// Returns the next insert's number and table: returned inserts go first.
    fn next(&mut self) -> Option<(u32, TableIndex)> {
        if !self.fixture.is_blocked(LOGS)
            && let Some(number) = self.again.pop()
        {
            return Some((number, LOGS));
        }
        self.next += 1;
        let is_log = self.with_logs && !self.next.is_multiple_of(2);
        let table = if is_log { LOGS } else { TRACES };
        (!self.fixture.is_blocked(table)).then_some((self.next, table))
    }

    /// Submits one insert if possible, otherwise waits for an answer.
    fn turn(&mut self) {
        let Some((insert, completion)) = self.front.take().or_else(|| {
            let (number, table) = self.next()?;
            let mut insert = self.fixture.insert(number as i32);
            insert.block.table = table;
            Some((insert, self.fixture.answers.open_part()?))
        }) else {
            return self.settle(Duration::ZERO);
        };
        let (part, table) = (completion.part(), insert.block.table);
        let number = insert.origin.partition as u32;
        match self.fixture.sink.submit(insert, completion) {
            Ok(()) if table == LOGS => drop(self.logs.insert(part, number)),
            Ok(()) => {}
            Err(back) => {
                self.front = Some((back.work, back.completion));
                self.settle(Duration::from_millis(5));
            }
        }
    }

    fn settle(&mut self, wait: Duration) {
        while let Some(answer) = self.fixture.answers.next_within(wait) {
            match (self.logs.remove(&answer.part), answer.outcome) {
                (Some(_), DeliveryOutcome::Stored) => self.logs_stored += 1,
                (Some(number), DeliveryOutcome::Abandoned | DeliveryOutcome::Deferred) => {
                    self.again.push(number)
                }
                (None, DeliveryOutcome::Stored) => self.traces_stored += 1,
                (_, other) => panic!("{other:?}"),
            }
        }
    }

    /// Waits until all accepted logs are stored, and their table is open.
    fn logs_are_stored(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let taken: BTreeSet<u32> = self.logs.values().chain(&self.again).copied().collect();
        let is_open = |source: &Self| {
            let mut left = source.logs.values().chain(&source.again);
            left.any(|number| taken.contains(number))
        };
        while is_open(self) {
            assert!(Instant::now() < deadline, "logs are not stored");
            self.turn();
        }
        self.with_logs = false;
        while !(self.logs.is_empty() && self.again.is_empty()) {
            assert!(Instant::now() < deadline, "the last logs are not stored");
            self.turn();
        }
        eventually("logs are open again", || !self.fixture.is_blocked(LOGS));
    }

    /// Returns the number of spans' inserts stored in [`COUNTED`].
    fn rate_of_traces(&mut self) -> u64 {
        let (before, began) = (self.traces_stored, Instant::now());
        while began.elapsed() < COUNTED {
            self.turn();
        }
        self.traces_stored - before
    }
}

/// Scenario: a server accepts inserts into both tables, then answers only for logs that they have
/// too many parts, or are read-only; then accepts them again. Guarantee: spans retain at least nine
/// tenths of their rate and the complete window; logs are held back and probed seldom: one insert
/// waits, others are returned; the process stays ready; all accepted logs are stored in the end.
#[test]
fn a_table_in_trouble_costs_the_others_nothing() {
    for code in [252, 242] {
        let server = FakeServer::start([]);
        server.take_time(ANSWER_TAKES);
        let mut source = Source::new(&server, 60);
        let usual = source.rate_of_traces();
        assert!(usual > 0 && source.logs_stored > 0, "both tables take inserts");
        server.refuse(Some(("otel_logs", code)));
        eventually("logs are kept back", || {
            source.turn();
            source.fixture.is_blocked(LOGS)
        });
        let asked = |server: &FakeServer| {
            server.inserts().iter().filter(|insert| insert.goes_into("otel_logs")).count()
        };
        let asked_before = asked(&server);
        let during = source.rate_of_traces();
        assert!(during * 10 >= usual * 9, "{code}: {during} spans' inserts, usually {usual}");
        assert!(source.fixture.is_blocked(LOGS) && !source.fixture.is_blocked(TRACES));
        let asked = asked(&server) - asked_before;
        assert!(asked <= 40, "{code}: asked {asked} times for logs");
        assert_eq!(source.logs.len(), 1, "{code}: one waits, the others are given back");
        assert_eq!(source.fixture.metric(ALLOWED), Some(4), "{code}");
        assert!(source.fixture.readiness.is_ready());
        server.refuse(None);
        source.logs_are_stored();
    }
}

/// Scenario: spans alone, then logs too, but the server never answers inserts into logs' table, of
/// which some fill the complete window; then it does. Guarantee: within a second these free their
/// slots, and spans retain at least nine tenths of the rate they had with the window to themselves;
/// as few logs as may be in flight wait, after their timeout one, and all are stored in the end.
#[test]
fn a_table_that_hangs_costs_the_others_no_place() {
    let server = FakeServer::start([]);
    server.take_time(ANSWER_TAKES);
    // No answer within a second stalls a table; within three, the insert is retried.
    let mut source = Source::new(&server, 3);
    source.with_logs = false;
    let alone = source.rate_of_traces();
    server.hang(Some("otel_logs"));
    source.with_logs = true;
    let stuck = Instant::now();
    eventually("logs are kept back", || {
        source.turn();
        source.fixture.is_blocked(LOGS)
    });
    assert!(stuck.elapsed() < Duration::from_secs(2), "{:?}", stuck.elapsed());
    let during = source.rate_of_traces();
    assert!(during * 10 >= alone * 9, "{during} spans' inserts, {alone} alone");
    assert!(source.fixture.is_blocked(LOGS) && !source.fixture.is_blocked(TRACES));
    assert!((1..=4).contains(&source.logs.len()), "{} wait", source.logs.len());
    // What was sent may still be stored: the sink waits for it until its timeout.
    eventually("one waits, the others are given back", || {
        source.turn();
        source.logs.len() == 1
    });
    server.hang(None);
    source.logs_are_stored();
}

/// Scenario: a server that hangs with two tables. Guarantee: each has as many inserts in flight as
/// configured: the next ones are refused, and returned once the table is held back, and nothing
/// more is sent.
#[test]
fn a_server_that_hangs_is_not_sent_ever_more() {
    let server = FakeServer::start(vec![Reply::Hang; 100]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        // Without an answer for a twelfth of it, 3 s, an insert frees its slot.
        exporter.insert_timeout_seconds = 36;
        exporter.max_inserts_in_flight = 2;
    });
    let submit = |fixture: &mut Fixture, table| {
        let completion = fixture.answers.open_part().unwrap();
        let mut insert = fixture.insert(0);
        insert.block.table = table;
        match fixture.sink.submit(insert, completion) {
            Ok(()) => true,
            Err(back) => {
                back.completion.finish_with(DeliveryOutcome::Stored);
                assert!(fixture.answers.next_within(PATIENCE).is_some());
                false
            }
        }
    };
    for table in [LOGS, TRACES] {
        assert!(submit(&mut fixture, table) && submit(&mut fixture, table));
        assert!(!submit(&mut fixture, table), "two are in flight");
    }
    eventually("four are sent", || server.inserts().len() == 4);
    assert!(!fixture.is_blocked(LOGS) && !fixture.is_blocked(TRACES), "they may be answered yet");
    eventually("both are held back", || fixture.is_blocked(LOGS) && fixture.is_blocked(TRACES));
    for table in [LOGS, TRACES] {
        eventually("a slot is free", || submit(&mut fixture, table));
        assert_eq!(
            fixture.answers.next_within(PATIENCE).unwrap().outcome,
            DeliveryOutcome::Deferred
        );
    }
    assert_eq!(server.inserts().len(), 4);
}

/// Scenario: one of two replicas reports its table read-only, the other accepts inserts. Guarantee:
/// the insert moves without its table being held back.
#[test]
fn a_read_only_replica_keeps_no_table_back() {
    let (one, two) = (FakeServer::start([]), FakeServer::start([]));
    let mut fixture = Fixture::new(&[&one, &two]);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let (home, other) = if one.inserts().is_empty() { (&two, &one) } else { (&one, &two) };
    home.refuse(Some(("otel_traces", 242)));
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    let answer = loop {
        assert!(!fixture.is_blocked(TRACES));
        if let Some(answer) = fixture.answers.next_within(Duration::from_millis(1)) {
            break answer;
        }
    };
    assert_eq!((answer.outcome, other.inserts().len()), (DeliveryOutcome::Stored, 1));
}

/// Scenario: both replicas report that for a while. Guarantee: the table is held back once each was
/// tried, and the waiting insert is stored when one accepts it. Slow: each of two servers refuses
/// eight times, with a wait after each that doubles.
#[test]
fn a_table_that_is_read_only_everywhere_is_kept_back() {
    // Enough for waits of over a second.
    let script = || vec![Reply::Exception(500, 242); 8];
    let (one, two) = (FakeServer::start(script()), FakeServer::start(script()));
    let mut fixture = Fixture::new(&[&one, &two]);
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    eventually("kept back", || fixture.is_blocked(TRACES));
    assert!(!one.inserts().is_empty() && !two.inserts().is_empty(), "both were asked");
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    assert!(!fixture.is_blocked(TRACES));
}

/// Scenario: inserts of a table that has too many parts, or doesn't exist, by a source that can
/// read them again and by one that can't; then the table accepts them. Guarantee: of the first all
/// but one are returned, with their memory; of the second none is.
#[test]
fn what_can_be_read_again_is_given_back_and_nothing_else() {
    for code in [252, 60] {
        let server = FakeServer::start([]);
        server.refuse(Some(("otel_traces", code)));
        let mut fixture = Fixture::new(&[&server]);
        let submit = |fixture: &mut Fixture, partition, is_read_again| {
            let completion = fixture.answers.open_part().unwrap();
            let part = completion.part();
            let mut insert = fixture.insert(partition);
            insert.origin.is_read_again = is_read_again;
            let mut work = Some((insert, completion));
            eventually("taken", || {
                let (insert, completion) = work.take().unwrap();
                let back = fixture.sink.submit(insert, completion);
                work = back.err().map(|back| (back.work, back.completion));
                work.is_none()
            });
            part
        };
        for partition in 0..4 {
            submit(&mut fixture, partition, true);
        }
        for _ in 0..3 {
            assert_eq!(
                fixture.answers.next_within(PATIENCE).unwrap().outcome,
                DeliveryOutcome::Deferred
            );
        }
        assert_eq!(fixture.budget.used_bytes(), 10, "{code}: one holds memory");
        assert!(fixture.is_blocked(TRACES));
        let refused = |partition: u32| {
            let token = format!("otlp_traces%3A{partition}%3A");
            server.inserts().iter().any(|insert| insert.target.contains(&token))
        };
        let once = submit(&mut fixture, 4, false);
        eventually("the fifth is refused", || refused(4));
        server.refuse(None);
        for _ in 0..2 {
            let answer = fixture.answers.next_within(PATIENCE).unwrap();
            // The one that waited alone may have left that to the fifth.
            assert!(
                answer.part != once || answer.outcome == DeliveryOutcome::Stored,
                "{code}: {answer:?}"
            );
        }
        assert!(!fixture.is_blocked(TRACES));
    }
}
