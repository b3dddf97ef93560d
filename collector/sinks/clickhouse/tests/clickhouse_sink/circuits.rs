//! Failing endpoints and tables: inserts move to the other replica if that may help, are repeated
//! with the same token, and delay no other table and no other shard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{DeliveryOutcome, Insert, Sink, TableIndex};

use super::fake_server::{FakeServer, Reply, Request};
use super::{Fixture, PATIENCE, eventually};

const TRACES: TableIndex = TableIndex(0);
const LOGS: TableIndex = TableIndex(2);
/// Far less than the waits of a table that is held back, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(10);

fn token(insert: &Request) -> String {
    insert.parameter("insert_deduplication_token").unwrap().to_owned()
}

/// Submits an insert. Returns false when the sink returns it.
fn submit(fixture: &mut Fixture, change: impl FnOnce(&mut Insert), partition: i32) -> bool {
    let completion = fixture.answers.open_part().unwrap();
    let mut insert = fixture.insert(partition);
    change(&mut insert);
    let Err(back) = fixture.sink.submit(insert, completion) else { return true };
    back.completion.finish_with(DeliveryOutcome::Abandoned);
    assert!(fixture.answers.next_within(PATIENCE).is_some());
    false
}

/// Returns whether an insert of the partition reached a server.
fn is_sent(server: &FakeServer, partition: i32) -> bool {
    let part = format!("otlp_traces%3A{partition}%3A");
    server.inserts().iter().any(|insert| insert.target.contains(&part))
}

/// Runs a case for each of some codes at once: most of their time is waiting.
fn for_each(codes: &[u32], case: impl Fn(u32) + Send + Sync) {
    let case = &case;
    std::thread::scope(|scope| {
        for code in codes {
            scope.spawn(move || case(*code));
        }
    });
}

/// Scenario: a user's view refuses a row and quotes its long value, with each of the codes that
/// mean bad rows or unreadable bytes when the table itself answers them; later the view is
/// repaired. Guarantee: the insert, whose rows are already in the table, is never returned to be
/// divided: it is repeated with its token, its table is held back, readiness names the view, the
/// failures count as a view's, and it is stored once the view accepts it. Slow: waits of the
/// circuit breaker, which begin at 2 s.
#[test]
fn an_insert_that_a_view_refuses_is_repeated_with_its_token() {
    for_each(&[6, 33, 131, 469], |code| {
        let server = FakeServer::start([]);
        server.always("otel_traces", Reply::View(code));
        let mut fixture = Fixture::new(&[&server]);
        eventually("ready", || fixture.readiness.is_ready());
        assert!(submit(&mut fixture, |_| {}, 0));
        eventually("refused three times", || server.inserts().len() >= 3);
        assert!(fixture.is_blocked(TRACES) && !fixture.is_blocked(LOGS), "{code}");
        let reasons = fixture.readiness.reasons().join("");
        let said = format!("the materialized view otel.slow_spans refuses rows (code {code} ");
        assert!(reasons.contains(&said), "{reasons}");
        assert!(fixture.answers.try_next().is_none(), "{code}: it isn't given back");
        eventually("counted three times", || fixture.retries("view") >= 3);
        server.refuse(None);
        assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
        let inserts = server.inserts();
        assert!(inserts.iter().all(|insert| token(insert) == token(&inserts[0])), "{code}");
        eventually("ready again", || fixture.readiness.is_ready() && !fixture.is_blocked(TRACES));
    });
}

/// Scenario: inserts into the traces' table back off, for each temporary cause: at the table or in
/// a view behind it. Guarantee: they hold no slot, so logs are stored at once; once the table is
/// held back one of them waits and the others are returned.
#[test]
fn inserts_that_back_off_leave_other_tables_alone() {
    let replies = [Reply::Exception(500, 499), Reply::Exception(500, 159), Reply::View(241)];
    std::thread::scope(|scope| {
        for reply in replies {
            scope.spawn(move || backs_off(&reply));
        }
    });
}

fn backs_off(reply: &Reply) {
    let server = FakeServer::start([]);
    server.always("otel_traces", reply.clone());
    let mut fixture = Fixture::new(&[&server]);
    assert!(submit(&mut fixture, |_| {}, 0));
    // The second is returned only if the first was refused in the meantime.
    assert!(submit(&mut fixture, |_| {}, 1) || fixture.is_blocked(TRACES));
    eventually("one is refused", || is_sent(&server, 0) || is_sent(&server, 1));
    let began = Instant::now();
    let mut stored = 0;
    for partition in 0..8 {
        eventually("accepted", || submit(&mut fixture, |it| it.block.table = LOGS, partition));
        while fixture.answers.next_within(PATIENCE).unwrap().outcome != DeliveryOutcome::Stored {}
        stored += 1;
    }
    assert!(stored == 8 && began.elapsed() < SOON, "{reply:?}: {:?}", began.elapsed());
    eventually("traces are held back", || fixture.is_blocked(TRACES));
    assert!(!fixture.is_blocked(LOGS));
    server.refuse(None);
    while fixture.answers.open_parts() > 0 {
        let outcome = fixture.answers.next_within(PATIENCE).unwrap().outcome;
        assert!(!matches!(outcome, DeliveryOutcome::Rejected(_)), "{outcome:?}");
    }
    eventually("traces are open", || !fixture.is_blocked(TRACES));
}

