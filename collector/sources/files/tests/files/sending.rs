//! Tests refusals, failures, kills and damaged positions.

use std::collections::HashMap;
use std::fs;

use millrace_config::StartAt;

use crate::files::rig::{Rig, numbered, text_of};
use millrace_fake_publisher::Script;

/// Scenario: the publisher refuses everything for a while. Guarantee: reading in that time is
/// bounded, nothing is dropped, and each line is sent once. Slow: 400,000 lines are read, sent and
/// compared one by one.
#[test]
fn while_refused_reading_stops_and_nothing_is_thrown_away() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    rig.script(Script::Refuse);
    rig.append("a.log", &text_of("a", 0, 400_000));
    rig.start();
    rig.until("several tries", || rig.publisher.attempt_count() >= 4);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes > 20_000_000);
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes < 12 << 20);
    rig.script(Script::Deliver);
    rig.until_exactly(numbered("a", 0, 400_000));
    rig.stop();
}

/// Scenario: deliveries fail after they were accepted, then succeed. Guarantee: each line is sent,
/// the last copy of each in order.
#[test]
fn what_fails_is_sent_again_in_order() {
    let mut rig = Rig::new(&["a.log"], StartAt::Beginning);
    rig.script(Script::Fail);
    rig.append("a.log", &text_of("a", 0, 60_000));
    rig.start();
    rig.until("some failures", || rig.publisher.attempt_count() >= 12);
    rig.script(Script::Deliver);
    let expected = numbered("a", 0, 60_000);
    rig.until_each(&expected);
    rig.stop();
    // A request after a failed one may be delivered, and is then sent again after that one.
    let texts = rig.texts();
    let last: HashMap<&String, usize> =
        texts.iter().enumerate().map(|(place, text)| (text, place)).collect();
    assert!(expected.is_sorted_by_key(|text| last[text]), "the last copies are in order");
    assert_eq!(last.len(), expected.len());
}

/// Scenario: a kill while requests are held unanswered. Guarantee: the next process sends those
/// lines again and no more than those.
#[test]
fn a_kill_repeats_what_was_in_flight_and_loses_nothing() {
    let mut rig = Rig::new(&["a.log"], StartAt::Beginning);
    rig.append("a.log", &text_of("a", 0, 1000));
    rig.start();
    rig.until_exactly(numbered("a", 0, 1000));
    rig.stop();
    rig.script(Script::Hold);
    rig.start();
    rig.append("a.log", &text_of("a", 1000, 2000));
    rig.until_each(&numbered("a", 1000, 2000));
    rig.kill();
    rig.start();
    let repeated = [numbered("a", 0, 2000), numbered("a", 1000, 2000)].concat();
    rig.until_exactly(repeated);
    rig.stop();
}

/// Scenario: at a first start with `startAt: End` a line is half written; its remainder is written
/// in pieces, with a stop and a start between them. Guarantee: it is no record; the next lines are,
/// completely.
#[test]
fn a_line_that_is_half_written_at_the_first_start_is_not_read_in_part() {
    let mut rig = Rig::new(&["a.log"], StartAt::End);
    rig.append("a.log", "half of");
    rig.start();
    rig.until_metric("millrace_files_open", |open| open == 1);
    rig.append("a.log", " a line");
    rig.stop();
    rig.start();
    rig.append("a.log", " and its end\n");
    rig.append("a.log", &text_of("a", 0, 5));
    rig.until_each(&numbered("a", 0, 5));
    rig.stop();
    rig.until_exactly(numbered("a", 0, 5));
}

/// Scenario: the document of positions is torn, then the previous one as well. Guarantee: the
/// previous one is used, then everything is read from the beginning: in neither case is a line
/// skipped.
#[test]
fn torn_positions_skip_nothing() {
    let mut rig = Rig::new(&["a.log"], StartAt::End);
    rig.append("a.log", &text_of("old", 0, 10));
    rig.start();
    rig.until_metric("millrace_files_known", |files| files == 1);
    rig.append("a.log", &text_of("a", 0, 10));
    rig.until_each(&numbered("a", 0, 10));
    rig.stop();
    let tear = |name: &str| {
        let path = rig.positions().join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    };
    tear("positions");
    rig.append("a.log", &text_of("a", 10, 20));
    rig.start();
    rig.until_each(&numbered("a", 0, 20));
    rig.stop();
    let expected = [numbered("old", 0, 10), numbered("a", 0, 20)].concat();
    fs::write(rig.positions().join("positions"), "junk").unwrap();
    fs::write(rig.positions().join("positions.previous"), "").unwrap();
    rig.start();
    rig.until_each(&expected);
    rig.stop();
}
