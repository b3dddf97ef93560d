//! Compares the text formats with Prometheus' own parsers: bodies changed at random, each with
//! their result. `e2e/relabel/parse` generates such bodies; 2,000 are stored here, and
//! `MILLRACE_PARSE_CASES=FILE` names a file with others (`cargo xtask parse`).

use std::collections::BTreeMap;

use common::{LIMITS, S, decode, scrape_pieces, target};
use millrace_scrape::{BodyFormat, FaultKind, SeriesMemory};
use millrace_wire::decompress::{ContentEncoding, Decompressor};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use serde_json::Value;

use crate::common;

/// The most bytes of the stored cases, as text.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The age of the oldest accepted time, relative to its scrape: 30 days.
const AGE_MAX: u64 = 30 * 86_400 * S;

/// Samples by their sorted labels. Of several samples of a series the first counts, as
/// docs/internals/prometheus.md states.
type Samples = BTreeMap<Vec<(String, String)>, Sample>;
/// The bits of a value, and its time in nanoseconds if it isn't the scrape's.
type Sample = (String, Option<u64>);
/// A fault, and a check whether a body has the text that causes it.
type Theirs = (FaultKind, fn(&str) -> bool);

/// One of this many bodies may be refused by Prometheus and accepted here.
const LENIENT: usize = 40;

/// Bodies that Prometheus' lexers accept in violation of the formats, and that are refused here: by
/// fault and by the text that causes it. A zero byte ends a body there, so such bodies aren't
/// compared.
const THEIRS: [Theirs; 4] = [
    // A line feed within quotes.
    (FaultKind::Quote, |body| body.lines().any(|line| line.matches('"').count() % 2 == 1)),
    // No blank between a name and the text after it: `a+1`, `# HELP a-b`.
    (FaultKind::Name, |body| body.lines().any(|line| line.contains(['.', '+', '-', '\\', '"']))),
    // Prometheus treats `#TYPE` without a blank as a comment.
    (FaultKind::Type, |body| body.contains("#TYPE")),
    // Quoted names that aren't UTF-8.
    (FaultKind::NotText, |body| body.contains('"')),
];

fn bits(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { value.to_bits().to_string() }
}

/// Prometheus' parsers include blanks before a name in it.
fn label(name: String, value: String) -> (String, String) {
    let is_name = name == "__name__";
    let value = if is_name { value.trim_start().to_owned() } else { value };
    (name, value)
}

/// Whether both have the same samples; Prometheus' times are milliseconds, converted from seconds
/// in a double.
fn are_equal(ours: &Samples, theirs: &Samples) -> bool {
    let is_same = |(ours, theirs): (&Sample, &Sample)| {
        let millis = |time: Option<u64>| time.map(|nanos| nanos / 1_000_000);
        let is_time = match (millis(ours.1), millis(theirs.1)) {
            (Some(ours), Some(theirs)) => ours.abs_diff(theirs) <= 1,
            (ours, theirs) => ours == theirs,
        };
        ours.0 == theirs.0 && is_time
    };
    ours.keys().eq(theirs.keys()) && ours.values().zip(theirs.values()).all(is_same)
}

/// Returns the time of a body's scrape: after its latest time, so that none is too far ahead, and
/// different from every sample's.
fn scrape_time(samples: Option<&Vec<Value>>) -> u64 {
    let nanos = |sample: &Value| u64::try_from(sample[2].as_i64()?).ok()?.checked_mul(1_000_000);
    let times = samples.into_iter().flatten().filter_map(nanos);
    times.filter(|time| *time < i64::MAX as u64 - S).max().unwrap_or(S) + S / 2 + 7
}

/// Returns Prometheus' samples, except for times that OTLP can't represent or that are too old at
/// `now`.
fn theirs(samples: &[Value], now: u64) -> Samples {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all = Samples::new();
    for sample in samples {
        let pairs = sample[0].as_array().unwrap().iter();
        let labels = pairs.map(|pair| label(text(&pair[0]), text(&pair[1])));
        let time = sample[2].as_i64().map(|millis| {
            u64::try_from(millis).ok().and_then(|millis| millis.checked_mul(1_000_000))
        });
        let is_kept = time.is_none_or(|nanos| {
            nanos.is_some_and(|it| it <= i64::MAX as u64 && it + AGE_MAX >= now)
        });
        if is_kept {
            all.entry(labels.collect()).or_insert_with(|| (text(&sample[1]), time.flatten()));
        }
    }
    all
}

