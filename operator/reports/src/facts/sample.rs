//! What one collector counts, as far as reports need it. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_figures::{Series, TextError};

/// Counts by one name.
pub type Counts = BTreeMap<String, u64>;

/// What a process counts. Counters begin anew with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it began, in seconds since 1970.
    pub started_at: Option<i64>,
    /// Its release.
    pub version: Option<String>,
    /// Records taken in, by signal.
    pub taken: Counts,
    /// Records passed on, by signal.
    pub passed: Counts,
    /// Records held, by signal.
    pub held: Counts,
    /// Records refused, by signal and reason.
    pub refused: BTreeMap<(String, String), u64>,
    /// Records that became dead letters, by signal and reason.
    pub dead_lettered: BTreeMap<(String, String), u64>,
    /// Messages that were deleted before they were read, by topic.
    pub lost: Counts,
    /// Messages not committed yet, by topic and partition.
    pub lag_messages: BTreeMap<(String, i32), u64>,
    /// The age of the oldest of them, by topic and partition.
    pub lag_seconds: BTreeMap<(String, i32), f64>,
    /// Inserts answered.
    pub inserts: u64,
    /// Inserts sent again, by cause.
    pub insert_retries: Counts,
    /// Records in the buffer on disk.
    pub buffered_on_disk: u64,
    /// Seconds of processor time used.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Bytes held for records.
    pub in_flight_bytes: Option<u64>,
    /// Bytes that may be held.
    pub budget_bytes: Option<u64>,
}

/// What a pod's metrics say.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn sample(text: &str) -> Result<Sample, TextError> {
    let mut sample = Sample::default();
    millrace_figures::read(text, |series| note(&mut sample, series))?;
    Ok(sample)
}

fn note(sample: &mut Sample, series: &Series<'_>) {
    let count = series.count();
    match series.name {
        "millrace_records_in_total" => add(&mut sample.taken, series.label("signal"), count),
        "millrace_records_out_total" => add(&mut sample.passed, series.label("signal"), count),
        "millrace_records_buffered" => add(&mut sample.held, series.label("signal"), count),
        "millrace_records_refused_total" => add_two(&mut sample.refused, series, count),
        "millrace_records_dead_lettered_total" => {
            add_two(&mut sample.dead_lettered, series, count);
        }
        "millrace_records_lost_to_retention_total" => {
            add(&mut sample.lost, series.label("topic"), count);
        }
        "millrace_consumer_lag_messages" => {
            if let Some(partition) = series.partition() {
                sample.lag_messages.insert(partition, count);
            }
        }
        "millrace_consumer_lag_seconds" => {
            if let Some(partition) = series.partition() {
                sample.lag_seconds.insert(partition, series.value.max(0.0));
            }
        }
        "millrace_insert_seconds_count" => sample.inserts += count,
        "millrace_insert_retries_total" => {
            add(&mut sample.insert_retries, series.label("class"), count);
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

fn add(sums: &mut Counts, of: Option<Cow<'_, str>>, count: u64) {
    if let Some(of) = of {
        let sum = sums.entry(of.into_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn add_two(sums: &mut BTreeMap<(String, String), u64>, series: &Series<'_>, count: u64) {
    if let (Some(signal), Some(reason)) = (series.label("signal"), series.label("reason")) {
        let sum = sums.entry((signal.into_owned(), reason.into_owned())).or_default();
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/sample.rs"]
mod tests;
