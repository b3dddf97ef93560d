//! Tests of what `clickhouse/deliver.rs` keeps to itself.

use std::collections::BTreeSet;

use super::*;

/// Scenario: a server without memory for an insert of many messages, and for one of one.
/// Guarantee: the first is given back after a few tries, to be made smaller; the second never
/// is, as it would become a dead letter though nothing is wrong with it. Other overload counts
/// for neither. Nor is one given back of which a view failed: its rows are in the table
/// already, and smaller inserts would store them again under other tokens.
#[test]
fn an_insert_that_is_too_large_for_the_server_is_given_back_unless_it_is_one_message() {
    let tries = |last: i64| {
        let origin = Origin {
            signal: millrace_wire::Signal::Logs,
            group: "group".into(),
            topic: "topic".into(),
            partition: 0,
            range: millrace_ledger::OffsetRange::new(5, last + 1).unwrap(),
            first_timestamp_millis: 0,
            is_read_again: true,
        };
        Tries::new(&origin, 1, 1, "token")
    };
    let judge_text = |text: String| {
        let status = http::StatusCode::INTERNAL_SERVER_ERROR;
        super::super::answer::judge(status, &http::HeaderMap::new(), text.as_bytes(), 1)
    };
    let judge = |code: u32| judge_text(format!("Code: {code}. DB::Exception: something"));
    let judge_view = |code: u32| {
        judge_text(format!(
            "Code: {code}. DB::Exception: would use 3 GiB: {}: while pushing to view db.v. (X)",
            "long ".repeat(200),
        ))
    };
    let mut many = tries(6);
    assert!((0..20).all(|_| !many.is_too_large(&judge(252))));
    let given_back: Vec<bool> = (0..3).map(|_| many.is_too_large(&judge(241))).collect();
    assert_eq!(given_back, [false, false, true]);
    let mut one = tries(5);
    assert!((0..20).all(|_| !one.is_too_large(&judge(241))));
    let mut seen = tries(6);
    assert!(!seen.is_too_large(&judge_view(241)));
    assert!((0..20).all(|_| !seen.is_too_large(&judge(241))), "the table has its rows");
}

/// Scenario: 1,000 partitions, with one shard and with several. Guarantee: each keeps to the
/// endpoints of one shard, however often it fails over; all shards and all endpoints get some;
/// with one shard the endpoint is the one it always was.
#[test]
fn a_partition_keeps_to_its_shard() {
    for (endpoints, replicas) in [(1, 1), (3, 3), (4, 2), (6, 2), (4, 1)] {
        let mut begun = BTreeSet::new();
        for home in 0..1_000_u64 {
            let (shard, start) = Shard::of(home, endpoints, replicas);
            let mut at = start;
            for _ in 0..replicas {
                assert!((shard.first..shard.first + replicas).contains(&at), "{shard:?} {at}");
                at = shard.next(at);
            }
            assert_eq!(at, start, "every replica was tried");
            assert_eq!(shard.first as u64 / replicas as u64, home % (endpoints / replicas) as u64);
            if endpoints == replicas {
                assert_eq!(start as u64, home % endpoints as u64);
            }
            begun.insert(start);
        }
        assert_eq!(begun.len(), endpoints);
    }
}
