//! The counters of one collector that reports need. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_figures::{SeriesLine, TextError};

/// Counts by one name.
pub type NamedCounts = BTreeMap<String, u64>;

/// The counters of a process. They start again with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSample {
    /// When the process started, in seconds since 1970.
    pub started_at: Option<i64>,
    /// Its release.
    pub version: Option<String>,
    /// Records received, by signal.
    pub received: NamedCounts,
    /// Records passed on, by signal.
    pub passed: NamedCounts,
    /// Records held, by signal.
    pub held: NamedCounts,
    /// Records refused, by signal and reason.
    pub refused: BTreeMap<(String, String), u64>,
    /// Records that became dead letters, by signal and reason.
    pub dead_lettered: BTreeMap<(String, String), u64>,
    /// Bytes of dead letters in Kafka, by signal and reason.
    pub dead_letter_bytes: BTreeMap<(String, String), u64>,
    /// Messages that were deleted before they were read, by topic.
    pub lost: NamedCounts,
    /// Messages not committed yet, by topic and partition.
    pub lag_messages: BTreeMap<(String, i32), u64>,
    /// The age of the oldest of them, by topic and partition.
    pub lag_seconds: BTreeMap<(String, i32), f64>,
    /// Inserts answered.
    pub inserts: u64,
    /// Insert retries, by cause.
    pub insert_retries: NamedCounts,
    /// Records in the buffer on disk.
    pub buffered_on_disk: u64,
    /// CPU time used, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Bytes held for records.
    pub in_flight_bytes: Option<u64>,
    /// The budget in bytes.
    pub budget_bytes: Option<u64>,
}

/// Parses a pod's metrics.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn parse_sample(text: &str) -> Result<CounterSample, TextError> {
    let mut sample = CounterSample::default();
    millrace_figures::read_series(text, |series| add_series(&mut sample, series))?;
    Ok(sample)
}

fn add_series(sample: &mut CounterSample, series: &SeriesLine<'_>) {
    let count = series.as_count();
    match series.name {
        "millrace_records_in_total" => {
            add_count(&mut sample.received, series.label("signal"), count)
        }
        "millrace_records_out_total" => {
            add_count(&mut sample.passed, series.label("signal"), count)
        }
        "millrace_records_in_flight" => add_count(&mut sample.held, series.label("signal"), count),
        "millrace_records_refused_total" => add_two(&mut sample.refused, series, count),
        "millrace_records_dead_lettered_total" => {
            add_two(&mut sample.dead_lettered, series, count);
        }
        "millrace_dead_letter_bytes_total" => {
            add_two(&mut sample.dead_letter_bytes, series, count);
        }
        "millrace_records_lost_to_retention_total" => {
            add_count(&mut sample.lost, series.label("topic"), count);
        }
        "millrace_consumer_lag_messages" => {
            if let Some(partition) = series.topic_partition() {
                sample.lag_messages.insert(partition, count);
            }
        }
        "millrace_consumer_lag_seconds" => {
            if let Some(partition) = series.topic_partition() {
                sample.lag_seconds.insert(partition, series.value.max(0.0));
            }
        }
        "millrace_insert_duration_seconds_count" => sample.inserts += count,
        "millrace_insert_retries_total" => {
            add_count(&mut sample.insert_retries, series.label("class"), count);
        }
        "millrace_buffer_records" => sample.buffered_on_disk += count,
        "millrace_build_info" => {
            sample.version = series.label("version").map(Cow::into_owned);
        }
        "process_start_time_seconds" => sample.started_at = i64::try_from(count).ok(),
        "process_cpu_seconds_total" => sample.cpu_seconds = series.value,
        "process_resident_memory_bytes" => sample.resident_bytes = Some(count),
        "millrace_bytes_in_flight" => sample.in_flight_bytes = Some(count),
        "millrace_budget_bytes" => sample.budget_bytes = Some(count),
        _ => {}
    }
}

fn add_count(sums: &mut NamedCounts, of: Option<Cow<'_, str>>, count: u64) {
    if let Some(of) = of {
        let sum = sums.entry(of.into_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn add_two(sums: &mut BTreeMap<(String, String), u64>, series: &SeriesLine<'_>, count: u64) {
    if let (Some(signal), Some(reason)) = (series.label("signal"), series.label("reason")) {
        let sum = sums.entry((signal.into_owned(), reason.into_owned())).or_default();
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests;
