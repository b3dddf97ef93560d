//! Tests of metric rules on the protobuf format: the result equals that of the text format.

use std::sync::Arc;

use common::{Came, LIMITS, S, scrape, scrape_pieces};
use families::{
    Bucket, Counter, Exemplar, Family, Gauge, Histogram, Metric, Quantile, Span, Summary, Time,
    body, labels,
};
use millrace_scrape::relabel::{Action, MetricRules, Rule, Rules};
use millrace_scrape::{BodyFormat, BodyLimits, FaultKind, SeriesMemory, TargetAttributes};
use proptest::prelude::{prop_assert_eq, proptest};
use proptest::sample::subsequence;

use crate::common;
use crate::families;

const COUNTER: i32 = 0;
const GAUGE: i32 = 1;
const SUMMARY: i32 = 2;
const UNTYPED: i32 = 3;
const HISTOGRAM: i32 = 4;

fn rule(action: Action, source: &[&str], regex: &str) -> Rule {
    let source_labels = source.iter().map(|it| (*it).to_owned()).collect();
    Rule { action, source_labels, regex: regex.to_owned(), ..Rule::default() }
}

fn set(source: &str, regex: &str, target: &str, replacement: &str) -> Rule {
    Rule {
        target_label: target.to_owned(),
        replacement: replacement.to_owned(),
        ..rule(Action::Replace, &[source], regex)
    }
}

fn ruled(rules: &[Rule]) -> TargetAttributes {
    let rules = MetricRules::from(Rules::new(rules).unwrap());
    let labels = vec![("zone".to_owned(), "a".to_owned())];
    let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), labels, false, true);
    target.with_metric_rules(Arc::new(rules))
}

fn read(target: &TargetAttributes, memory: &mut SeriesMemory, time: u64, body: &[u8]) -> Came {
    scrape_pieces(target, memory, (BodyFormat::Protobuf, LIMITS), time, &[body])
}

fn family(name: &str, type_: i32, metric: Vec<Metric>) -> Family {
    let (name, help) = (Some(name.to_owned()), Some("A text.".to_owned()));
    Family { name, help, r#type: Some(type_), metric, unit: None }
}

/// Returns the same metrics in both formats.
fn both() -> (Vec<u8>, String) {
    let counter = |path: &str, value| Metric {
        label: labels(&[("path", path)]),
        counter: Some(Counter { value: Some(value), ..Counter::default() }),
        ..Metric::default()
    };
    let number = |value| Some(Gauge { value: Some(value) });
    let bucket = |bound: f64, count| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(bound),
        ..Bucket::default()
    };
    let histogram = Histogram {
        sample_count: Some(7),
        sample_sum: Some(4.5),
        bucket: vec![bucket(0.5, 3), bucket(1.0, 5), bucket(2e6, 6)],
        ..Histogram::default()
    };
    let quantile = |quantile, value| Quantile { quantile: Some(quantile), value: Some(value) };
    let summary = Summary {
        sample_count: Some(3),
        sample_sum: Some(6.0),
        quantile: vec![quantile(0.5, 1.5), quantile(1.0, 2.5)],
        ..Summary::default()
    };
    let label = || labels(&[("path", "/a\"b\n")]);
    let families = [
        family("hits_total", COUNTER, vec![counter("/a", 5.0), counter("/b", 6.0)]),
        family("heat", GAUGE, vec![Metric { gauge: number(1.5), ..Metric::default() }]),
        family(
            "odd.name",
            UNTYPED,
            vec![Metric {
                label: label(),
                untyped: number(-1.0),
                timestamp_ms: Some(90_000),
                ..Metric::default()
            }],
        ),
        family(
            "wait_seconds",
            HISTOGRAM,
            vec![Metric { label: label(), histogram: Some(histogram), ..Metric::default() }],
        ),
        family("size", SUMMARY, vec![Metric { summary: Some(summary), ..Metric::default() }]),
    ];
    let path = r#"path="/a\"b\n""#;
    let heads = ["hits_total counter", "heat gauge", "odd.name untyped", "wait_seconds histogram"];
    let head = |number: usize| {
        let (name, kind) = heads.get(number).unwrap_or(&"size summary").split_once(' ').unwrap();
        let name = if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() };
        format!("# HELP {name} A text.\n# TYPE {name} {kind}\n")
    };
    let text = [
        head(0),
        "hits_total{path=\"/a\"} 5\nhits_total{path=\"/b\"} 6\n".to_owned(),
        head(1),
        "heat 1.5\n".to_owned(),
        head(2),
        format!("{{\"odd.name\",{path}}} -1 90000\n"),
        head(3),
        format!("wait_seconds_bucket{{{path},le=\"0.5\"}} 3\n"),
        format!("wait_seconds_bucket{{{path},le=\"1.0\"}} 5\n"),
        format!("wait_seconds_bucket{{{path},le=\"2e+06\"}} 6\n"),
        format!("wait_seconds_bucket{{{path},le=\"+Inf\"}} 7\n"),
        format!("wait_seconds_sum{{{path}}} 4.5\nwait_seconds_count{{{path}}} 7\n"),
        head(4),
        "size{quantile=\"0.5\"} 1.5\nsize{quantile=\"1.0\"} 2.5\nsize_sum 6\nsize_count 3\n"
            .to_owned(),
    ];
    (body(&families), text.concat())
}

