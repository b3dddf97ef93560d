//! Figures of many runs as one JSON line a case, and the ratios between collectors of one run.
//!
//! Medians for rates and times; the highest for memory, which a pod's limit has to hold.

pub(crate) mod results;
mod yardstick;

use std::fmt::Write;

use serde::Serialize;

use crate::collector::Collector;
use crate::run::Outcome;

/// Points kept of a memory series.
const SERIES_POINTS: usize = 24;
const MIB: f64 = 1024.0 * 1024.0;

/// One line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    /// The case's name.
    pub(crate) case: String,
    /// Whose figures: `millrace`, or a peer's name.
    pub(crate) collector: String,
    /// Records of one run.
    pub(crate) records: u64,
    /// Records by CPU-seconds of the collector alone: the median.
    pub(crate) records_per_cpu_s: u64,
    /// The least and the most of all runs.
    pub(crate) records_per_cpu_s_range: [u64; 2],
    /// Seconds on the clock: the median.
    pub(crate) wall_s: f64,
    /// Resident memory: the highest of all runs, in MiB.
    pub(crate) rss_mib: f64,
    /// Resident memory over the last run, in MiB, evenly spaced.
    pub(crate) rss_series_mib: Vec<f64>,
    /// Bytes sent on in one run: the median.
    pub(crate) bytes_out: Option<u64>,
    /// CPU time of the engine's process for one record: the median, in nanoseconds.
    pub(crate) engine_ns_per_record: Option<f64>,
    /// CPU time of the engine's queries alone, by its own counters, for one record: the median, in
    /// nanoseconds.
    pub(crate) engine_query_ns_per_record: Option<f64>,
    /// How long answers to clients took, from when each request was due: medians of the runs'
    /// medians and of their 99th percentiles, in milliseconds.
    pub(crate) answer_ms: Option<[f64; 2]>,
    /// The allocator compiled in.
    pub(crate) allocator: Option<String>,
    /// The collector's version.
    pub(crate) version: String,
    /// How many runs.
    pub(crate) runs: usize,
}

impl Figures {
    /// Sums up the runs of a case; there is at least one.
    pub(crate) fn of(case: &str, collector: &Collector, runs: &[Outcome]) -> Self {
        let rates: Vec<f64> =
            runs.iter().map(|run| run.records as f64 / run.cpu_seconds.max(1e-3)).collect();
        let engine = nanos_each(runs, |run| run.engine_seconds);
        let queries = nanos_each(runs, |run| run.engine_query_seconds);
        let bytes: Vec<f64> =
            runs.iter().filter_map(|run| run.bytes_out.map(|bytes| bytes as f64)).collect();
        let walls: Vec<f64> = runs.iter().map(|run| run.wall_seconds).collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let peak = runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0);
        let last = runs.last();
        Self {
            case: case.to_owned(),
            collector: collector.name.clone(),
            records: last.map_or(0, |run| run.records),
            records_per_cpu_s: median(&rates).unwrap_or(0.0) as u64,
            records_per_cpu_s_range: [least as u64, most as u64],
            wall_s: rounded(median(&walls).unwrap_or(0.0), 2),
            rss_mib: rounded(peak as f64 / MIB, 1),
            rss_series_mib: last.map_or_else(Vec::new, |run| thinned(&run.rss_series)),
            bytes_out: median(&bytes).map(|bytes| bytes as u64),
            engine_ns_per_record: median(&engine).map(|nanos| rounded(nanos, 1)),
            engine_query_ns_per_record: median(&queries).map(|nanos| rounded(nanos, 1)),
            answer_ms: answer_ms(runs),
            allocator: collector.allocator.clone(),
            version: collector.version.clone(),
            runs: runs.len(),
        }
    }

    /// The line.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// How one collector compares with another in the same run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ratio {
    case: String,
    peer: String,
    /// Ours by the peer's, of records per CPU-second.
    ratio: f64,
    /// The peer's by ours, of the highest resident memory.
    rss_ratio: f64,
}

