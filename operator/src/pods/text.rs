//! Parses a pod's metrics into the figures that the operator needs. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_figures::{SeriesLine, TextError};

use super::PodSample;

/// Parses a pod's metrics.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn parse_sample(text: &str, at: i64) -> Result<PodSample, TextError> {
    let mut sample = PodSample { at, ..PodSample::default() };
    millrace_figures::read_series(text, |series| record_series(&mut sample, series))?;
    Ok(sample)
}

fn record_series(sample: &mut PodSample, series: &SeriesLine<'_>) {
    let (count, value) = (series.as_count(), series.value);
    match series.name {
        "millrace_records_in_total" => sample.records_in += count,
        "millrace_records_out_total" => sample.records_out += count,
        "millrace_records_refused_total" => sample.records_rejected += count,
        "millrace_records_dead_lettered_total" => {
            sample.records_rejected += count;
            add_to_sum(&mut sample.dead_lettered, series.label("signal"), count);
        }
        "millrace_records_dropped_total" => sample.records_dropped += count,
        "millrace_records_routed_total" => {
            add_to_sum(&mut sample.records_routed, series.label("step"), count);
        }
        "millrace_records_in_flight" => sample.records_held += count,
        "millrace_records_lost_to_retention_total" => {
            add_to_sum(&mut sample.lost_to_retention, series.label("topic"), count);
        }
        "process_start_time_seconds" => sample.started_at = i64::try_from(count).ok(),
        "process_cpu_seconds_total" => sample.cpu_seconds = value,
        "process_resident_memory_bytes" => sample.resident_bytes = Some(count),
        "millrace_budget_bytes" => sample.budget_bytes = Some(count),
        "millrace_bytes_in_flight" => sample.in_flight_bytes = Some(count),
        "millrace_insert_duration_seconds_count" => sample.inserts += count,
        "millrace_insert_duration_seconds_sum" => sample.insert_seconds += value,
        "millrace_insert_retries_total" => {
            add_to_sum(&mut sample.insert_retries, series.label("class"), count);
        }
        "millrace_table_inserts_total" => {
            add_to_sum(&mut sample.table_inserts, series.label("table"), count);
        }
        "millrace_table_deduplication_window_inserts" => {
            add_to_sum(&mut sample.table_remembers_inserts, series.label("table"), count);
        }
        "millrace_table_deduplication_window_seconds" => {
            add_to_sum(&mut sample.table_remembers_seconds, series.label("table"), count);
        }
        "millrace_consumer_lag_messages" => {
            if let Some(partition) = series.topic_partition() {
                sample.lag_messages.insert(partition, count);
            }
        }
        "millrace_files_behind_bytes" => sample.node_logs.behind_bytes = Some(count),
        "millrace_files_ingested_bytes_total" => sample.node_logs.accepted_bytes = Some(count),
        "millrace_files_confirmed_bytes_total" => sample.node_logs.confirmed_bytes = Some(count),
        "millrace_files_behind_seconds" => sample.node_logs.behind_seconds = Some(count),
        "millrace_files_lost_bytes_total" => sample.node_logs.lost_bytes = count,
        "millrace_pods_watch_forbidden" => sample.is_refused_pods = Some(count > 0),
        "millrace_namespaces_watch_forbidden" => sample.is_refused_namespaces = Some(count > 0),
        "millrace_kernel_lost_records_total" => sample.node_logs.lost_records = Some(count),
        _ => {}
    }
}

/// Adds to the sum of a label's value; a series without that label is ignored.
fn add_to_sum(sums: &mut BTreeMap<String, u64>, of: Option<Cow<'_, str>>, count: u64) {
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
millrace_records_dropped_total{signal="logs",step="debug"} 5
millrace_records_dropped_total{signal="traces",step="health"} 3
millrace_records_routed_total{signal="logs",step="audit",rule="logs[0]"} 6
millrace_records_routed_total{signal="logs",step="audit",rule="logs[1]"} 2
millrace_records_lost_to_retention_total{topic="otlp_traces"} 40
millrace_records_in_flight{signal="traces"} -3
millrace_consumer_lag_messages{topic="otlp_traces",partition="4"} 12
millrace_insert_duration_seconds_bucket{le="+Inf"} 5
millrace_insert_duration_seconds_sum 1.5
millrace_insert_duration_seconds_count 5
millrace_insert_retries_total{class="slow_down"} 3
millrace_budget_bytes 1.048576e6
millrace_bytes_in_flight 10
millrace_files_behind_bytes 2097152
millrace_files_behind_seconds 61
millrace_files_ingested_bytes_total 9000000
millrace_files_confirmed_bytes_total 8000000
millrace_files_namespace_behind_bytes{writer_namespace="shop"} 2097152
millrace_files_lost_bytes_total 5
millrace_pods_watch_forbidden 0
millrace_namespaces_watch_forbidden 1
process_cpu_seconds_total 12.25
process_start_time_seconds 1790000000
process_resident_memory_bytes 4096
millrace_of_a_later_release NaN
"#;

    /// Scenario: a collector's metrics, with labels that contain brackets and quotes. Guarantee:
    /// every figure is found; sums are over all labels; a count is never negative.
    #[test]
    fn a_collectors_metrics_are_read() {
        let sample = parse_sample(TEXT, 9).unwrap();
        assert_eq!((sample.at, sample.records_in, sample.records_out), (9, 107, 90));
        assert_eq!((sample.records_rejected, sample.records_held), (7, 0));
        assert_eq!(sample.records_dropped, 8);
        assert_eq!(sample.records_routed, [("audit".to_owned(), 8)].into());
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
            accepted_bytes: taken_bytes,
            confirmed_bytes,
            behind_seconds,
            lost_bytes,
            lost_records,
        } = sample.node_logs;
        assert_eq!((taken_bytes, confirmed_bytes), (Some(9_000_000), Some(8_000_000)));
        assert_eq!((behind_bytes, behind_seconds), (Some(2 << 20), Some(61)));
        assert_eq!((lost_bytes, lost_records), (5, None));
        let refused = (sample.is_refused_pods, sample.is_refused_namespaces);
        assert_eq!(refused, (Some(false), Some(true)));
        assert!(sample.node_logs.reads_logs());
    }

    /// Scenario: texts that aren't metrics, or not a collector's. Guarantee: each is refused, with
    /// the line.
    #[test]
    fn what_is_not_a_collectors_is_refused() {
        assert_eq!(parse_sample("", 0), Err(TextError::Foreign));
        assert_eq!(parse_sample("up 1\n", 0), Err(TextError::Foreign));
        for (text, line) in [("<html>", 1), ("up 1\nx{", 2), ("x{a=\"}\"} y", 1), ("{} 1", 1)] {
            assert_eq!(parse_sample(text, 0), Err(TextError::Line { line }), "{text}");
        }
        let many = "up 1\n".repeat(SERIES_MAX + 1);
        assert_eq!(parse_sample(&many, 0), Err(TextError::TooMany));
    }

    proptest! {
        /// Scenario: any text. Guarantee: a sample or an error, never a panic.
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|[{}\"\\\\\n =]){0,200}") {
            let _ = parse_sample(&text, 0);
            let _ = parse_sample(&format!("{TEXT}{text}"), 0);
        }
    }
}
