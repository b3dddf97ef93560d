//! Parses the Prometheus text format as far as a collector's metrics need it. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read.

use std::collections::BTreeMap;

use super::Sample;

/// Series read at most; a collector with 200 partitions of three topics writes 2,000.
const SERIES_MAX: usize = 50_000;

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A line that is no sample.
    #[error("line {line} is no sample of a metric")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// None of a collector's metrics is there.
    #[error("none of them is a collector's")]
    Foreign,
    /// More series than are read.
    #[error("there are more than {SERIES_MAX} series")]
    TooMany,
}

/// What a pod's metrics say.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn sample(text: &str, at: i64) -> Result<Sample, TextError> {
    let mut sample = Sample { at, ..Sample::default() };
    let mut is_ours = false;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let series = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (count, (number, line)) in series.enumerate() {
        if count >= SERIES_MAX {
            return Err(TextError::TooMany);
        }
        let series = Series::read(line).ok_or(TextError::Line { line: number })?;
        is_ours |= series.name == "millrace_budget_bytes";
        note(&mut sample, &series);
    }
    is_ours.then_some(sample).ok_or(TextError::Foreign)
}

fn note(sample: &mut Sample, series: &Series<'_>) {
    let Series { name, labels: _, value } = series;
    let (count, value) = (whole(*value), *value);
    match *name {
        "millrace_records_in_total" => sample.records_in += count,
        "millrace_records_out_total" => sample.records_out += count,
        "millrace_records_refused_total" => sample.records_apart += count,
        "millrace_records_dead_lettered_total" => {
            sample.records_apart += count;
            add(&mut sample.dead_lettered, series.label("signal"), count);
        }
        "millrace_records_buffered" => sample.records_held += count,
        "millrace_records_lost_to_retention_total" => {
            add(&mut sample.lost_to_retention, series.label("topic"), count);
        }
        "process_start_time_seconds" => sample.started_at = i64::try_from(count).ok(),
        "process_cpu_seconds_total" => sample.cpu_seconds = value,
        "process_resident_memory_bytes" => sample.resident_bytes = Some(count),
        "millrace_budget_bytes" => sample.budget_bytes = Some(count),
        "millrace_bytes_in_flight" => sample.in_flight_bytes = Some(count),
        "millrace_insert_seconds_count" => sample.inserts += count,
        "millrace_insert_seconds_sum" => sample.insert_seconds += value,
        "millrace_insert_retries_total" => {
            add(&mut sample.insert_retries, series.label("class"), count);
        }
        "millrace_table_inserts_total" => {
            add(&mut sample.table_inserts, series.label("table"), count);
        }
        "millrace_table_remembers_inserts" => {
            add(&mut sample.table_remembers_inserts, series.label("table"), count);
        }
        "millrace_table_remembers_seconds" => {
            add(&mut sample.table_remembers_seconds, series.label("table"), count);
        }
        "millrace_consumer_lag_messages" => {
            let partition = series.label("partition").and_then(|text| text.parse().ok());
            if let (Some(topic), Some(partition)) = (series.label("topic"), partition) {
                sample.lag_messages.insert((topic.to_owned(), partition), count);
            }
        }
        "millrace_files_behind_bytes" => sample.node_logs.behind_bytes = Some(count),
        "millrace_files_taken_bytes_total" => sample.node_logs.taken_bytes = Some(count),
        "millrace_files_confirmed_bytes_total" => sample.node_logs.confirmed_bytes = Some(count),
        "millrace_files_behind_seconds" => sample.node_logs.behind_seconds = Some(count),
        "millrace_files_lost_bytes_total" => sample.node_logs.lost_bytes = count,
        "millrace_pods_watch_refused" => sample.node_logs.is_refused_pods = count > 0,
        "millrace_namespaces_watch_refused" => sample.node_logs.is_refused_namespaces = count > 0,
        "millrace_kernel_lost_records_total" => sample.node_logs.lost_records = Some(count),
        _ => {}
    }
}

/// Adds to the sum of a label's value; a series without that label is no part of any.
fn add(sums: &mut BTreeMap<String, u64>, of: Option<&str>, count: u64) {
    if let Some(of) = of {
        let sum = sums.entry(of.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// A whole number out of a float; what is negative or no number is nothing.
fn whole(value: f64) -> u64 {
    // The cast saturates, and a NaN becomes 0.
    value as u64
}

/// One line.
struct Series<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> Series<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (name, labels, rest) = match line.split_once('{') {
            Some((name, rest)) => {
                let end = end_of_labels(rest)?;
                (name, &rest[..end], &rest[end + 1..])
            }
            None => {
                let (name, rest) = line.split_once(' ')?;
                (name, "", rest)
            }
        };
        // What may follow the value is a time.
        let value = rest.split_whitespace().next()?.parse().ok()?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        is_name.then_some(Self { name, labels, value })
    }

    /// A label's value. Those read here have no escapes.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        while let Some((label, behind)) = rest.split_once("=\"") {
            let end = end_of_value(behind)?;
            if label.trim_start_matches(',').trim() == name {
                return Some(&behind[..end]);
            }
            rest = &behind[end + 1..];
        }
        None
    }
}

