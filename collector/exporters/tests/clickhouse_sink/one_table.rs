//! One table's trouble: its inserts wait aside, the others' go on as if it weren't there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{Completion, Insert, Outcome, PartId, Sink, TableIndex};

use super::fake_server::{FakeServer, Reply};
use super::{Fixture, PATIENCE, eventually};

const TRACES: TableIndex = TableIndex(0);
const LOGS: TableIndex = TableIndex(2);
/// How long the server takes for an insert: far longer than what this machine does for one.
const ANSWER_TAKES: Duration = Duration::from_millis(25);
/// For how long inserts are counted.
const COUNTED: Duration = Duration::from_secs(1);

/// A source with as much work for two tables as the sink takes, as a gateway's worker has it: one
/// queue, whose front waits for the sink, and from which is set aside what is for a blocked table.
struct Source {
    fixture: Fixture,
    /// Whether there are logs beside spans.
    with_logs: bool,
    next: u32,
    front: Option<(Insert, Completion)>,
    /// What was taken for logs, by its number.
    logs: BTreeMap<PartId, u32>,
    /// Inserts for logs that were given back.
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

    /// The next insert's number and table: what was given back goes first.
    fn next(&mut self) -> Option<(u32, TableIndex)> {
        if !self.fixture.sink.is_blocked(LOGS)
            && let Some(number) = self.again.pop()
        {
            return Some((number, LOGS));
        }
        self.next += 1;
        let is_log = self.with_logs && !self.next.is_multiple_of(2);
        let table = if is_log { LOGS } else { TRACES };
        (!self.fixture.sink.is_blocked(table)).then_some((self.next, table))
    }

    /// One turn: submits what goes, waits for an answer when nothing does.
    fn turn(&mut self) {
        let Some((insert, completion)) = self.front.take().or_else(|| {
            let (number, table) = self.next()?;
            let mut insert = self.fixture.insert(number as i32);
            insert.block.table = table;
            Some((insert, self.fixture.answers.open()?))
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
                (Some(_), Outcome::Stored) => self.logs_stored += 1,
                (Some(number), Outcome::Abandoned) => self.again.push(number),
                (None, Outcome::Stored) => self.traces_stored += 1,
                (_, other) => panic!("{other:?}"),
            }
        }
    }

    /// Waits until all logs that were taken are stored, and their table is open.
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
        eventually("logs are open again", || !self.fixture.sink.is_blocked(LOGS));
    }

    /// Spans' inserts stored in a while.
    fn rate_of_traces(&mut self) -> u64 {
        let (before, began) = (self.traces_stored, Instant::now());
        while began.elapsed() < COUNTED {
            self.turn();
        }
        self.traces_stored - before
    }
}

/// Scenario: a server that takes inserts into both tables, then says of logs alone that they have
/// too many parts, or are read-only; then takes them again. Guarantee: spans keep
/// nine tenths of their rate at least and the whole window; logs are kept back and asked for
/// seldom: one insert waits, others are given back; the process stays ready; and all logs that were
/// taken are stored in the end.
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
            source.fixture.sink.is_blocked(LOGS)
        });
        let asked = |server: &FakeServer| {
            server.inserts().iter().filter(|insert| insert.goes_into("otel_logs")).count()
        };
        let asked_before = asked(&server);
        let during = source.rate_of_traces();
        assert!(during * 10 >= usual * 9, "{code}: {during} spans' inserts, usually {usual}");
        assert!(source.fixture.sink.is_blocked(LOGS) && !source.fixture.sink.is_blocked(TRACES));
        let asked = asked(&server) - asked_before;
        assert!(asked <= 40, "{code}: asked {asked} times for logs");
        assert_eq!(source.logs.len(), 1, "{code}: one waits, the others are given back");
        assert_eq!(source.fixture.metric("millrace_inserts_allowed"), Some(4), "{code}");
        assert!(source.fixture.readiness.is_ready());
        server.refuse(None);
        source.logs_are_stored();
    }
}

/// Scenario: spans alone, then logs too, but the server never answers inserts into logs' table, of
/// which some fill the whole window; then it does. Guarantee: within a second these leave their
/// places, and spans keep nine tenths at least of the rate they had with the window to themselves;
/// as few logs as may be in flight wait, after their time-out one, and all are stored in the end.
#[test]
fn a_table_that_hangs_costs_the_others_no_place() {
    let server = FakeServer::start([]);
    server.take_time(ANSWER_TAKES);
    // No answer within a second sets a table aside; within three, the insert is tried again.
    let mut source = Source::new(&server, 3);
    source.with_logs = false;
    let alone = source.rate_of_traces();
    server.hang(Some("otel_logs"));
    source.with_logs = true;
    let stuck = Instant::now();
    eventually("logs are kept back", || {
        source.turn();
        source.fixture.sink.is_blocked(LOGS)
    });
    assert!(stuck.elapsed() < Duration::from_secs(2), "{:?}", stuck.elapsed());
    let during = source.rate_of_traces();
    assert!(during * 10 >= alone * 9, "{during} spans' inserts, {alone} alone");
    assert!(source.fixture.sink.is_blocked(LOGS) && !source.fixture.sink.is_blocked(TRACES));
    assert!((1..=4).contains(&source.logs.len()), "{} wait", source.logs.len());
    // What was sent may be stored yet: it is waited for until its time-out.
    eventually("one waits, the others are given back", || {
        source.turn();
        source.logs.len() == 1
    });
    server.hang(None);
    source.logs_are_stored();
}