/// Returns rules of all kinds, from which tests choose.
fn rules() -> Vec<Rule> {
    vec![
        rule(Action::Drop, &["__name__"], "heat|size_sum"),
        rule(Action::Keep, &["__name__"], "h.*|wait_seconds.*|size.*"),
        rule(Action::Drop, &["path"], "/b"),
        rule(Action::Drop, &["le"], "1.0"),
        rule(Action::Drop, &["quantile"], "0\\.5"),
        set("__name__", "(hits|wait|size|odd)(.*)", "__name__", "shop:$1$2"),
        set("__name__", "wait_seconds_(.*)", "kind", "$1"),
        set("path", "(/a)(?s:.*)", "path", "$1"),
        set("le", "2e\\+06", "le", "3e+06"),
        rule(Action::LabelDrop, &[], "zone"),
        set("__name__", "hits_total", "job", "other"),
        rule(Action::LabelDrop, &[], "path"),
    ]
}

proptest! {
    /// Scenario: the same metrics are scraped as protobuf and as text, twice, the second time
    /// without most of them, with random rules. Guarantee: points, stale markers and counts are the
    /// same.
    #[test]
    fn protobuf_and_text_come_to_the_same_under_rules(chosen in subsequence(rules(), 0..=12)) {
        let (families, text) = both();
        let target = ruled(&chosen);
        let mut memories = [SeriesMemory::default(), SeriesMemory::default()];
        let [one, other] = &mut memories;
        let pairs = [
            (read(&target, one, 100 * S, &families), scrape(&target, other, 100 * S, &text)),
            (read(&target, one, 110 * S, &[]), scrape(&target, other, 110 * S, "")),
        ];
        for (binary, text) in pairs {
            prop_assert_eq!(&binary.fault, &None);
            prop_assert_eq!(binary.points(), text.points());
            prop_assert_eq!(binary.counts, text.counts);
        }
    }
}

fn native() -> Metric {
    let exemplar = Exemplar {
        label: labels(&[("trace_id", "0123456789abcdef0123456789abcdef")]),
        value: Some(1.5),
        timestamp: Some(Time { seconds: 9, nanos: 0 }),
    };
    let histogram = Histogram {
        sample_count: Some(6),
        sample_sum: Some(18.4),
        schema: Some(1),
        zero_threshold: Some(1e-128),
        zero_count: Some(2),
        positive_span: vec![Span { offset: Some(0), length: Some(2) }],
        positive_delta: vec![1, 2],
        created_timestamp: Some(Time { seconds: 3, nanos: 0 }),
        exemplars: vec![exemplar],
        ..Histogram::default()
    };
    Metric { label: labels(&[("path", "/a")]), histogram: Some(histogram), ..Metric::default() }
}

