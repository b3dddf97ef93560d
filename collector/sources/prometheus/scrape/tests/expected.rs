//! Tests that expected lines, whose labels are copied, give the same result as parsed lines.

use common::{LIMITS, S, scrape_pieces, target};
use millrace_scrape::{BodyFormat, SeriesMemory, TargetAttributes};
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use crate::common;

/// The text before a value, and the text after it.
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

/// Returns bodies of one target: each has some of the lines, partly in another order.
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

/// Returns the results of bodies, each scraped 15 s after the one before.
fn read(
    bodies: &[Vec<Parts>],
    (target, format): (&TargetAttributes, BodyFormat),
    blank: &str,
) -> Vec<(Vec<String>, String)> {
    let mut memory = SeriesMemory::default();
    let turns = bodies.iter().enumerate().map(|(turn, body)| {
        let mut text: String =
            body.iter().map(|(name, rest)| format!("{name}{}{rest}\n", blank)).collect();
        if format == BodyFormat::OpenMetrics {
            text.push_str("# EOF\n");
        }
        let time = (1_764_000_000 + 15 * turn as u64) * S;
        let pieces = [text.as_bytes()];
        let came = scrape_pieces(target, &mut memory, (format, LIMITS), time, &pieces);
        (came.all_points(), format!("{:?} {:?} {}", came.counts, came.fault, memory.series_count()))
    });
    turns.collect()
}

proptest! {
    /// Scenario: bodies of a target have series that stay, change, appear and end; the same bodies
    /// have a second blank before each value, so that no line is expected. Guarantee: points,
    /// counts and faults are the same.
    #[test]
    fn an_expected_line_is_read_as_any_other(
        bodies in bodies(),
        is_open: bool,
        honors: (bool, bool),
    ) {
        let format = if is_open { BodyFormat::OpenMetrics } else { BodyFormat::Prometheus };
        let labels = vec![("env".to_owned(), "production".to_owned())];
        let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), labels, honors.0, honors.1);
        let quick = read(&bodies, (&target, format), "");
        prop_assert_eq!(quick, read(&bodies, (&target, format), " "));
    }
}

/// Scenario: a body of four counters repeats. Guarantee: the memory keeps its size, and each scrape
/// after the first writes the same points, except for the values.
#[test]
fn a_body_that_comes_again_is_remembered_once() {
    let lines = ["a{x=\"1\"}", "a{x=\"2\"}", "b", "c{x=\"1\",y=\"long enough for two words\"}"];
    let body: String = lines.iter().map(|line| format!("{line} 1\n")).collect();
    let (target, mut memory) = (target(), SeriesMemory::default());
    let mut sizes = Vec::new();
    for turn in 1..5 {
        let pieces = [body.as_bytes()];
        let limits = (BodyFormat::Prometheus, LIMITS);
        let came = scrape_pieces(&target, &mut memory, limits, turn * S, &pieces);
        assert_eq!(came.points().len(), 4);
        assert_eq!(came.counts.added, if turn == 1 { 4 } else { 0 });
        sizes.push(memory.held_bytes());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}
