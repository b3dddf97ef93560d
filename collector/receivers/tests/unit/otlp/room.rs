//! Tests of what `otlp/room.rs` keeps to itself.

use super::{CONNECTIONS_SHARE, Rooms, SHORT_STREAMS, Short, TABLE_BLOCK_BYTES, TABLE_BLOCKS};
use millrace_config::{ByteSize, OtlpLimits};
use millrace_pipeline::budget::Budget;

fn rooms(budget: &Budget) -> Rooms {
    Rooms::new(budget.clone(), &OtlpLimits::default(), 2)
}

/// Scenario: connections until there is no more room, of both kinds. Guarantee: they have a
/// half of the budget, and what is refused takes nothing; all of it returns.
#[test]
fn connections_have_a_share_of_the_budget() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let share = budget.limit_bytes() / CONNECTIONS_SHARE;
    let plain: Vec<_> = std::iter::from_fn(|| rooms.connection(false)).collect();
    assert_eq!(plain.len() as u64, share / (64 << 10));
    assert!(budget.used_bytes() <= share);
    drop(plain);
    assert_eq!(budget.used_bytes(), 0);
    let idle = |tls| rooms.http2(rooms.connection(tls)?, tls, Short::default());
    let http2: Vec<_> = std::iter::from_fn(|| idle(true)).collect();
    // 52 KiB, and 64 for TLS; the last one needs 12 more while it isn't known what it speaks.
    assert_eq!(http2.len() as u64, (share - (12 << 10)) / (116 << 10));
    drop(http2);
    let http2: Vec<_> = std::iter::from_fn(|| idle(false)).collect();
    assert_eq!(http2.len() as u64, (share - (12 << 10)) / (52 << 10));
    // Lists that are being read are beside the share, once for all connections: 2 MiB.
    assert!(budget.used_bytes() <= share + (2 << 20));
    drop(http2);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: budgets at the least for one connection and a byte less, with lists of the usual
/// length and of the longest. Guarantee: told apart, and at the least a connection has room.
#[test]
fn a_budget_too_small_for_one_connection_is_told() {
    let long = ByteSize::mib(1);
    for header_list_bytes in [OtlpLimits::default().header_list_bytes, long] {
        let limits = OtlpLimits { header_list_bytes, ..OtlpLimits::default() };
        let least = Rooms::new(Budget::new(0), &limits, 2).suffice().unwrap_err();
        let one_less = Rooms::new(Budget::new(least - 1), &limits, 2);
        assert_eq!(one_less.suffice(), Err(least));
        let rooms = Rooms::new(Budget::new(least), &limits, 2);
        assert_eq!(rooms.suffice(), Ok(()));
        let room = rooms.connection(true).unwrap();
        let mut room = rooms.http2(room, true, Short::default()).unwrap();
        assert!(room.follow(limits.concurrent_streams as usize));
    }
}

/// Scenario: streams open and end on idle connections that have nearly all of their share.
/// Guarantee: each stream has room while it is open; what finds none is told, is few, and takes
/// nothing; the connections stay, and have room again when other streams have ended.
#[test]
fn streams_have_room_while_they_are_open() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let short = Short::default();
    let idle = || rooms.http2(rooms.connection(false)?, false, short.clone());
    let mut idle: Vec<_> = std::iter::from_fn(idle).collect();
    drop(idle.split_off(idle.len() - 3));
    let before = budget.used_bytes();
    let mut free = ((64 << 20) / CONNECTIONS_SHARE - 52 * 1024 * idle.len() as u64) >> 10;
    let [first, second, ..] = idle.as_mut_slice() else { panic!("two connections") };
    assert!(first.follow(1) && first.follow(100));
    assert_eq!(budget.used_bytes() - before, (64 + 100) << 10);
    free -= 164;
    // The second finds no room for a stream's 65 KiB beside the first.
    assert!(free < 65 && !second.follow(1) && short.is_so());
    assert!(second.bears(SHORT_STREAMS) && !second.bears(SHORT_STREAMS + 1));
    assert!(first.follow(0));
    assert_eq!(budget.used_bytes(), before);
    assert!(second.follow(1) && !short.is_so() && second.follow(0));
    drop(idle);
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a budget that requests have filled. Guarantee: no connection and no request is let
/// in, until there is room again.
#[test]
fn a_full_budget_lets_nobody_in() {
    let budget = Budget::new(1 << 20);
    let rooms = rooms(&budget);
    let held = budget.try_reserve((1 << 20) - 1000);
    assert!(rooms.connection(false).is_none() && rooms.request().is_none());
    drop(held);
    assert!(rooms.connection(false).is_some() && rooms.request().is_some());
    assert_eq!(budget.used_bytes(), 0);
}

/// Scenario: a header table that is added to, block by block, and emptied. Guarantee: it has
/// room for each, for as many as can be in it, and none when it is empty.
#[test]
fn a_header_table_has_room_for_what_it_can_keep() {
    let budget = Budget::new(64 << 20);
    let rooms = rooms(&budget);
    let _connection = rooms.connection(false);
    let before = budget.used_bytes();
    let mut table = rooms.table();
    assert!((0..1000).all(|_| table.grow()));
    assert_eq!(budget.used_bytes() - before, TABLE_BLOCKS * TABLE_BLOCK_BYTES);
    table.empty();
    assert_eq!(budget.used_bytes(), before);
    let mut tables: Vec<_> = (0..20).map(|_| rooms.table()).collect();
    assert!(!tables.iter_mut().all(|table| (0..1000).all(|_| table.grow())));
    drop(tables);
    assert_eq!(budget.used_bytes(), before);
}
