//! Tests of the private code of `text.rs`. A real Prometheus reads the same text in
//! `e2e/tests/ingest/own.rs`.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

use super::*;
use crate::otlp::TraceId;

const BOUNDS: [f64; 3] = [0.5, 1.0, 10.0];

fn registry() -> Registry {
    let registry = Registry::new();
    let counter = IntCounterVec::new(Opts::new("a_total", "Says \"how\\many\"."), &["k"]).unwrap();
    counter.with_label_values(&["x\"y\n"]).inc_by(3);
    let gauge = IntGauge::new("b", "A level.").unwrap();
    gauge.set(-2);
    let options = HistogramOpts::new("c_seconds", "How long.").buckets(BOUNDS.to_vec());
    let histogram = HistogramVec::new(options, &["kind"]).unwrap();
    for value in [0.7, 0.2, 99.0] {
        histogram.with_label_values(&["P"]).observe(value);
    }
    registry.register(Box::new(counter)).unwrap();
    registry.register(Box::new(gauge)).unwrap();
    registry.register(Box::new(histogram)).unwrap();
    registry
}

/// Scenario: a counter, a gauge, and a histogram with traces for two measurements. Guarantee: the
/// text conforms to OpenMetrics 1.0, with the traces behind the buckets of their values.
#[test]
fn open_metrics_have_exemplars() {
    let exemplars = Exemplars::default();
    for (value, trace) in [(0.7, 0xab), (99.0, 0xcd)] {
        exemplars.record_exemplar("c_seconds", &["P"], &BOUNDS, value, TraceId::new(trace));
    }
    exemplars.record_exemplar("c_seconds", &["Q"], &BOUNDS, 0.1, TraceId::new(1));
    let text =
        MetricsFormat::OpenMetrics.render_families(&registry().gather(), &exemplars).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let zeros = "0".repeat(30);
    let exemplar = |id: &str, value: &str| format!(" # {{trace_id=\"{zeros}{id}\"}} {value} ");
    let (second, last) = (exemplar("ab", "0.7"), exemplar("cd", "99"));
    let second = format!("c_seconds_bucket{{kind=\"P\",le=\"1.0\"}} 2{second}");
    let last = format!("c_seconds_bucket{{kind=\"P\",le=\"+Inf\"}} 3{last}");
    let starts = [
        "# HELP a Says \\\"how\\\\many\\\".",
        "# TYPE a counter",
        "a_total{k=\"x\\\"y\\n\"} 3",
        "# HELP b A level.",
        "# TYPE b gauge",
        "b -2",
        "# HELP c_seconds How long.",
        "# TYPE c_seconds histogram",
        "c_seconds_bucket{kind=\"P\",le=\"0.5\"} 1",
        &second,
        "c_seconds_bucket{kind=\"P\",le=\"10.0\"} 2",
        &last,
        "c_seconds_sum{kind=\"P\"} 99.9",
        "c_seconds_count{kind=\"P\"} 3",
        "# EOF",
    ];
    assert_eq!(lines.len(), starts.len(), "{text}");
    for (line, start) in lines.iter().zip(starts) {
        let has_more = start.ends_with(' ');
        assert!(line.starts_with(start) && (has_more || *line == start), "{line}\n{start}");
    }
}

/// Scenario: the headers of Prometheus 2.42 and 3, of a browser, none, a refusal. Guarantee:
/// OpenMetrics if it is accepted and never otherwise.
#[test]
fn open_metrics_are_for_who_asks() {
    let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
               version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let new = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    assert_eq!(MetricsFormat::from_accept(old), MetricsFormat::OpenMetrics);
    assert_eq!(MetricsFormat::from_accept(new), MetricsFormat::OpenMetrics);
    for other in ["", "*/*", "text/html,*/*;q=0.8", "application/openmetrics-text;q=0"] {
        assert_eq!(MetricsFormat::from_accept(other), MetricsFormat::Prometheus, "{other}");
    }
}