/// Returns the samples of requests whose points are all gauges.
fn ours(requests: &[millrace_scrape::MetricsRequest], now: u64) -> Samples {
    let groups = requests.iter().flat_map(|request| decode(&request.bytes).resource_metrics);
    let mut all = Samples::new();
    for one in groups.flat_map(|group| group.scope_metrics).flat_map(|scope| scope.metrics) {
        let Some(metric::Data::Gauge(gauge)) = one.data else { panic!("{one:?}") };
        if one.name == "up" || one.name.starts_with("scrape_") {
            continue;
        }
        for point in gauge.data_points {
            let text = |value: any_value::Value| match value {
                any_value::Value::StringValue(text) => text,
                other => panic!("{other:?}"),
            };
            let pair = |it: opentelemetry_proto::tonic::common::v1::KeyValue| {
                (it.key, text(it.value.unwrap().value.unwrap()))
            };
            let mut labels: Vec<_> = point.attributes.into_iter().map(pair).collect();
            labels.push(label("__name__".to_owned(), one.name.clone()));
            labels.sort();
            let time = (point.time_unix_nano != now).then_some(point.time_unix_nano);
            let Some(number_data_point::Value::AsDouble(value)) = point.value else {
                panic!("{:?}", point.value)
            };
            all.insert(labels, (bits(value), time));
        }
    }
    all
}

fn cases() -> String {
    if let Ok(path) = std::env::var("MILLRACE_PARSE_CASES") {
        return std::fs::read_to_string(path).unwrap();
    }
    let packed = include_bytes!("data/parse.jsonl.gz");
    let mut text = Vec::new();
    let unpacked =
        Decompressor::new().decompress(ContentEncoding::Gzip, packed, TEXT_BYTES_MAX, &mut text);
    unpacked.unwrap();
    String::from_utf8(text).unwrap()
}

fn unpacked(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Scenario: bodies of both text formats have parts removed, inserted and repeated at random.
/// Guarantee: bodies that Prometheus accepts are accepted, except for those that its lexers accept
/// by accident, and all samples are equal; of the refused ones few are accepted, as
/// docs/internals/prometheus.md states.
#[test]
fn bodies_are_read_as_prometheus_reads_them() {
    let (mut count, mut taken, mut compared, mut wrong) = (0, 0, 0, Vec::new());
    let (mut lenient, mut odd) = (0, 0);
    for line in cases().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (body, expected) = (unpacked(case[1].as_str().unwrap()), case[2].as_array());
        let is_open = case[0] == "open";
        let format = if is_open { BodyFormat::OpenMetrics } else { BodyFormat::Prometheus };
        let now = scrape_time(expected);
        let came =
            scrape_pieces(&target(), &mut SeriesMemory::default(), (format, LIMITS), now, &[&body]);
        let text = String::from_utf8_lossy(&body);
        count += 1;
        taken += usize::from(expected.is_some());
        let fault = match (expected, &came.fault) {
            (None, None) => {
                lenient += 1;
                continue;
            }
            _ if body.contains(&0) => continue,
            (Some(_), Some(fault))
                if THEIRS.iter().any(|(kind, is_so)| *kind == fault.kind && is_so(&text)) =>
            {
                odd += 1;
                continue;
            }
            (Some(_), Some(fault)) => format!("ours: {fault}"),
            // With types several samples form one point: the tests of conversion cover those.
            (Some(expected), None) if !text.contains("TYPE") => {
                compared += 1;
                let (ours, theirs) = (ours(&came.requests, now), theirs(expected, now));
                if are_equal(&ours, &theirs) {
                    continue;
                } else {
                    format!("ours: {ours:?}\n  theirs: {theirs:?}")
                }
            }
            _ => continue,
        };
        wrong.push(format!("{} {text:?}\n  {fault}", case[0]));
    }
    println!(
        "{count} bodies, of which Prometheus takes {taken}; samples compared of {compared}; {lenient} \
         taken by ours alone, {odd} by theirs alone"
    );
    assert!(count >= 2000 && taken > count / 10 && compared > count / 20);
    assert!(lenient < count / LENIENT && odd < count / LENIENT);
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} differ, such as\n{}", wrong.len(), shown.join("\n"));
}