/// Scenario: a server that hangs with every table. Guarantee: twice the configured inserts are in
/// flight at most: the next ones are handed back.
#[test]
fn a_server_that_hangs_is_not_sent_ever_more() {
    let server = FakeServer::start(vec![Reply::Hang; 100]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        // Without an answer for a twelfth of it, 3 s, an insert leaves its place.
        exporter.insert_timeout_seconds = 36;
        exporter.max_inserts_in_flight = 2;
    });
    let submit = |fixture: &mut Fixture, table| {
        let completion = fixture.answers.open().unwrap();
        let mut insert = fixture.insert(0);
        insert.block.table = table;
        match fixture.sink.submit(insert, completion) {
            Ok(()) => true,
            Err(back) => {
                back.completion.finish(Outcome::Stored);
                assert!(fixture.answers.next_within(PATIENCE).is_some());
                false
            }
        }
    };
    assert!(submit(&mut fixture, LOGS) && submit(&mut fixture, LOGS));
    assert!(!submit(&mut fixture, TRACES));
    // Each leaves its place by its own clock.
    for _ in 0..2 {
        eventually("another has left its place", || submit(&mut fixture, TRACES));
    }
    eventually("spans are kept back too", || fixture.sink.is_blocked(TRACES));
    assert!(!submit(&mut fixture, TableIndex(1)), "four are in flight");
    assert_eq!(server.inserts().len(), 4);
}

/// Scenario: of two replicas one says that its table is read-only, the other takes inserts.
/// Guarantee: the insert moves over without its table being kept back.
#[test]
fn a_read_only_replica_keeps_no_table_back() {
    let (one, two) = (FakeServer::start([]), FakeServer::start([]));
    let mut fixture = Fixture::new(&[&one, &two]);
    assert_eq!(fixture.store(0), Outcome::Stored);
    let (home, other) = if one.inserts().is_empty() { (&two, &one) } else { (&one, &two) };
    home.refuse(Some(("otel_traces", 242)));
    let completion = fixture.answers.open().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    let answer = loop {
        assert!(!fixture.sink.is_blocked(TRACES));
        if let Some(answer) = fixture.answers.next_within(Duration::from_millis(1)) {
            break answer;
        }
    };
    assert_eq!((answer.outcome, other.inserts().len()), (Outcome::Stored, 1));
}

/// Scenario: both replicas say so for a while. Guarantee: the table is kept back once each was
/// asked, and what waits is stored when one takes it.
#[test]
fn a_table_that_is_read_only_everywhere_is_kept_back() {
    let script = || vec![Reply::Exception(500, 242); 4];
    let (one, two) = (FakeServer::start(script()), FakeServer::start(script()));
    let mut fixture = Fixture::new(&[&one, &two]);
    let completion = fixture.answers.open().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    eventually("kept back", || fixture.sink.is_blocked(TRACES));
    assert!(!one.inserts().is_empty() && !two.inserts().is_empty(), "both were asked");
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, Outcome::Stored);
    assert!(!fixture.sink.is_blocked(TRACES));
}

/// Scenario: inserts of a table that has too many parts, or doesn't exist, by a source that can
/// read them again and by one that can't; then the table takes them. Guarantee: of the first all
/// but one are given back, and their memory with them; of the second none is.
#[test]
fn what_can_be_read_again_is_given_back_and_nothing_else() {
    for code in [252, 60] {
        let server = FakeServer::start([]);
        server.refuse(Some(("otel_traces", code)));
        let mut fixture = Fixture::new(&[&server]);
        let submit = |fixture: &mut Fixture, partition, is_read_again| {
            let completion = fixture.answers.open().unwrap();
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
            assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, Outcome::Abandoned);
        }
        assert_eq!(fixture.budget.used_bytes(), 10, "{code}: one holds memory");
        assert!(fixture.sink.is_blocked(TRACES));
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
            assert!(answer.part != once || answer.outcome == Outcome::Stored, "{code}: {answer:?}");
        }
        assert!(!fixture.sink.is_blocked(TRACES));
    }
}
