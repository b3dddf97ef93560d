//! Tests of what `readiness.rs` keeps to itself.

use super::{MAX_REASON_BYTES, Readiness};

/// Scenario: a part that works has a note, then none. Guarantee: it is told, and the process
/// is ready all the time.
#[test]
fn a_note_has_no_say_in_readiness() {
    let readiness = Readiness::default();
    let part = readiness.part("clickhouse");
    part.ready();
    assert!(part.note(Some("a column\nis missing".to_owned())));
    assert!(!part.note(Some("a column is missing".to_owned())), "the same word is no news");
    assert_eq!(readiness.notes(), ["clickhouse: a column is missing"]);
    assert!(readiness.is_ready());
    assert!(part.note(None) && readiness.notes().is_empty());
}

/// Scenario: two parts come up and one fails again. Guarantee: ready only while both are, and
/// the reason names the part.
#[test]
fn the_process_is_ready_when_all_parts_are() {
    let readiness = Readiness::default();
    let (kafka, listeners) = (readiness.part("kafka"), readiness.part("listeners"));
    assert_eq!(readiness.reasons(), ["kafka: starting", "listeners: starting"]);
    assert!(kafka.ready() && listeners.ready());
    assert!(readiness.is_ready() && kafka.is_ready());
    assert!(kafka.not_ready("wrong\npassword"));
    assert!(!kafka.not_ready("wrong password"), "the same word is no news");
    assert_eq!(readiness.reasons(), ["kafka: wrong password"]);
}

/// Scenario: an endless reason. Guarantee: it is cut, at a character's edge.
#[test]
fn long_reasons_are_cut() {
    let readiness = Readiness::default();
    readiness.part("x").not_ready("ä".repeat(1000));
    assert!(readiness.reasons()[0].len() <= MAX_REASON_BYTES + 3);
}
