//! Tests of the private functions of `pair_order.rs`.

use super::*;
use crate::column::ColumnBuilder as _;
use millrace_wire::protobuf::Cursor;
use proptest::prelude::*;

type Pair = (Vec<u8>, Vec<u8>);

/// Returns the pairs of each row after sorting, from the columns that hold them.
fn sorted(order: &mut PairOrder, rows: &[Vec<Pair>]) -> Vec<Vec<Pair>> {
    let (mut keys, mut values) = (Dictionary::default(), Strings::default());
    for row in rows {
        let (first_key, first_byte) = (keys.len(), values.end_offset());
        for (key, value) in row {
            keys.push(key);
            values.push(value);
        }
        order.sort((&mut keys, first_key), (&mut values, first_byte));
    }
    let mut cursor = Cursor::new(values.data());
    let mut indexes = keys.indexes_from(0).iter();
    let mut pair = || {
        let key = keys.get(*indexes.next().unwrap()).to_vec();
        (key, cursor.bytes().unwrap().to_vec())
    };
    rows.iter().map(|row| row.iter().map(|_| pair()).collect()).collect()
}

fn by_keys(rows: &[Vec<Pair>]) -> Vec<Vec<Pair>> {
    let mut rows = rows.to_vec();
    rows.iter_mut().for_each(|row| row.sort_by(|one, other| one.0.cmp(&other.0)));
    rows
}

fn pair(key: &str, value: &str) -> Pair {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

/// Scenario: one series from a sender that lists its attributes in two orders, with a duplicate
/// key. Guarantee: its pairs have one order, and equal keys stay in the order sent.
#[test]
fn a_series_has_one_order_whatever_the_sender_lists_first() {
    let rows = [
        vec![pair("method", "GET"), pair("host", "a"), pair("host", "b")],
        vec![pair("host", "a"), pair("method", "GET"), pair("host", "b")],
        vec![pair("method", "GET"), pair("host", "a"), pair("host", "b")],
    ];
    let expected = vec![pair("host", "a"), pair("host", "b"), pair("method", "GET")];
    assert_eq!(sorted(&mut PairOrder::default(), &rows), vec![expected; 3]);
}

/// Scenario: a row of the maximum number of attributes, then usual rows of many senders, in several
/// batches. Guarantee: all are sorted, and the memory of the long row is freed.
#[test]
fn long_rows_are_sorted_and_their_memory_is_given_back() {
    let mut order = PairOrder::default();
    let long: Vec<Pair> = (0..millrace_wire::limits::ATTRIBUTES)
        .rev()
        .map(|n| pair(&format!("{n:06}"), "v"))
        .collect();
    let rows = [long];
    assert_eq!(sorted(&mut order, &rows), by_keys(&rows));
    let most = order.memory_bytes();
    for _ in 0..12 {
        order.clear();
        let rows: Vec<Vec<Pair>> =
            (0..200).map(|n| vec![pair(&format!("z{n}"), "1"), pair("a", "2")]).collect();
        assert_eq!(sorted(&mut order, &rows), by_keys(&rows));
    }
    // Four buffers retain 64 KiB each.
    assert!(order.memory_bytes() < most.min(6 * 64 * 1024), "{} of {most}", order.memory_bytes());
}

fn row() -> impl Strategy<Value = Vec<Pair>> {
    let key = prop_oneof![4 => "[a-d]", 1 => "[a-z.]{0,40}"].prop_map(String::into_bytes);
    let value = prop_oneof![8 => "[0-9]{0,12}", 1 => "x{120,300}"].prop_map(String::into_bytes);
    proptest::collection::vec((key, value), 0..90)
}

proptest! {
    /// Scenario: rows in any order, of more sequences of keys than are remembered, in batches whose
    /// dictionaries give the same indexes to other keys. Guarantee: each row has its pairs, sorted
    /// by key, with equal keys in the order sent. Slow: 256 cases of up to 120 rows of 90 pairs.
    #[test]
    fn rows_are_sorted_by_key_and_lose_no_pair(
        batches in proptest::collection::vec(proptest::collection::vec(row(), 0..40), 1..4),
    ) {
        let mut order = PairOrder::default();
        for rows in batches {
            prop_assert_eq!(sorted(&mut order, &rows), by_keys(&rows));
            order.clear();
        }
    }
}
