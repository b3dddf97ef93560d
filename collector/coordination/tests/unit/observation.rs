//! Tests of what `observation.rs` keeps to itself.

use super::*;

fn load(table: &str, parts: u64, rows: u64, requests: u64) -> TableLoad {
    TableLoad { table: table.to_owned(), parts, rows, requests }
}

/// Scenario: two servers, of which one inserted into a table and the other fetched and merged its
/// parts. Guarantee: rows count once, requests of both, for each table by itself.
#[test]
fn requests_of_all_replicas_count_for_rows_that_one_inserted() {
    let first = [load("logs", 10, 1_000_000, 80), load("traces", 1, 500, 9)];
    let second = [load("logs", 0, 0, 70)];
    let [logs, traces] = &TableLoad::summed(first.iter().chain(&second))[..] else { panic!() };
    assert_eq!(logs, &load("logs", 10, 1_000_000, 150));
    assert_eq!((logs.requests_per_million_rows(), logs.requests_per_part()), (Some(150), Some(15)));
    assert_eq!(
        (traces.rows_per_part(), traces.requests_per_million_rows()),
        (Some(500), Some(18_000))
    );
}

/// Scenario: a table with merges and no inserts. Guarantee: no ratio is made up.
#[test]
fn a_table_without_inserts_has_no_ratio() {
    let merged = load("logs", 0, 0, 30);
    assert_eq!((merged.requests_per_million_rows(), merged.requests_per_part()), (None, None));
    assert_eq!(merged.rows_per_part(), None);
}