/// Where a quoted value ends: at the first quote that isn't escaped.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Where the labels end: at the first bracket outside of quotes.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().position(|byte| {
        if byte == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = byte == b'\\' && !escaped;
        byte == b'}' && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::NodeLogsSample;
    use proptest::prelude::*;

    const TEXT: &str = r#"
# HELP millrace_records_in_total Records taken in.
# TYPE millrace_records_in_total counter
millrace_records_in_total{signal="logs"} 7
millrace_records_in_total{signal="traces"} 100
millrace_records_out_total{signal="traces"} 90 1700000000000
millrace_records_dead_lettered_total{signal="traces",reason="malformed"} 2
millrace_records_refused_total{signal="traces",reason="too } \" long"} 1
millrace_records_dead_lettered_total{signal="traces",reason="too_long"} 3
millrace_records_dead_lettered_total{signal="logs",reason="malformed"} 1
millrace_records_lost_to_retention_total{topic="otlp_traces"} 40
millrace_records_buffered{signal="traces"} -3
millrace_consumer_lag_messages{topic="otlp_traces",partition="4"} 12
millrace_insert_seconds_bucket{le="+Inf"} 5
millrace_insert_seconds_sum 1.5
millrace_insert_seconds_count 5
millrace_insert_retries_total{class="slow_down"} 3
millrace_budget_bytes 1.048576e6
millrace_bytes_in_flight 10
millrace_files_behind_bytes 2097152
millrace_files_behind_seconds 61
millrace_files_taken_bytes_total 9000000
millrace_files_confirmed_bytes_total 8000000
millrace_files_namespace_behind_bytes{writer_namespace="shop"} 2097152
millrace_files_lost_bytes_total 5
millrace_pods_watch_refused 0
millrace_namespaces_watch_refused 1
process_cpu_seconds_total 12.25
process_start_time_seconds 1790000000
process_resident_memory_bytes 4096
millrace_of_a_later_release NaN
"#;

    /// Scenario: what a collector writes, with labels that hold brackets and quotes. Guarantee:
    /// every figure is found; sums are over all labels; what can't be below nothing isn't.
    #[test]
    fn a_collectors_metrics_are_read() {
        let sample = sample(TEXT, 9).unwrap();
        assert_eq!((sample.at, sample.records_in, sample.records_out), (9, 107, 90));
        assert_eq!((sample.records_apart, sample.records_held), (7, 0));
        let sums = |sums: &[(&str, u64)]| {
            sums.iter().map(|(of, sum)| ((*of).to_owned(), *sum)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(sample.dead_lettered, sums(&[("logs", 1), ("traces", 5)]));
        assert_eq!(sample.lost_to_retention, sums(&[("otlp_traces", 40)]));
        assert_eq!(sample.started_at, Some(1_790_000_000));
        assert_eq!((sample.inserts, sample.insert_failures()), (5, 3));
        assert_eq!(sample.insert_retries.get("slow_down"), Some(&3));
        assert_eq!(sample.lag_messages.get(&("otlp_traces".to_owned(), 4)), Some(&12));
        assert_eq!((sample.budget_bytes, sample.resident_bytes), (Some(1_048_576), Some(4096)));
        assert_eq!((sample.cpu_seconds, sample.insert_seconds), (12.25, 1.5));
        let NodeLogsSample {
            behind_bytes,
            taken_bytes,
            confirmed_bytes,
            behind_seconds,
            lost_bytes,
            lost_records,
            is_refused_pods,
            is_refused_namespaces,
        } = sample.node_logs;
        assert_eq!((taken_bytes, confirmed_bytes), (Some(9_000_000), Some(8_000_000)));
        assert_eq!((behind_bytes, behind_seconds), (Some(2 << 20), Some(61)));
        assert_eq!((lost_bytes, lost_records), (5, None));
        assert_eq!((is_refused_pods, is_refused_namespaces), (false, true));
        assert!(sample.node_logs.reads());
    }

    /// Scenario: answers that aren't metrics, or not a collector's. Guarantee: each is refused,
    /// with the line.
    #[test]
    fn what_is_not_a_collectors_is_refused() {
        assert_eq!(sample("", 0), Err(TextError::Foreign));
        assert_eq!(sample("up 1\n", 0), Err(TextError::Foreign));
        for (text, line) in [("<html>", 1), ("up 1\nx{", 2), ("x{a=\"}\"} y", 1), ("{} 1", 1)] {
            assert_eq!(sample(text, 0), Err(TextError::Line { line }), "{text}");
        }
        let many = "up 1\n".repeat(SERIES_MAX + 1);
        assert_eq!(sample(&many, 0), Err(TextError::TooMany));
    }

    proptest! {
        /// Scenario: any text. Guarantee: an answer or an error, never a panic.
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|[{}\"\\\\\n =]){0,200}") {
            let _ = sample(&text, 0);
            let _ = sample(&format!("{TEXT}{text}"), 0);
        }
    }
}
