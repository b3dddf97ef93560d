//! What one collector counts, read from its metrics. Pure.
//!
//! Unknown families are skipped, so that other releases' collectors can be read. Limits: 50,000
//! series; a collector with 200 partitions of three topics writes 2,000.

use std::collections::BTreeMap;

/// Series read at most.
const SERIES_MAX: usize = 50_000;

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

/// Why a text is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A line that is no sample.
    #[error("line {0} is no sample of a metric")]
    Line(usize),
    /// None of a collector's metrics is there.
    #[error("none of its metrics is a collector's")]
    Foreign,
    /// More series than are read.
    #[error("it has more than {SERIES_MAX} series")]
    TooMany,
}

/// What a pod's metrics say.
///
/// # Errors
/// When the text is not in Prometheus' format, or not a collector's.
pub fn sample(text: &str) -> Result<Sample, TextError> {
    let mut sample = Sample::default();
    let mut is_ours = false;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let series = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (count, (number, line)) in series.enumerate() {
        if count >= SERIES_MAX {
            return Err(TextError::TooMany);
        }
        let series = Series::read(line).ok_or(TextError::Line(number))?;
        is_ours |= series.name == "millrace_budget_bytes";
        note(&mut sample, &series);
    }
    is_ours.then_some(sample).ok_or(TextError::Foreign)
}

fn note(sample: &mut Sample, series: &Series<'_>) {
    // The cast saturates: what is below nothing, or no number, is nothing.
    let count = series.value as u64;
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
            if let Some(partition) = partition(series) {
                sample.lag_messages.insert(partition, count);
            }
        }
        "millrace_consumer_lag_seconds" => {
            if let Some(partition) = partition(series) {
                sample.lag_seconds.insert(partition, series.value.max(0.0));
            }
        }
        "millrace_insert_seconds_count" => sample.inserts += count,
        "millrace_insert_retries_total" => {
            add(&mut sample.insert_retries, series.label("class"), count);
        }
        "millrace_buffer_records" => sample.buffered_on_disk += count,
        "millrace_build_info" => sample.version = series.label("version"),
        "process_start_time_seconds" => sample.started_at = i64::try_from(count).ok(),
        "process_cpu_seconds_total" => sample.cpu_seconds = series.value,
        "process_resident_memory_bytes" => sample.resident_bytes = Some(count),
        "millrace_bytes_in_flight" => sample.in_flight_bytes = Some(count),
        "millrace_budget_bytes" => sample.budget_bytes = Some(count),
        _ => {}
    }
}

fn add(sums: &mut Counts, of: Option<String>, count: u64) {
    if let Some(of) = of {
        let sum = sums.entry(of).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn add_two(sums: &mut BTreeMap<(String, String), u64>, series: &Series<'_>, count: u64) {
    if let (Some(signal), Some(reason)) = (series.label("signal"), series.label("reason")) {
        let sum = sums.entry((signal, reason)).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn partition(series: &Series<'_>) -> Option<(String, i32)> {
    Some((series.label("topic")?, series.label("partition")?.parse().ok()?))
}

/// One line.
struct Series<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl<'a> Series<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = read_labels(inside, &mut labels)?;
        }
        // What may follow the value is a time.
        let value = rest.split_whitespace().next()?.parse().ok()?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        is_name.then_some(Self { name, labels, value })
    }

    fn label(&self, name: &str) -> Option<String> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.clone())
    }
}

/// Reads `a="b",c="d"}` and returns what is behind the bracket.
fn read_labels<'a>(text: &'a str, labels: &mut Vec<(&'a str, String)>) -> Option<&'a str> {
    let mut rest = text.trim_start_matches([',', ' ']);
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some(behind);
        }
        let (name, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut escaped = false;
        let mut end = None;
        for (at, character) in behind.char_indices() {
            match (escaped, character) {
                (true, 'n') => value.push('\n'),
                (true, other) => value.push(other),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at + 1);
                    break;
                }
                (false, other) => value.push(other),
            }
            escaped = !escaped && character == '\\';
        }
        labels.push((name.trim(), value));
        rest = behind.get(end?..)?.trim_start_matches([',', ' ']);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/sample.rs"]
mod tests;
