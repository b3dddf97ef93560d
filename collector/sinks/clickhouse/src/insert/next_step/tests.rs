//! Tests of `next_step.rs`: every code of the table, wherever it can be answered.

use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use millrace_coordination::error_codes::{Class, ERROR_CODES, ErrorCode, ErrorOrigin, Reach};

use super::*;
use crate::insert::response::classify_response;
use crate::servers::circuit_breaker::{Circuits, Direction};

/// The attempts after which an insert that still isn't stored counts as waiting.
const ATTEMPTS_MAX: usize = 20;
const FACTS: TableFacts =
    TableFacts { deduplicates: Some(true), hides_counts: false, was_changed: false };

/// Which endpoints of a shard answer with the code. An insert begins at the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faulty {
    First,
    Second,
    Both,
}

impl Faulty {
    fn is(self, replica: usize) -> bool {
        match self {
            Self::First => replica == 0,
            Self::Second => replica == 1,
            Self::Both => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Stored,
    Divided,
    Waits,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    row: ErrorCode,
    faulty: Faulty,
    is_of_view: bool,
    /// The first attempt has no answer.
    is_repeated: bool,
    messages: i64,
}

/// The result of an insert.
#[derive(Debug)]
struct Run {
    ending: Ending,
    /// The replicas it was sent to, each time with the same token.
    sent: Vec<usize>,
    /// Whether its table was held back at its shard.
    was_held_back: bool,
}

fn refused(code: u32, view: bool) -> InsertResponse {
    let view = if view { ": while pushing to view otel.v" } else { "" };
    let text = format!("Code: {code}. DB::Exception: something{view}. (X)");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    classify_response(status, &HeaderMap::new(), text.as_bytes(), 1, true)
}

fn stored() -> InsertResponse {
    let mut headers = HeaderMap::new();
    headers.insert("x-clickhouse-summary", r#"{"written_rows":"1"}"#.parse().unwrap());
    classify_response(StatusCode::OK, &headers, b"", 1, true)
}

/// Delivers an insert at a shard of two replicas, without a clock and sockets.
fn deliver(case: Case, circuits: &mut Circuits) -> Run {
    let mut history = History::new(case.messages, false);
    let mut run = Run { ending: Ending::Waits, sent: Vec::new(), was_held_back: false };
    let mut now = Instant::now();
    while run.sent.len() < ATTEMPTS_MAX {
        let replica = match circuits.choose_replica(0, now) {
            Direction::Send { replica, .. } => replica,
            Direction::Wait { until, is_stalled } => {
                run.was_held_back |= is_stalled;
                now = until.expect("no probe is under way");
                continue;
            }
        };
        let verdict = match run.sent.len() {
            0 if case.is_repeated => InsertResponse::no_response(&"cut"),
            _ if case.faulty.is(replica) => refused(case.row.code, case.is_of_view),
            _ => stored(),
        };
        run.sent.push(replica);
        let started = now;
        now += Duration::from_millis(1);
        match history.next_step(&verdict, FACTS) {
            NextStep::Finish(_) => {
                circuits.record_success(replica);
                run.ending = Ending::Stored;
                return run;
            }
            NextStep::Divide => {
                circuits.record_success(replica);
                run.ending = Ending::Divided;
                return run;
            }
            NextStep::Repeat => circuits.record_success(replica),
            NextStep::Retry { pace, everywhere } => {
                circuits.record_failure(replica, everywhere, pace, started, now);
            }
        }
    }
    run
}

/// Returns the required result: the ending, and whether the table is held back.
fn expected(case: Case) -> (Ending, bool) {
    let Case { row, faulty, is_of_view, is_repeated, messages } = case;
    // An attempt without an answer moves the insert to the second replica.
    let asked_first = usize::from(is_repeated);
    if !faulty.is(asked_first) || row.class == Class::Done {
        return (Ending::Stored, false);
    }
    let is_refused_for_good = !is_of_view && row.class == Class::BadRows;
    if is_refused_for_good {
        return (Ending::Divided, false);
    }
    let is_stored_in_the_end = match row.reach {
        // The other one accepts it.
        Reach::ThisServer => faulty != Faulty::Both,
        // No other one is tried: the insert returns to its own.
        Reach::EachReplica => faulty == Faulty::Second,
    };
    if is_stored_in_the_end {
        return (Ending::Stored, row.reach == Reach::EachReplica);
    }
    let is_divided = match row.concern {
        Concern::Unreadable => !is_of_view,
        Concern::Memory => !is_of_view && !is_repeated && messages > 1,
        _ => false,
    };
    (if is_divided { Ending::Divided } else { Ending::Waits }, true)
}

/// Scenario: each code of the table and an unlisted one, answered by the first endpoint of a shard,
/// by the second or by both; by the table itself or by a view behind it; to the first attempt or
/// after one without an answer; to an insert of one message and of several; while another shard has
/// no fault. Guarantee: an insert is divided only if the table refuses these bytes as such, or,
/// with several messages, has no memory for it and can't have stored it; never because of a view.
/// Otherwise the same insert continues: at the other replica if that may help, and its table is
/// held back while none accepts it, only at its own shard.
#[test]
fn every_code_ends_as_it_must() {
    let mut cases = 0;
    for row in ERROR_CODES.iter().copied().chain([ErrorCode::from_code(62)]) {
        for faulty in [Faulty::First, Faulty::Second, Faulty::Both] {
            for flags in 0..8 {
                let case = Case {
                    row,
                    faulty,
                    is_of_view: flags & 1 > 0,
                    is_repeated: flags & 2 > 0,
                    messages: if flags & 4 > 0 { 1 } else { 100 },
                };
                if case.is_of_view && row.origin == ErrorOrigin::TableOnly {
                    continue;
                }
                let (mut shard, mut other) = (Circuits::new(2, |_| 7), Circuits::new(2, |_| 7));
                let run = deliver(case, &mut shard);
                let (ending, is_held_back) = expected(case);
                assert_eq!(
                    (run.ending, run.was_held_back),
                    (ending, is_held_back),
                    "{case:?} {run:?}"
                );
                let asked_both = run.sent.contains(&0) && run.sent.contains(&1);
                let moves = row.reach == Reach::ThisServer && ending == Ending::Waits;
                assert!(!moves || asked_both, "{case:?} {run:?}");
                let quick = 2 + usize::from(case.is_repeated);
                assert!(ending != Ending::Stored || run.sent.len() <= quick, "{case:?} {run:?}");
                let now = Instant::now();
                let there = Direction::Send { replica: 0, is_probe: false };
                assert_eq!((other.choose_replica(0, now), other.open_count()), (there, 0));
                cases += 1;
            }
        }
    }
    assert!(cases > 1_200, "{cases}");
}

/// Scenario: an insert whose first attempt another process made, refused with each code; and one
/// that a view refused before its table had no memory for it, or reported bad rows. Guarantee: none
/// is divided, except for bytes that the table always refuses.
#[test]
fn what_may_be_stored_is_not_divided() {
    for row in ERROR_CODES {
        let mut promised = History::new(100, true);
        let steps: Vec<_> =
            (0..8).map(|_| promised.next_step(&refused(row.code, false), FACTS)).collect();
        let is_always_refused = row.class == Class::BadRows || row.concern == Concern::Unreadable;
        assert_eq!(steps.contains(&NextStep::Divide), is_always_refused, "{row:?}");

        let mut in_table = History::new(100, false);
        in_table.next_step(&refused(6, true), FACTS);
        let mut steps = (0..8).map(|_| in_table.next_step(&refused(row.code, false), FACTS));
        assert!(!steps.any(|step| step == NextStep::Divide), "{row:?}");
    }
}

/// Scenario: answers that affect one insert only: no row count, too few rows, a column that the
/// next attempt omits. Guarantee: it is repeated without blaming the endpoint, as long as the table
/// recognises it, and counted when it is trusted.
#[test]
fn counts_of_rows_are_asked_for_again_where_that_doubles_nothing() {
    let success = |rows: &str| {
        let mut headers = HeaderMap::new();
        if !rows.is_empty() {
            headers.insert("x-clickhouse-summary", rows.parse().unwrap());
        }
        classify_response(StatusCode::OK, &headers, b"", 3, true)
    };
    let short = success(r#"{"written_rows":"2"}"#);
    let believed = |cause| NextStep::Finish(Some(cause));
    let forgets = TableFacts { deduplicates: Some(false), ..FACTS };

    let mut history = History::new(2, false);
    assert_eq!(history.next_step(&success(""), FACTS), NextStep::Repeat);
    assert!(history.is_needed() && history.was_recounted());
    assert_eq!(history.next_step(&success(""), FACTS), believed(Unverified::NoCount));
    let hidden = TableFacts { hides_counts: true, ..FACTS };
    for facts in [hidden, forgets, TableFacts { deduplicates: None, ..FACTS }] {
        assert_eq!(
            History::new(2, false).next_step(&success(""), facts),
            believed(Unverified::NoCount)
        );
    }
    let mut history = History::new(2, false);
    assert!((0..9).all(|_| history.next_step(&short, FACTS) == NextStep::Repeat));
    let mut history = History::new(2, false);
    assert_eq!(history.next_step(&short, forgets), NextStep::Repeat);
    assert_eq!(history.next_step(&short, forgets), believed(Unverified::ShortCount));
    let changed = TableFacts { was_changed: true, ..FACTS };
    assert_eq!(History::new(2, false).next_step(&refused(16, false), changed), NextStep::Repeat);
}
