//! Tests of `connection_budget.rs`.

use super::{
    CONNECTIONS, ConnectionBudget, SHORT_STREAMS, StreamShortage, TABLE_BLOCK_BYTES, TABLE_BLOCKS,
};
use millrace_config::{ByteSize, OtlpLimits};
use millrace_pipeline::budget::Budget;

fn rooms(budget: &Budget) -> ConnectionBudget {
    ConnectionBudget::new(budget.clone(), &OtlpLimits::default(), 2)
}

/// Scenario: connections of both kinds until the budget refuses. Guarantee: they have half of the
/// budget, a refused one reserves nothing, and the complete budget is freed.
#[test]
fn connections_have_a_share_of_the_budget() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let share = budget.limit_bytes() / CONNECTIONS;
    let plain: Vec<_> = std::iter::from_fn(|| rooms.reserve_connection(false)).collect();
    assert_eq!(plain.len() as u64, share / (64 << 10));
    assert!(budget.used_bytes() <= share);
    drop(plain);
    assert_eq!(budget.used_bytes(), 0);
    let idle =
        |tls| rooms.reserve_http2(rooms.reserve_connection(tls)?, tls, StreamShortage::default());
    let http2: Vec<_> = std::iter::from_fn(|| idle(true)).collect();
    // 52 KiB, and 64 for TLS; the last one needs 12 more while its protocol is unknown.
    assert_eq!(http2.len() as u64, (share - (12 << 10)) / (116 << 10));
    drop(http2);
    let http2: Vec<_> = std::iter::from_fn(|| idle(false)).collect();
    assert_eq!(http2.len() as u64, (share - (12 << 10)) / (52 << 10));
    // Header lists that are being read count outside the share, once for all connections: 2 MiB.
    assert!(budget.used_bytes() <= share + (2 << 20));
    drop(http2);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: budgets at the minimum for one connection and a byte less, with lists of the usual and
/// the maximum length. Guarantee: only the smaller is refused, and the minimum holds a connection.
#[test]
fn a_budget_too_small_for_one_connection_is_told() {
    let long = ByteSize::mib(1);
    for header_list_bytes in [OtlpLimits::default().header_list_bytes, long] {
        let limits = OtlpLimits { header_list_bytes, ..OtlpLimits::default() };
        let least = ConnectionBudget::new(Budget::new(0), &limits, 2).check_budget().unwrap_err();
        let one_less = ConnectionBudget::new(Budget::new(least - 1), &limits, 2);
        assert_eq!(one_less.check_budget(), Err(least));
        let rooms = ConnectionBudget::new(Budget::new(least), &limits, 2);
        assert_eq!(rooms.check_budget(), Ok(()));
        let room = rooms.reserve_connection(true).unwrap();
        let mut room = rooms.reserve_http2(room, true, StreamShortage::default()).unwrap();
        assert!(room.cover_streams(limits.concurrent_streams as usize));
    }
}

/// Scenario: streams open and end on idle connections that use nearly all of their share.
/// Guarantee: each stream has budget while it is open; the few without are reported and reserve
/// nothing; the connections stay, and get budget again when other streams have ended.
#[test]
fn streams_have_room_while_they_are_open() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let short = StreamShortage::default();
    let idle = || rooms.reserve_http2(rooms.reserve_connection(false)?, false, short.clone());
    let mut idle: Vec<_> = std::iter::from_fn(idle).collect();
    drop(idle.split_off(idle.len() - 3));
    let before = budget.used_bytes();
    let mut free = ((64 << 20) / CONNECTIONS - 52 * 1024 * idle.len() as u64) >> 10;
    let [first, second, ..] = idle.as_mut_slice() else { panic!("two connections") };
    assert!(first.cover_streams(1) && first.cover_streams(100));
    assert_eq!(budget.used_bytes() - before, (64 + 100) << 10);
    free -= 164;
    // The second finds no budget for a stream's 65 KiB alongside the first.
    assert!(free < 65 && !second.cover_streams(1) && short.is_set());
    assert!(second.can_refuse(SHORT_STREAMS) && !second.can_refuse(SHORT_STREAMS + 1));
    assert!(first.cover_streams(0));
    assert_eq!(budget.used_bytes(), before);
    assert!(second.cover_streams(1) && !short.is_set() && second.cover_streams(0));
    drop(idle);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: requests have filled the budget. Guarantee: no connection and no request is accepted
/// until budget is free again.
#[test]
fn a_full_budget_lets_nobody_in() {
    let budget = Budget::new(1 << 20);
    let rooms = rooms(&budget);
    let held = budget.try_reserve((1 << 20) - 1000);
    assert!(rooms.reserve_connection(false).is_none() && rooms.reserve_request().is_none());
    drop(held);
    assert!(rooms.reserve_connection(false).is_some() && rooms.reserve_request().is_some());
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a header table grows block by block, and is emptied. Guarantee: it reserves budget for
/// each block up to its maximum, and none when it is empty.
#[test]
fn a_header_table_has_room_for_what_it_can_keep() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let _connection = rooms.reserve_connection(false);
    let before = budget.used_bytes();
    let mut table = rooms.empty_table();
    assert!((0..1000).all(|_| table.add_block()));
    assert_eq!(budget.used_bytes() - before, TABLE_BLOCKS * TABLE_BLOCK_BYTES);
    table.release_all();
    assert_eq!(budget.used_bytes(), before);
    let mut tables: Vec<_> = (0..20).map(|_| rooms.empty_table()).collect();
    assert!(!tables.iter_mut().all(|table| (0..1000).all(|_| table.add_block())));
    drop(tables);
    assert_eq!(budget.used_bytes(), before);
}
