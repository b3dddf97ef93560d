//! Figures as JSON lines: one for each kind of operation that was made, then one for all.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::run::Figures;
use crate::tally::{KindTally, Latencies, per_second};
use crate::wire;
use crate::workload::KINDS;

/// Percentiles of latencies.
const PERCENTILES: [(&str, f64); 8] = [
    ("10", 0.1),
    ("50", 0.5),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.9", 0.999),
    ("99.99", 0.9999),
    ("max", 1.0),
];

/// The lines of one run.
pub(crate) fn lines(figures: &Figures) -> Vec<Value> {
    let mut all = KindTally::default();
    let mut lines = Vec::new();
    for (kind, tally) in KINDS.iter().zip(&figures.tally.kinds) {
        if tally.operations > 0 || tally.ended > 0 {
            lines.push(Value::Object(of_kind(kind.name(), tally, figures)));
            all.add(tally);
        }
    }
    let mut line = of_kind("all", &all, figures);
    line.extend(of_run(&all, figures));
    lines.push(Value::Object(line));
    lines
}

/// Errors that aren't the workload's own.
pub(crate) fn failures(figures: &Figures) -> u64 {
    let errors = figures.tally.kinds.iter().flat_map(|kind| &kind.errors);
    errors.filter(|(code, _)| !figures.terms.ignore.contains(code)).map(|(_, count)| count).sum()
}

fn of_kind(name: &str, tally: &KindTally, figures: &Figures) -> Map<String, Value> {
    let rate = per_second(tally.ended, figures.window_seconds);
    let (mut errors, mut ignored) = (Map::new(), Map::new());
    for (code, count) in &tally.errors {
        let to = if figures.terms.ignore.contains(code) { &mut ignored } else { &mut errors };
        let sum = to.get(wire::name(*code)).and_then(Value::as_u64).unwrap_or_default();
        to.insert(wire::name(*code).to_owned(), (sum + count).into());
    }
    let mut line = Map::new();
    line.insert("kind".to_owned(), name.into());
    line.insert("operations".to_owned(), tally.operations.into());
    line.insert("per_second".to_owned(), rounded(rate, 10.0));
    line.insert("errors".to_owned(), errors.into());
    line.insert("ignored".to_owned(), ignored.into());
    line.insert("latency_us".to_owned(), latencies(&tally.latencies));
    line
}

fn of_run(all: &KindTally, figures: &Figures) -> Map<String, Value> {
    let Figures { terms, tally, .. } = figures;
    let value = json!({
        "workload": terms.name,
        "seed": terms.seed,
        "sessions": terms.sessions,
        "pipeline": terms.pipeline,
        "window_seconds": rounded(figures.window_seconds, 1e6),
        "unsent": tally.unsent,
        "connections_lost": tally.lost,
        "watches": {
            "set": tally.watches_set,
            "fired": tally.watches_fired,
            "delivery_us": latencies(&tally.deliveries),
        },
        "cpu_seconds": rounded(figures.cpu_seconds, 1e3),
        "operations_per_cpu_second": rounded(per_second(all.ended, figures.cpu_seconds), 1.0),
        "bytes_sent": figures.bytes_sent,
        "bytes_received": figures.bytes_received,
        "resident_bytes": {
            "start": figures.resident_start,
            "middle": figures.resident_middle,
            "end": figures.resident_end,
        },
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// In microseconds; null where there are none.
pub(crate) fn latencies(of: &Latencies) -> Value {
    let Some(histogram) = of.get() else { return Value::Null };
    let mut map = Map::new();
    map.insert("mean".to_owned(), rounded(histogram.mean() / 1e3, 10.0));
    for (name, quantile) in PERCENTILES {
        map.insert(name.to_owned(), rounded(at(histogram, quantile), 10.0));
    }
    map.into()
}

fn at(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

fn rounded(value: f64, parts: f64) -> Value {
    ((value * parts).round() / parts).into()
}
