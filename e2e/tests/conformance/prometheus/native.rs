//! Bodies of the protobuf format (`io.prometheus.client.MetricFamily`, each with its length before
//! it), of which this has what the comparison needs.

use prost::Message;

use super::answers::At;

pub(crate) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

const COUNTER: i32 = 0;
const GAUGE: i32 = 1;
const SUMMARY: i32 = 2;
const HISTOGRAM: i32 = 4;

#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "4")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    quantiles: Vec<Quantile>,
}

#[derive(Clone, PartialEq, Message)]
struct Quantile {
    #[prost(double, tag = "1")]
    quantile: f64,
    #[prost(double, tag = "2")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    negative_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "10")]
    negative_deltas: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    positive_deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    bound: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// The body of a scrape: a counter, a gauge, a summary, a classic histogram, and native ones of
/// several schemas, which come and go.
pub(crate) fn body(at: At) -> Vec<u8> {
    let number = |value: f64| Some(Number { value: Some(value) });
    let metric = |labels: &[(&str, &str)]| Metric { labels: named(labels), ..Metric::default() };
    let counter = Metric { counter: number(at.count(3) as f64), ..metric(&[("a", "1")]) };
    let gauge = Metric { gauge: number(f64::NAN), ..metric(&[("empty", "")]) };
    let quantiles = [0.5, 0.99].map(|quantile| Quantile { quantile, value: at.n as f64 });
    let summary =
        Summary { count: at.count(2), sum: at.count(5) as f64, quantiles: quantiles.into() };
    let summary = Metric { summary: Some(summary), ..metric(&[]) };
    let natives = ["a", "b", "c"].iter().zip([-4, 0, 8]).filter(|(zone, _)| at.has(zone));
    let natives = natives.map(|(zone, schema)| Metric {
        histogram: Some(native(at, schema)),
        ..metric(&[("zone", zone)])
    });
    let classic = Metric { histogram: Some(classic(at)), ..metric(&[]) };
    let families = [
        ("hits_total", COUNTER, vec![counter]),
        ("empty", GAUGE, vec![gauge]),
        ("rpc", SUMMARY, vec![summary]),
        ("size_bytes", HISTOGRAM, natives.collect()),
        ("classic_seconds", HISTOGRAM, vec![classic]),
    ];
    let mut bytes = Vec::new();
    for (name, kind, metrics) in families {
        if metrics.is_empty() {
            continue;
        }
        let family = Family { name: name.to_owned(), help: "What.".to_owned(), kind, metrics };
        bytes.extend_from_slice(&family.encode_length_delimited_to_vec());
    }
    bytes
}

fn named(labels: &[(&str, &str)]) -> Vec<Label> {
    let label = |(name, value): &(&str, &str)| Label {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    labels.iter().map(label).collect()
}

/// Buckets with gaps on both sides of zero, and classic ones beside them.
fn native(at: At, schema: i32) -> Histogram {
    let one = at.count(1);
    let signed = one as i64;
    // Absolute counts: positive 1, 3, then after a gap 2; negative 4; zero 1: in units of `one`.
    Histogram {
        count: 11 * one,
        sum: 0.5 * one as f64,
        buckets: vec![Bucket { count: one, bound: 1.0 }],
        schema: Some(schema),
        zero_threshold: Some(1e-128),
        zero_count: Some(one),
        negative_spans: vec![Span { offset: 2, length: 1 }],
        negative_deltas: vec![4 * signed],
        positive_spans: vec![Span { offset: -3, length: 2 }, Span { offset: 4, length: 1 }],
        positive_deltas: vec![signed, 2 * signed, -signed],
    }
}

fn classic(at: At) -> Histogram {
    let bounds = [(0.5, 1), (2.0, 4), (f64::INFINITY, 5)];
    let buckets = bounds.map(|(bound, step)| Bucket { count: at.count(step), bound });
    Histogram {
        count: at.count(5),
        sum: at.count(8) as f64,
        buckets: buckets.into(),
        ..Histogram::default()
    }
}