/// Scenario: one of two replicas answers each code that is its own fault. Guarantee: the other
/// stores its partitions' inserts at once, with their token; no partition's table is held back; the
/// faulty one is probed seldom, and gets its partitions back once it accepts inserts.
#[test]
fn a_replica_in_trouble_costs_one_attempt() {
    for_each(&[243, 241, 202, 60, 497, 516, 499, 62], |code| {
        let (one, two) = (FakeServer::start([]), FakeServer::start([]));
        let mut fixture = Fixture::new(&[&one, &two]);
        assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
        let (home, other) = if one.inserts().is_empty() { (&two, &one) } else { (&one, &two) };
        home.always("otel_traces", Reply::Exception(500, code));
        let began = Instant::now();
        for partition in 0..16 {
            assert_eq!(fixture.store(partition), DeliveryOutcome::Stored, "{code}");
            assert!(!fixture.is_blocked(TRACES), "{code}");
        }
        assert!(began.elapsed() < SOON, "{code}: {:?}", began.elapsed());
        let stored: Vec<String> = other.inserts().iter().map(token).collect();
        let refused: Vec<String> = home.inserts().iter().skip(1).map(token).collect();
        assert!(!refused.is_empty() && refused.len() <= 8, "{code}: {} attempts", refused.len());
        assert!(refused.iter().all(|token| stored.contains(token)), "{code}");
        assert_eq!(stored.len(), 16, "{code}");
        let open = "millrace_insert_circuits_open{table=\"otel.otel_traces\"}";
        assert_eq!(fixture.metric(open), Some(1), "{code}");
        home.refuse(None);
        let before = home.inserts().len();
        eventually("its partition returns", || {
            assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
            home.inserts().len() > before
        });
        assert_eq!(fixture.metric(open), Some(0), "{code}");
    });
}

/// Scenario: one of two shards refuses connections; a source submits what the sink accepts, for
/// both. Guarantee: the other shard's inserts are stored at once, and its tables aren't held back;
/// the first shard's table is.
#[test]
fn a_shard_that_is_away_leaves_the_other_alone() {
    let here = FakeServer::start([]);
    let gone = FakeServer::start([]).url();
    let mut fixture = Fixture::with(vec![gone, here.url()], |exporter| exporter.shards = 2);
    let began = Instant::now();
    for partition in 0..12 {
        // If it was returned, its shard's window is full, or as many inserts wait.
        if submit(&mut fixture, |_| {}, partition) {
            let time_of_one = Instant::now() + Duration::from_millis(500);
            while Instant::now() < time_of_one && !is_sent(&here, partition) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    let at_home: Vec<i32> = (0..12).filter(|partition| is_sent(&here, *partition)).collect();
    assert!(at_home.len() >= 2 && began.elapsed() < SOON, "{at_home:?} {:?}", began.elapsed());
    let is_blocked =
        |fixture: &Fixture, partition| fixture.sink.is_blocked("otlp_traces", partition, TRACES);
    let others = (0..12).filter(|partition| !at_home.contains(partition));
    eventually("held back", || others.clone().all(|partition| is_blocked(&fixture, partition)));
    for partition in at_home {
        assert!(!is_blocked(&fixture, partition));
        // Earlier answers are read first, so several inserts may be in flight and fill the window.
        eventually("accepted", || submit(&mut fixture, |_| {}, partition));
        while fixture.answers.next_within(PATIENCE).unwrap().outcome != DeliveryOutcome::Stored {}
    }
}

/// Scenario: an insert of many messages whose answer is lost, or that another process may have
/// sent; then the server has too little memory for it three times; then it accepts it. Guarantee:
/// it is stored under its one token, and not returned to be divided. Slow: the insert waits after
/// each of three refusals for memory, from 2 s on and twice as long each time.
#[test]
fn an_insert_that_may_be_stored_is_not_divided_for_memory() {
    let memory = || vec![Reply::Exception(500, 241); 3];
    let lost = [vec![Reply::Cut], memory()].concat();
    let cases = Arc::new([(lost, false), (memory(), true)]);
    for_each(&[0, 1], |at| {
        let (script, may_be_stored) = cases[at as usize].clone();
        let attempts = script.len() + 1;
        let server = FakeServer::start(script);
        let mut fixture = Fixture::new(&[&server]);
        let promise = |insert: &mut Insert| insert.origin.may_be_stored = may_be_stored;
        assert!(submit(&mut fixture, promise, 0));
        assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
        let inserts = server.inserts();
        assert_eq!(inserts.len(), attempts);
        assert!(inserts.iter().all(|insert| token(insert) == token(&inserts[0])));
    });
}
