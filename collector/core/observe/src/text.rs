//! Writes metrics as text: Prometheus' format, or OpenMetrics 1.0, which can hold exemplars, if the
//! client accepts it.
//!
//! OpenMetrics is written here because `prometheus` has no exemplars. It names a counter's family
//! without `_total` and writes bounds as `1.0`; the rest is the same.

use std::fmt::Write;

use prometheus::TextEncoder;
use prometheus::proto::{Histogram, LabelPair, Metric, MetricFamily, MetricType};

use crate::exemplars::{Buckets, Exemplars};

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus' own format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Returns the format for an `accept` header: OpenMetrics if it is named and not refused.
    #[must_use]
    pub fn from_accept(accept: &str) -> Self {
        let takes = accept.split(',').any(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(OPEN_METRICS));
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            named && weight.and_then(|weight| weight.parse().ok()) != Some(0.0)
        });
        if takes { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `content-type` of the answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes families, whose names must differ.
    ///
    /// # Errors
    /// If a family can't be written because it has no name or no metric.
    pub fn render_families(
        self,
        families: &[MetricFamily],
        exemplars: &Exemplars,
    ) -> prometheus::Result<String> {
        match self {
            Self::Prometheus => TextEncoder::new().encode_to_string(families),
            Self::OpenMetrics => {
                let mut out = String::new();
                for family in families {
                    put_family(&mut out, family, exemplars);
                }
                out.push_str("# EOF\n");
                Ok(out)
            }
        }
    }
}

fn put_family(out: &mut String, family: &MetricFamily, exemplars: &Exemplars) {
    let full_name = family.name();
    let (name, kind) = match (family.get_field_type(), full_name.strip_suffix("_total")) {
        (MetricType::COUNTER, Some(name)) => (name, "counter"),
        (MetricType::GAUGE, _) => (full_name, "gauge"),
        (MetricType::HISTOGRAM, _) => (full_name, "histogram"),
        // OpenMetrics requires `_total` at a counter's end; we register no other kind.
        (MetricType::COUNTER | MetricType::SUMMARY | MetricType::UNTYPED, _) => {
            (full_name, "unknown")
        }
    };
    write_text(
        out,
        format_args!("# HELP {name} {}\n# TYPE {name} {kind}\n", Escaped(family.help())),
    );
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match family.get_field_type() {
            MetricType::COUNTER => {
                put_sample(out, full_name, labels, None, metric.get_counter().get_value());
            }
            MetricType::GAUGE => {
                put_sample(out, full_name, labels, None, metric.get_gauge().get_value());
            }
            MetricType::HISTOGRAM => put_histogram(out, name, metric, exemplars),
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
        if family.get_field_type() != MetricType::HISTOGRAM {
            out.push('\n');
        }
    }
}

fn put_histogram(out: &mut String, name: &str, metric: &Metric, exemplars: &Exemplars) {
    let (labels, histogram) = (metric.get_label(), metric.get_histogram());
    let values: Vec<&str> = labels.iter().map(LabelPair::value).collect();
    let traces = exemplars.series_buckets(name, &values);
    let bucket = format!("{name}_bucket");
    for (index, (bound, count)) in cumulative_buckets(histogram).enumerate() {
        put_sample(out, &bucket, labels, Some(bound), count as f64);
        put_exemplar(out, &traces, index);
        out.push('\n');
    }
    put_sample(out, &format!("{name}_sum"), labels, None, histogram.get_sample_sum());
    out.push('\n');
    put_sample(out, &format!("{name}_count"), labels, None, histogram.get_sample_count() as f64);
    out.push('\n');
}

/// Returns upper bounds and counts, the last one unbounded.
fn cumulative_buckets(histogram: &Histogram) -> impl Iterator<Item = (f64, u64)> {
    let bounded = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let bounded = bounded.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    bounded.chain([(f64::INFINITY, histogram.get_sample_count())])
}

fn put_exemplar(out: &mut String, traces: &Buckets, bucket: usize) {
    if let Some(it) = traces.get(&bucket) {
        let (trace, value, at) = (it.trace, it.value, it.at_seconds);
        write_text(out, format_args!(" # {{trace_id=\"{trace}\"}} {value} {at:.3}"));
    }
}

/// Writes a line without its line feed.
fn put_sample(out: &mut String, name: &str, labels: &[LabelPair], bound: Option<f64>, value: f64) {
    out.push_str(name);
    let mut open = '{';
    for label in labels {
        write_text(out, format_args!("{open}{}=\"{}\"", label.name(), Escaped(label.value())));
        open = ',';
    }
    if let Some(bound) = bound {
        // Labels contain numbers as `1.0`, never `1`.
        match bound.is_finite() {
            true => write_text(out, format_args!("{open}le=\"{bound:?}\"")),
            false => write_text(out, format_args!("{open}le=\"+Inf\"")),
        }
        open = ',';
    }
    if open == ',' {
        out.push('}');
    }
    match value {
        _ if value.is_nan() => out.push_str(" NaN"),
        f64::INFINITY => out.push_str(" +Inf"),
        f64::NEG_INFINITY => out.push_str(" -Inf"),
        _ => write_text(out, format_args!(" {value}")),
    }
}

fn write_text(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String can't fail.
    let _ = out.write_fmt(text);
}

/// A text with `\`, `"` and line feeds escaped.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
