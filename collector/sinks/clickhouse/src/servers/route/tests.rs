//! Tests of `route.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Scenario: 1,000 partitions, with one shard and with several. Guarantee: each has one shard and
/// one replica there, always the same; all endpoints get some.
#[test]
fn a_partition_keeps_to_its_shard() {
    for (endpoints, replicas) in [(1, 1), (3, 3), (4, 2), (6, 2), (4, 1)] {
        let routes = Routes::new(endpoints, replicas, 2, 4);
        let mut begun = BTreeSet::new();
        for partition in 0..1_000 {
            let of =
                |table| routes.destination_of("otlp_logs", partition, TableIndex(table)).unwrap();
            let (one, two) = (of(0), of(1));
            assert!(Arc::ptr_eq(&one.route, &of(0).route) && !Arc::ptr_eq(&one.route, &two.route));
            assert_eq!((one.home, one.route.first_endpoint), (two.home, two.route.first_endpoint));
            assert!(one.home < replicas && one.route.first_endpoint.is_multiple_of(replicas));
            begun.insert(one.route.first_endpoint + one.home);
        }
        assert_eq!(begun, (0..endpoints).collect());
        assert!(routes.destination_of("otlp_logs", 0, TableIndex(2)).is_none());
    }
}

/// Scenario: of two shards with two tables each, one shard's endpoint refuses one table for long.
/// Guarantee: only that table is held back, only at that shard; a waiting insert holds no slot; a
/// further one that may leave is returned, and one that may not also waits.
#[test]
fn a_failure_holds_back_its_own_table_and_shard() {
    let routes = Routes::new(2, 1, 2, 1);
    let of = |shard: usize, table: usize| Arc::clone(&routes.routes[shard * 2 + table]);
    let route = of(0, 0);
    runtime().block_on(async {
        let (mut slot, mut stall) = (route.try_enter(), None);
        assert!(slot.is_some() && route.try_enter().is_none(), "one slot");
        let permit =
            route.acquire_permit(0, Instant::now(), || true, &mut slot, &mut stall).await.unwrap();
        permit.record_failure(Pace::Repair, false);
        for (shard, table) in [(0, 1), (1, 0), (1, 1)] {
            assert!(!of(shard, table).is_held_back() && of(shard, table).try_enter().is_some());
        }
        assert!(route.is_held_back());
        assert_eq!(routes.route_stats(TableIndex(0)), (1, 1));

        let mut waiting =
            pin!(route.acquire_permit(0, Instant::now(), || true, &mut slot, &mut stall));
        let briefly = Duration::from_millis(1);
        assert!(tokio::time::timeout(briefly, &mut waiting).await.is_err(), "it waits");
        assert_eq!(route.window.allowed(), 1);
        assert!(route.try_enter().is_none(), "as many wait as there are slots");
        let (mut second, mut second_stall) = (route.window.try_enter(), None);
        assert!(second.is_some(), "what waits holds no slot");
        let given_back =
            route.acquire_permit(0, Instant::now(), || true, &mut second, &mut second_stall).await;
        assert!(given_back.is_none() && second.is_none());
        let (mut third, mut third_stall) = (route.window.try_enter(), None);
        let mut stays =
            pin!(route.acquire_permit(0, Instant::now(), || false, &mut third, &mut third_stall));
        assert!(tokio::time::timeout(briefly, &mut stays).await.is_err());
    });
    let RouteState { stalled, waiting, .. } = &*lock(&route.state);
    assert_eq!((*stalled, *waiting), (0, 0));
}

/// Scenario: an endpoint fails briefly and ten inserts wait; the first of them is the probe and
/// ends without an answer, the next succeeds. Guarantee: at most one probes at a time; all are sent
/// after the success.
#[test]
fn one_insert_probes_and_all_follow() {
    let routes = Routes::new(1, 1, 1, 10);
    let route = Arc::clone(&routes.routes[0]);
    runtime().block_on(async {
        let (mut slot, mut stall) = (route.try_enter(), None);
        let permit =
            route.acquire_permit(0, Instant::now(), || false, &mut slot, &mut stall).await.unwrap();
        permit.record_failure(Pace::Retry, false);
        assert!(!route.is_held_back(), "a short wait");
        let probe =
            route.acquire_permit(0, Instant::now(), || false, &mut slot, &mut stall).await.unwrap();
        assert!(probe.is_probe);
        drop(probe);
        let probe =
            route.acquire_permit(0, Instant::now(), || false, &mut slot, &mut stall).await.unwrap();
        let (mut other, mut other_stall) = (route.try_enter(), None);
        let mut waits =
            pin!(route.acquire_permit(0, Instant::now(), || false, &mut other, &mut other_stall));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut waits).await.is_err());
        probe.record_success();
        assert!(!waits.await.unwrap().is_probe);
    });
}

/// Scenario: a slow server doesn't answer for long, and inserts are sent as slots become free.
/// Guarantee: as many as there are slots free theirs; further ones retain it, so at most twice the
/// slots are in flight.
#[test]
fn inserts_without_an_answer_are_bounded() {
    let routes = Routes::new(1, 1, 1, 2);
    let route = Arc::clone(&routes.routes[0]);
    runtime().block_on(async {
        let (mut permits, mut overdue, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for sent in 0..4 {
            let (mut slot, mut stall) = (route.window.try_enter(), None);
            assert!(slot.is_some(), "{sent}");
            let permit = route
                .acquire_permit(0, Instant::now(), || false, &mut slot, &mut stall)
                .await
                .unwrap();
            let late = permit.record_silence(Instant::now(), &mut stall);
            assert_eq!(late.is_some(), sent < 2, "{sent}");
            slots.extend(slot.filter(|_| late.is_none()));
            overdue.extend(late);
            permit.record_success();
            permits.push(stall);
        }
        assert!(route.window.try_enter().is_none(), "twice the slots are under way");
        overdue.pop();
        let (mut slot, mut stall) = (slots.pop(), None);
        let permit =
            route.acquire_permit(0, Instant::now(), || false, &mut slot, &mut stall).await.unwrap();
        assert!(permit.record_silence(Instant::now(), &mut stall).is_some());
    });
}
