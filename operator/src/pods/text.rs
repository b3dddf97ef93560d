//! A pod's metrics as the operator needs them. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_figures::{Series, TextError};

use super::Sample;

/// What a pod's metrics say.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn sample(text: &str, at: i64) -> Result<Sample, TextError> {
    let mut sample = Sample { at, ..Sample::default() };
    millrace_figures::read(text, |series| note(&mut sample, series))?;
    Ok(sample)
}

fn note(sample: &mut Sample, series: &Series<'_>) {
    let (count, value) = (series.count(), series.value);
    match series.name {
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
            if let Some(partition) = series.partition() {
                sample.lag_messages.insert(partition, count);
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
fn add(sums: &mut BTreeMap<String, u64>, of: Option<Cow<'_, str>>, count: u64) {
    if let Some(of) = of {
        let sum = sums.entry(of.into_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::NodeLogsSample;
    use millrace_figures::SERIES_MAX;
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
