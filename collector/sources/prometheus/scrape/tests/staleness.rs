//! Tests of stale markers, and of malformed bodies.

use common::{LIMITS, S, leave, scrape, scrape_nothing, scrape_open, scrape_pieces, target};
use millrace_scrape::{BodyFormat, BodyLimits, FaultKind, SeriesMemory};

use crate::common;

/// Scenario: a series of each type ends, and returns. Guarantee: each gets one stale marker with
/// its attributes, and restarts when it returns.
#[test]
fn a_series_that_is_gone_is_said_to_be_once() {
    let body = "# TYPE a counter\na_total{x=\"1\"} 5\n# TYPE b gauge\nb{y=\"\\\"\"} 1\n\
        # TYPE i info\ni_info 1\n\
        # TYPE h histogram\nh_bucket{z=\"w\",le=\"+Inf\"} 1\nh_count{z=\"w\"} 1\nh_sum{z=\"w\"} 1\n\
        # TYPE s summary\ns{quantile=\"0.5\"} 1\ns_count 1\ns_sum 1\n# EOF\n";
    let (target, mut memory) = (target(), SeriesMemory::default());
    scrape_open(&target, &mut memory, 10 * S, body);
    assert_eq!(memory.series_count(), 5);
    let gone = scrape_open(&target, &mut memory, 20 * S, "# EOF\n").points();
    assert_eq!(
        gone,
        [
            "a_total counter{x=1} [..20] gone",
            "b gauge{y=\"} [..20] gone",
            "i_info sum{} [..20] gone",
            "h histogram{z=w} [..20] gone",
            "s summary{} [..20] gone",
        ]
    );
    assert!(scrape_open(&target, &mut memory, 30 * S, "# EOF\n").points().is_empty());
    let again = scrape_open(&target, &mut memory, 40 * S, body).points();
    assert_eq!(again[0], "a_total counter{x=1} [40..40] 5");
}

/// Scenario: a target doesn't answer, twice, then answers without one of the series. Guarantee: all
/// series get a stale marker at the first failure, none gets two, and a counter's start is
/// retained.
#[test]
fn a_target_that_fails_is_gone_once_and_keeps_its_beginnings() {
    let (target, mut memory) = (target(), SeriesMemory::default());
    let body = "# TYPE a counter\na 5\nb 1\nc 1 999\n";
    scrape(&target, &mut memory, 10 * S, body);
    let failed = scrape_nothing(&target, &mut memory, 20 * S);
    // A series with its own timestamps is never marked, as in Prometheus.
    assert_eq!(failed.points(), ["a counter{} [..20] gone", "b gauge{} [..20] gone"]);
    assert_eq!(failed.all_points()[2], "up gauge{} [..20] 0");
    assert!(scrape_nothing(&target, &mut memory, 30 * S).points().is_empty());
    let back = scrape(&target, &mut memory, 40 * S, "# TYPE a counter\na 6\n").points();
    assert_eq!(back, ["a counter{} [10..40] 6"]);
}

/// Scenario: a target is removed, after a successful and after a failed scrape. Guarantee: all its
/// series get a stale marker, including the scrape's own; none gets two.
#[test]
fn a_target_that_is_left_takes_all_its_series_with_it() {
    let (target, mut memory) = (target(), SeriesMemory::default());
    let own = [
        "up gauge{} [..30] gone",
        "scrape_duration_seconds gauge{} [..30] gone",
        "scrape_samples_scraped gauge{} [..30] gone",
        "scrape_samples_post_metric_relabeling gauge{} [..30] gone",
        "scrape_series_added gauge{} [..30] gone",
    ];
    scrape(&target, &mut memory, 10 * S, "# TYPE a counter\na 5\nb{c=\"d\"} 1\ntimed 1 999\n");
    let left = leave(&target, &mut memory, 30 * S).all_points();
    assert_eq!(left[..2], ["a counter{} [..30] gone", "b gauge{c=d} [..30] gone"]);
    assert_eq!(left[2..], own);
    let (mut memory, many) = (SeriesMemory::default(), "a 5\n");
    scrape(&target, &mut memory, 10 * S, many);
    scrape_nothing(&target, &mut memory, 20 * S);
    assert_eq!(leave(&target, &mut memory, 30 * S).all_points(), own);
}

