//! Tests of the protobuf format, with messages from a reference library.

use common::{Came, LIMITS, S, scrape, scrape_pieces, target};
use families::{
    Bucket, Counter, Exemplar, Family, Gauge, Histogram, Metric, Quantile, Span, Summary, Time,
    body, labels,
};
use millrace_scrape::{BodyFormat, BodyPart, FaultKind, SeriesMemory};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use crate::common;
use crate::families;

const COUNTER: i32 = 0;
const GAUGE: i32 = 1;
const SUMMARY: i32 = 2;
const UNTYPED: i32 = 3;
const HISTOGRAM: i32 = 4;
const GAUGE_HISTOGRAM: i32 = 5;

fn family(name: &str, type_: i32, metric: Vec<Metric>) -> Family {
    let name = Some(name.to_owned());
    Family {
        name,
        help: Some("A \"text\" of\nhelp.".to_owned()),
        r#type: Some(type_),
        metric,
        unit: None,
    }
}

fn gauge(pairs: &[(&str, &str)], value: f64) -> Metric {
    Metric { label: labels(pairs), gauge: Some(Gauge { value: Some(value) }), ..Metric::default() }
}

fn with(histogram: Histogram) -> Metric {
    Metric { label: labels(&[("path", "/a")]), histogram: Some(histogram), ..Metric::default() }
}

fn native() -> Histogram {
    Histogram {
        sample_count: Some(12),
        sample_sum: Some(18.4),
        schema: Some(1),
        zero_threshold: Some(1e-128),
        zero_count: Some(2),
        positive_span: vec![
            Span { offset: Some(0), length: Some(2) },
            Span { offset: Some(1), length: Some(2) },
        ],
        positive_delta: vec![1, 1, -1, 0],
        negative_span: vec![Span { offset: Some(-2), length: Some(1) }],
        negative_delta: vec![5],
        created_timestamp: Some(Time { seconds: 3, nanos: 500_000_000 }),
        exemplars: vec![Exemplar {
            label: labels(&[("trace_id", "0123456789abcdef0123456789abcdef"), ("k", "v")]),
            value: Some(1.5),
            timestamp: Some(Time { seconds: 9, nanos: 0 }),
        }],
        ..Histogram::default()
    }
}

fn read(memory: &mut SeriesMemory, time: u64, body: &[u8]) -> Came {
    scrape_pieces(&target(), memory, (BodyFormat::Protobuf, LIMITS), time, &[body])
}

fn classic() -> Histogram {
    let bucket = |bound: f64, count| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(bound),
        ..Bucket::default()
    };
    Histogram {
        sample_count: Some(7),
        sample_sum: Some(4.5),
        bucket: vec![bucket(0.5, 3), bucket(1.0, 5)],
        ..Histogram::default()
    }
}

fn all() -> Vec<Family> {
    let counter = Counter {
        value: Some(5.0),
        exemplar: Some(Exemplar {
            label: labels(&[("span_id", "0123456789abcdef"), ("é", "\"")]),
            value: Some(2.0),
            timestamp: None,
        }),
        created_timestamp: Some(Time { seconds: 4, nanos: 0 }),
    };
    let summary = Summary {
        sample_count: Some(3),
        sample_sum: Some(1.5),
        quantile: vec![Quantile { quantile: Some(0.5), value: Some(0.25) }],
        created_timestamp: None,
    };
    vec![
        family(
            "requests_total",
            COUNTER,
            vec![Metric { counter: Some(counter), ..Metric::default() }],
        ),
        family("temperature", GAUGE, vec![gauge(&[("a", "x\"y")], 1.5), gauge(&[], -2.0)]),
        family(
            "any",
            UNTYPED,
            vec![Metric {
                untyped: Some(Gauge { value: Some(f64::INFINITY) }),
                timestamp_ms: Some(8000),
                ..Metric::default()
            }],
        ),
        family("wait", SUMMARY, vec![Metric { summary: Some(summary), ..Metric::default() }]),
        family("took", HISTOGRAM, vec![with(classic())]),
        family("size", HISTOGRAM, vec![with(native())]),
        family("queue", GAUGE_HISTOGRAM, vec![with(classic())]),
        family("name.with dots", GAUGE, vec![gauge(&[("label.é", "v")], 1.0)]),
    ]
}

/// Scenario: a body has each type, names in UTF-8, times, exemplars and creation times. Guarantee:
/// the points are those that the specification requires; a gauge histogram is skipped and counted.
#[test]
fn each_type_becomes_its_points() {
    let came = read(&mut SeriesMemory::default(), 10 * S, &body(&all()));
    assert_eq!(came.fault, None);
    let trace = "0123456789abcdef0123456789abcdef";
    let expected = [
        "requests_total counter{} [4..10] 5 <10 2 é=\" /0123456789abcdef>".to_owned(),
        "temperature gauge{a=x\"y} [..10] 1.5".to_owned(),
        "temperature gauge{} [..10] -2".to_owned(),
        "any gauge{} [..8] inf".to_owned(),
        "wait summary{} [10..10] count=3 sum=1.5 [(0.5, 0.25)]".to_owned(),
        "took histogram{path=/a} [10..10] count=7 sum=Some(4.5) [0.5, 1.0]/[3, 2, 2]".to_owned(),
        format!(
            "size exponential{{path=/a}} [3.5..10] count=12 sum=Some(18.4) scale=1 zero=2<=1e-128 \
             +-1[1, 2, 0, 1, 1] --3[5] <9 1.5 k=v {trace}/>"
        ),
        "name.with dots gauge{label.é=v} [..10] 1".to_owned(),
    ];
    assert_eq!(came.points(), expected);
    // These include the histogram's infinite bucket, which clients omit.
    assert_eq!((came.counts.samples, came.counts.dropped), (15, 1));
}