/// Scenario: a native histogram is renamed and labelled, then ends; another one is dropped by
/// rules. Guarantee: each is one series: with its buckets, exemplar and start under its new name,
/// marked as stale under that name, or dropped and counted as one sample.
#[test]
fn native_histograms_are_one_series_for_rules() {
    let body = body(&[family("wait", HISTOGRAM, vec![native()])]);
    let target = ruled(&[
        set("__name__", "wait", "__name__", "shop:wait"),
        set("path", "/(.*)", "page", "$1"),
        rule(Action::LabelDrop, &[], "path"),
    ]);
    let mut memory = SeriesMemory::default();
    let came = read(&target, &mut memory, 100 * S, &body);
    assert_eq!(
        came.points(),
        ["shop:wait exponential{page=a,zone=a} [3..100] count=6 sum=Some(18.4) scale=1 \
          zero=2<=1e-128 +-1[1, 3] - <9 1.5  0123456789abcdef0123456789abcdef/>"]
    );
    let came = read(&target, &mut memory, 110 * S, &[]);
    assert!(came.points()[0].starts_with("shop:wait exponential{page=a,zone=a} [..110]"));
    let target = ruled(&[rule(Action::Drop, &["__name__"], "wait")]);
    let came = read(&target, &mut SeriesMemory::default(), 100 * S, &body);
    assert!(came.points().is_empty());
    assert_eq!((came.counts.samples, came.counts.removed), (1, 1));
}

/// Scenario: a counter and a histogram with exemplars and creation times pass a rule that rewrites
/// each series. Guarantee: both are retained; an exemplar stays with its bucket.
#[test]
fn exemplars_and_beginnings_outlive_rules() {
    let exemplar = |value| Exemplar {
        label: labels(&[("k", "v")]),
        value: Some(value),
        timestamp: Some(Time { seconds: 9, nanos: 0 }),
    };
    let created = || Some(Time { seconds: 3, nanos: 0 });
    let counter =
        Counter { value: Some(5.0), exemplar: Some(exemplar(1.0)), created_timestamp: created() };
    let bucket = |bound, value| Bucket {
        cumulative_count: Some(2),
        upper_bound: Some(bound),
        exemplar: Some(exemplar(value)),
    };
    let histogram = Histogram {
        sample_count: Some(2),
        sample_sum: Some(1.5),
        bucket: vec![bucket(1.0, 0.5), bucket(2.0, 1.5)],
        created_timestamp: created(),
        ..Histogram::default()
    };
    let body = body(&[
        family("a_total", COUNTER, vec![Metric { counter: Some(counter), ..Metric::default() }]),
        family("b", HISTOGRAM, vec![Metric { histogram: Some(histogram), ..Metric::default() }]),
    ]);
    let target = ruled(&[set("__name__", "a.*", "x", "y"), rule(Action::Drop, &["le"], "2\\.0")]);
    let came = read(&target, &mut SeriesMemory::default(), 100 * S, &body);
    assert_eq!(
        came.points(),
        [
            "a_total counter{x=y,zone=a} [3..100] 5 <9 1 k=v />",
            "b histogram{zone=a} [3..100] count=2 sum=Some(1.5) [1.0]/[2, 0] <9 0.5 k=v />",
        ]
    );
}

/// Scenario: rules drop and add samples and labels near the limits. Guarantee: the limits apply to
/// the result of the rules.
#[test]
fn limits_hold_for_what_rules_leave() {
    let (families, _) = both();
    let target =
        ruled(&[rule(Action::Keep, &["__name__"], "hits_total"), set("path", "(.*)", "x", "$1")]);
    for (limits, expected) in [
        (BodyLimits { samples: 2, ..LIMITS }, None),
        (BodyLimits { samples: 1, ..LIMITS }, Some(FaultKind::Samples(1))),
        (BodyLimits { labels: 2, ..LIMITS }, Some(FaultKind::Labels(2))),
    ] {
        let how = (BodyFormat::Protobuf, limits);
        let came = scrape_pieces(&target, &mut SeriesMemory::default(), how, 10 * S, &[&families]);
        assert_eq!(came.fault.map(|fault| fault.kind), expected);
    }
}
