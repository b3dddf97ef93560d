//! Tests of the table of ClickHouse's error codes.

use super::*;

/// Scenario: each code of the table, and unlisted ones. Guarantee: codes ascend, so each is found,
/// with a name and a link; an unlisted one stops, another replica may accept it, and what it stored
/// is unknown.
#[test]
fn every_code_is_found_and_an_unlisted_one_stops() {
    assert!(ERROR_CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
    for row in ERROR_CODES {
        assert_eq!(ErrorCode::from_code(row.code), *row);
        assert!(row.is_listed() && row.meaning_link().contains(row.name), "{row:?}");
    }
    for code in [0, 1, 62, 1_000, u32::MAX] {
        let row = ErrorCode::from_code(code);
        assert_eq!((row.code, row.class, row.reach), (code, Stop, ThisServer));
        assert!(!row.is_listed() && !row.stores_nothing() && row.meaning_link() == SOURCE);
    }
}

/// Scenario: each row. Guarantee: refused log-ins and settings stop before any view; rows that are
/// refused for their bytes are refused by each replica; an insert that may have been stored never
/// counts as not stored.
#[test]
fn rows_agree_with_themselves() {
    for row in ERROR_CODES {
        let is_before_views = matches!(row.concern, LogIn | Setting);
        assert!(!is_before_views || (row.class, row.origin) == (Stop, TableOnly), "{row:?}");
        assert!(row.class != BadRows || row.reach == EachReplica, "{row:?}");
        assert!(row.concern != Coordination || row.class == RetrySame, "{row:?}");
        assert_eq!(crate::is_code(row.code), row.concern == Coordination, "{row:?}");
        assert!(row.class != RetrySame || !row.stores_nothing(), "{row:?}");
    }
}
