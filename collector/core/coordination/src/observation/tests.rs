//! Tests of the private code of `observation.rs`.

use super::*;

fn load(table: &str, parts: u64, rows: u64, requests: u64) -> TableLoad {
    TableLoad { table: table.to_owned(), parts, rows, requests }
}

/// Scenario: one of two servers inserted into a table, the other fetched and merged its parts.
/// Guarantee: for each table, rows count once and requests of both servers count.
#[test]
fn requests_of_all_replicas_count_for_rows_that_one_inserted() {
    let first = [load("logs", 10, 1_000_000, 80), load("traces", 1, 500, 9)];
    let second = [load("logs", 0, 0, 70)];
    let [logs, traces] = &TableLoad::sum_by_table(first.iter().chain(&second))[..] else {
        panic!()
    };
    assert_eq!(logs, &load("logs", 10, 1_000_000, 150));
    assert_eq!((logs.requests_per_million_rows(), logs.requests_per_part()), (Some(150), Some(15)));
    assert_eq!(
        (traces.rows_per_part(), traces.requests_per_million_rows()),
        (Some(500), Some(18_000))
    );
}

/// Scenario: a table with merges and no inserts. Guarantee: it has no ratio.
#[test]
fn a_table_without_inserts_has_no_ratio() {
    let merged = load("logs", 0, 0, 30);
    assert_eq!((merged.requests_per_million_rows(), merged.requests_per_part()), (None, None));
    assert_eq!(merged.rows_per_part(), None);
}