impl Ratio {
    /// Compares two lines of one case.
    pub(crate) fn of(ours: &Figures, peer: &Figures) -> Self {
        let ratio = ours.records_per_cpu_s as f64 / (peer.records_per_cpu_s.max(1)) as f64;
        Self {
            case: ours.case.clone(),
            peer: format!("{} {}", peer.collector, peer.version),
            ratio: rounded(ratio, 2),
            rss_ratio: rounded(peer.rss_mib / ours.rss_mib.max(1.0), 2),
        }
    }

    /// The line.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// One run in a few words, for those who wait.
pub(crate) fn brief(run: &Outcome) -> String {
    let rate = run.records as f64 / run.cpu_seconds.max(1e-3) / 1e6;
    let mut text = format!(
        "{rate:.3} M/CPU-s, {:.2} CPU-s, {:.1} s, {:.0} MiB",
        run.cpu_seconds,
        run.wall_seconds,
        run.peak_bytes as f64 / MIB
    );
    if let Some([half, p99]) = run.answer_ms {
        let _ = write!(text, ", answers in {half:.1} ms, 99 % in {p99:.1}");
    }
    if let Some(bytes) = run.bytes_out {
        let _ = write!(text, ", {:.1} B out", bytes as f64 / run.records as f64);
    }
    if let Some(seconds) = run.engine_seconds {
        let _ = write!(text, ", engine {:.0} ns", seconds * 1e9 / run.records as f64);
    }
    if let Some(seconds) = run.engine_query_seconds {
        let _ = write!(text, " ({:.0} ns in queries)", seconds * 1e9 / run.records as f64);
    }
    text
}

/// The medians of the runs' medians and 99th percentiles, where answers were timed.
fn answer_ms(runs: &[Outcome]) -> Option<[f64; 2]> {
    let [half, p99] = [0, 1].map(|place| {
        let of_runs = runs.iter().filter_map(|run| run.answer_ms.map(|times| times[place]));
        median(&of_runs.collect::<Vec<f64>>())
    });
    Some([rounded(half?, 2), rounded(p99?, 2)])
}

/// Each run's time, where it has one, by its records: in nanoseconds.
fn nanos_each(runs: &[Outcome], seconds: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter_map(|run| Some(seconds(run)? * 1e9 / run.records as f64)).collect()
}

/// The middle value; of an even number the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

fn thinned(series: &[u64]) -> Vec<f64> {
    let points = series.len().min(SERIES_POINTS);
    (0..points)
        .map(|point| series[point * series.len() / points])
        .map(|bytes| rounded(bytes as f64 / MIB, 1))
        .collect()
}

/// A value with so many digits after the point.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// How long each of many took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Of microseconds in any order; none of none.
    pub(crate) fn of(mut micros: Vec<u64>) -> Option<Self> {
        micros.sort_unstable();
        let last = micros.len().checked_sub(1)?;
        let at = |share: f64| micros[(last as f64 * share).round() as usize] as f64 / 1000.0;
        let at = |share| rounded(at(share), 1);
        Some(Self { p50: at(0.5), p99: at(0.99), max: at(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Latency, median, rounded, thinned};

    /// Scenario: odd, even and no values, in no order. Guarantee: the middle.
    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(rounded(1.26, 1), 1.3);
    }

    /// Scenario: a long series. Guarantee: few points, the first among them.
    #[test]
    fn a_long_series_becomes_short() {
        let series: Vec<u64> = (0..1000).map(|mib| mib << 20).collect();
        let thin = thinned(&series);
        assert_eq!((thin.len(), thin[0]), (super::SERIES_POINTS, 0.0));
        assert_eq!(thinned(&[1 << 20]), [1.0]);
    }

    /// Scenario: a hundred and one latencies, backwards. Guarantee: middle, near the end, longest.
    #[test]
    fn latencies_are_summed_up() {
        let micros = (0..=100).rev().map(|millis| millis * 1000).collect();
        assert_eq!(Latency::of(micros), Some(Latency { p50: 50.0, p99: 99.0, max: 100.0 }));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