/// Scenario: a body has a fault in its last line. Guarantee: none of it is accepted, the fault has
/// the line, and the series of the last scrape get stale markers.
#[test]
fn a_broken_body_is_taken_for_none() {
    let (target, mut memory) = (target(), SeriesMemory::default());
    scrape(&target, &mut memory, 10 * S, "a 5\n");
    let came = scrape(&target, &mut memory, 20 * S, "a 6\nb 1\nc{ 1\n");
    let fault = came.fault.as_ref().unwrap();
    assert_eq!((fault.number, fault.kind), (3, FaultKind::LabelName));
    assert_eq!(came.points(), ["a gauge{} [..20] gone"]);
    assert!(came.all_points().contains(&"up gauge{} [..20] 0".to_owned()));
}

/// Scenario: a body of several requests has a fault at its end. Guarantee: the points that were
/// taken remain; their series get one stale marker a millisecond later, those of the last scrape at
/// the scrape's time.
#[test]
fn what_was_taken_of_a_broken_body_is_gone_a_millisecond_later() {
    let (target, mut memory) = (target(), SeriesMemory::default());
    scrape(&target, &mut memory, 10 * S, "old 5\nm{n=\"1\"} 5\n");
    let mut body: String = (0..20_000).map(|n| format!("m{{n=\"{n}\"}} 1\n")).collect();
    body.push_str("m{");
    let came = scrape(&target, &mut memory, 20 * S, &body);
    let points = came.points();
    let has = |end: &str| points.iter().filter(|line| line.ends_with(end)).count();
    assert!(came.requests.len() > 2);
    assert!(has("[..20] 1") > 1000);
    assert_eq!(has("[..20.001] gone"), 20_000);
    let old: Vec<_> = points.iter().filter(|line| line.ends_with("[..20] gone")).collect();
    assert_eq!(old, ["old gauge{} [..20] gone"]);
    let again = scrape(&target, &mut memory, 30 * S, "old 5\n").points();
    assert_eq!(again, ["old gauge{} [..30] 5"]);
}

/// Scenario: nothing accepts the points of a scrape between two others. Guarantee: the third is
/// compared with the first, so that no stale marker is lost.
#[test]
fn a_scrape_that_was_given_up_is_forgotten() {
    let (target, mut memory) = (target(), SeriesMemory::default());
    scrape(&target, &mut memory, 10 * S, "a 1\nb 1\n");
    let mut given_up =
        millrace_scrape::Scrape::new(&target, &mut memory, LIMITS, 20 * S, Default::default());
    assert_eq!(given_up.feed(b"a 1\n"), Ok(4));
    given_up.end_body().unwrap();
    drop(given_up);
    let came = scrape(&target, &mut memory, 30 * S, "a 1\n").points();
    assert_eq!(came, ["a gauge{} [..30] 1", "b gauge{} [..30] gone"]);
}

/// Scenario: bodies exceed each limit. Guarantee: each is refused with the limit's name.
#[test]
fn limits_are_kept() {
    let refused = |limits: BodyLimits, format, body: &str| {
        let came = scrape_pieces(
            &target(),
            &mut SeriesMemory::default(),
            (format, limits),
            10 * S,
            &[body.as_bytes()],
        );
        assert!(came.points().is_empty());
        came.fault.unwrap().kind
    };
    let text = BodyFormat::Prometheus;
    let few = BodyLimits { samples: 2, ..LIMITS };
    assert_eq!(refused(few, text, "a 1\nb 1\nc 1\n"), FaultKind::Samples(2));
    let short = BodyLimits { body_bytes: 8, ..LIMITS };
    assert_eq!(refused(short, text, "a 1\nb 1\nc 1\n"), FaultKind::LongBody(8));
    let one = BodyLimits { labels: 1, ..LIMITS };
    assert_eq!(refused(one, text, "a{b=\"1\",c=\"1\"} 1\n"), FaultKind::Labels(1));
    let line = format!("a{{b=\"{}\"}} 1\n", "x".repeat(70_000));
    assert_eq!(refused(LIMITS, text, &line), FaultKind::LongLine);
    let open: String = (0..5000).map(|n| format!("h_bucket{{n=\"{n}\",le=\"1\"}} 1\n")).collect();
    let open = format!("# TYPE h histogram\n{open}");
    assert_eq!(refused(LIMITS, text, &open), FaultKind::OpenGroups);
    assert_eq!(refused(LIMITS, BodyFormat::OpenMetrics, "a 1\n"), FaultKind::NoEnd);
    assert_eq!(refused(LIMITS, BodyFormat::OpenMetrics, "# EOF\na 1\n"), FaultKind::BehindEnd);
}
