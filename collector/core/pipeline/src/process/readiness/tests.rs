//! Tests of the private code of `readiness.rs`.

use super::{MAX_REASON_BYTES, Readiness};

/// Scenario: a working part has a note, then none. Guarantee: the note is reported, and the process
/// stays ready.
#[test]
fn a_note_has_no_say_in_readiness() {
    let readiness = Readiness::default();
    let part = readiness.add_part("clickhouse");
    part.set_ready();
    assert!(part.set_warning(Some("a column\nis missing".to_owned())));
    assert!(!part.set_warning(Some("a column is missing".to_owned())), "the same word is no news");
    assert_eq!(readiness.warnings(), ["clickhouse: a column is missing"]);
    assert!(readiness.is_ready());
    assert!(part.set_warning(None) && readiness.warnings().is_empty());
}

/// Scenario: two parts start and one fails again. Guarantee: ready only while both are, and the
/// reason names the part.
#[test]
fn the_process_is_ready_when_all_parts_are() {
    let readiness = Readiness::default();
    let (kafka, listeners) = (readiness.add_part("kafka"), readiness.add_part("listeners"));
    assert_eq!(readiness.reasons(), ["kafka: starting", "listeners: starting"]);
    assert!(kafka.set_ready() && listeners.set_ready());
    assert!(readiness.is_ready() && kafka.is_ready());
    assert!(kafka.set_not_ready("wrong\npassword"));
    assert!(!kafka.set_not_ready("wrong password"), "the same word is no news");
    assert_eq!(readiness.reasons(), ["kafka: wrong password"]);
}

/// Scenario: an endless reason. Guarantee: it is cut at a character boundary.
#[test]
fn long_reasons_are_cut() {
    let readiness = Readiness::default();
    readiness.add_part("x").set_not_ready("ä".repeat(1000));
    assert!(readiness.reasons()[0].len() <= MAX_REASON_BYTES + 3);
}