/// Scenario: one native histogram ends, and one without creation time is reset. Guarantee: the
/// first gets a stale marker; the other one restarts.
#[test]
fn native_histograms_go_and_begin_anew() {
    let of = |count: u64, name: &str| {
        let sample_count = Some(count);
        let metric = with(Histogram {
            sample_count,
            created_timestamp: None,
            exemplars: vec![],
            ..native()
        });
        family(name, HISTOGRAM, vec![metric])
    };
    let mut memory = SeriesMemory::default();
    read(&mut memory, 10 * S, &body(&[of(20, "a"), of(20, "b")]));
    let kept = read(&mut memory, 20 * S, &body(&[of(21, "a"), of(20, "b")])).points();
    assert!(kept.iter().all(|point| point.contains("[10..20]")), "{kept:?}");
    let came = read(&mut memory, 30 * S, &body(&[of(12, "a")])).points();
    assert!(came[0].starts_with("a exponential{path=/a} [30..30] count=12 "), "{came:?}");
    assert_eq!(came[1], "b exponential{path=/a} [..30] gone");
}

/// Scenario: a target answers in text, then in protobuf, then in text. Guarantee: its series
/// continue.
#[test]
fn a_series_goes_on_when_the_format_changes() {
    let mut memory = SeriesMemory::default();
    let text = "# TYPE took histogram\ntook_bucket{path=\"/a\",le=\"0.5\"} 3\n\
                took_bucket{path=\"/a\",le=\"1\"} 5\ntook_bucket{path=\"/a\",le=\"+Inf\"} 7\n\
                took_sum{path=\"/a\"} 4.5\ntook_count{path=\"/a\"} 7\n# TYPE g gauge\ng{a=\"b\"} 1\n";
    let same = [
        family("took", HISTOGRAM, vec![with(classic())]),
        family("g", GAUGE, vec![gauge(&[("a", "b")], 1.0)]),
    ];
    let first = scrape(&target(), &mut memory, 10 * S, text).points();
    let second = read(&mut memory, 20 * S, &body(&same)).points();
    let third = scrape(&target(), &mut memory, 30 * S, text).points();
    let at = |time: &str, points: Vec<String>| -> Vec<String> {
        points.into_iter().map(|point| point.replace(time, "..now]")).collect()
    };
    let first = at("..10]", first);
    assert_eq!(first.len(), 2);
    assert_eq!(at("..20]", second), first);
    assert_eq!(at("..30]", third), first);
}

/// Scenario: bodies are truncated, have a duplicate label, are no protobuf, or have a metric before
/// its family's name. Guarantee: each is refused with the family's number.
#[test]
fn a_broken_body_is_refused_by_its_family() {
    let whole = body(&all()[..2]);
    let twice = body(&[family("a", GAUGE, vec![gauge(&[("x", "1"), ("x", "2")], 1.0)])]);
    let nameless = body(&[Family { name: None, ..family("", GAUGE, vec![gauge(&[], 1.0)]) }]);
    let other = body(&[family("a", COUNTER, vec![gauge(&[], 1.0)])]);
    for (bytes, number, kind) in [
        (&whole[..whole.len() - 1], 2, FaultKind::CutOff),
        (&twice, 1, FaultKind::LabelTwice),
        (&nameless, 1, FaultKind::Name),
        (&other, 1, FaultKind::Value),
        (b"\x05\x0f\x0f\x0f\x0f\x0f", 1, FaultKind::Protobuf),
        (b"\x02\x0a\x7f", 1, FaultKind::Protobuf),
    ] {
        let fault = read(&mut SeriesMemory::default(), S, bytes).fault.unwrap();
        assert_eq!((fault.part, fault.number, fault.kind), (BodyPart::Family, number, kind));
    }
}

proptest! {
    /// Scenario: a body is split anywhere, with or without a changed byte. Guarantee: points,
    /// counts and fault are the same as without splitting; any bytes are parsed or refused, and
    /// requests pass the check.
    #[test]
    fn where_a_body_is_cut_changes_nothing(
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        change: Option<(usize, u8)>,
    ) {
        let mut bytes = body(&all());
        if let Some((place, byte)) = change {
            let length = bytes.len();
            bytes[place % length] = byte;
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let made = [vec![&bytes[..]], pieces].map(|pieces| {
            let mut memory = SeriesMemory::default();
            let how = (BodyFormat::Protobuf, LIMITS);
            let came = scrape_pieces(&target(), &mut memory, how, 10 * S, &pieces);
            (came.all_points(), came.counts, came.fault)
        });
        prop_assert_eq!(&made[0], &made[1]);
        prop_assert!(change.is_some() || made[0].2.is_none());
    }

    /// Scenario: a body has any bytes. Guarantee: no panic, and requests that pass the check.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&mut SeriesMemory::default(), 10 * S, &bytes).requests.len() == 1);
    }
}
