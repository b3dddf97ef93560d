//! Lines that are expected, whose labels are copied unread, become the same as lines read in full.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{LIMITS, S, scrape_pieces, target};
use millrace_scrape::{Format, Memory, Target};
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

/// What stands before a value, and what behind it.
type Parts = (String, String);

fn line() -> impl Strategy<Value = Parts> {
    let value = prop_oneof![
        "-?[0-9]{1,3}(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,2})?",
        Just("NaN".to_owned()),
        Just("x".to_owned()),
        "[0-9]{1,2} [0-9]{4,12}",
        "[0-9]{1,2} # \\{trace=\"[a-c]\"\\} [0-9]",
    ];
    let identity = prop_oneof![
        "[ab](_total)?(\\{[xyz]=\"[a-cé]{0,9}\"(,env=\"[ab]\")?\\})?",
        "(a|b)\\{x=\"[a-c]{0,9}\"[ ,]?y ?= ?\"[a-c]{0,9}\"\\}",
        "(a|b)(_total)?\\{[xyz]=\"[a-c]{0,4}\", ?[uvw]=\"[a-c]{8,12}\",?\\}",
        Just("a{x=\"\\\\n\"}".to_owned()),
        Just("{\"a\",x=\"1\"}".to_owned()),
        "h_(bucket\\{le=\"(1|2|\\+Inf)\"\\}|sum|count)",
        "a_created(\\{x=\"[ab]\"\\})?",
    ];
    let sample = (identity, value.prop_map(|value| format!(" {value}")));
    let kind = "# TYPE (a counter|a gauge|b info|b gauge|h histogram)";
    prop_oneof![8 => sample, 2 => kind.prop_map(|kind| (kind, String::new()))]
}

/// Bodies of one target: each has some of the lines, some of them in another order.
fn bodies() -> impl Strategy<Value = Vec<Vec<Parts>>> {
    let lines = proptest::collection::vec(line(), 1..12);
    let changes = proptest::collection::vec((any::<usize>(), any::<usize>(), line()), 0..3);
    (lines, proptest::collection::vec(changes, 1..5)).prop_map(|(mut lines, turns)| {
        let mut bodies = vec![lines.clone()];
        for turn in turns {
            for (from, to, new) in turn {
                let (from, to) = (from % lines.len(), to % lines.len());
                match (from + to) % 3 {
                    0 => lines.swap(from, to),
                    1 => lines[from] = new,
                    _ => lines[from].1 = new.1,
                }
            }
            bodies.push(lines.clone());
        }
        bodies
    })
}

/// All that becomes of bodies, each scraped 15 s after the one before.
fn read(
    bodies: &[Vec<Parts>],
    (target, format): (&Target, Format),
    blank: &str,
) -> Vec<(Vec<String>, String)> {
    let mut memory = Memory::default();
    let turns = bodies.iter().enumerate().map(|(turn, body)| {
        let mut text: String =
            body.iter().map(|(name, rest)| format!("{name}{}{rest}\n", blank)).collect();
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        let time = (1_764_000_000 + 15 * turn as u64) * S;
        let pieces = [text.as_bytes()];
        let came = scrape_pieces(target, &mut memory, (format, LIMITS), time, &pieces);
        (came.all_points(), format!("{:?} {:?} {}", came.counts, came.fault, memory.series()))
    });
    turns.collect()
}

proptest! {
    /// Scenario: bodies of a target whose series stay, change, come and go, and the same bodies with
    /// a second blank before each value, which no line is expected to have. Guarantee: points,
    /// counts and faults are the same.
    #[test]
    fn an_expected_line_is_read_as_any_other(
        bodies in bodies(),
        is_open: bool,
        honors: (bool, bool),
    ) {
        let format = if is_open { Format::OpenMetrics } else { Format::Prometheus };
        let labels = vec![("env".to_owned(), "production".to_owned())];
        let target = Target::new("node", ("http", "10.0.0.1", 9100), labels, honors.0, honors.1);
        let quick = read(&bodies, (&target, format), "");
        prop_assert_eq!(quick, read(&bodies, (&target, format), " "));
    }
}

/// Scenario: a body of four counters again and again. Guarantee: what is remembered stays as large
/// as it is, and each scrape after the first says the same of each series, but for its value.
#[test]
fn a_body_that_comes_again_is_remembered_once() {
    let lines = ["a{x=\"1\"}", "a{x=\"2\"}", "b", "c{x=\"1\",y=\"long enough for two words\"}"];
    let body: String = lines.iter().map(|line| format!("{line} 1\n")).collect();
    let (target, mut memory) = (target(), Memory::default());
    let mut sizes = Vec::new();
    for turn in 1..5 {
        let pieces = [body.as_bytes()];
        let limits = (Format::Prometheus, LIMITS);
        let came = scrape_pieces(&target, &mut memory, limits, turn * S, &pieces);
        assert_eq!(came.points().len(), 4);
        assert_eq!(came.counts.added, if turn == 1 { 4 } else { 0 });
        sizes.push(memory.bytes());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}
