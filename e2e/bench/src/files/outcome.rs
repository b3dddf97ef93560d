//! Figures of the runs of a case as one JSON line, and the ratios between collectors of one run.
//!
//! Medians; for memory the highest, which a pod's limit has to hold.

use serde::Serialize;

use super::agent::Agent;
use crate::report::{Latency, median, rounded};

const MIB: f64 = 1024.0 * 1024.0;

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Records written, and their bytes in files.
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// User plus system time of the collector for these, in seconds.
    pub(super) cpu_seconds: f64,
    /// The same of its busiest thread, where that means something.
    pub(super) thread_seconds: Option<f64>,
    /// The same span of time on the clock, in seconds.
    pub(super) wall_seconds: f64,
    /// Resident memory at its highest, in bytes.
    pub(super) peak_bytes: u64,
    /// Resident memory under the load, or while nothing is written, in bytes.
    pub(super) rss_bytes: Option<u64>,
    /// Processor time by time on the clock: under the load.
    pub(super) cores: Option<f64>,
    /// The same while nothing is written.
    pub(super) idle_cores: Option<f64>,
    /// From a line's writing to its arrival.
    pub(super) latency: Option<Latency>,
    /// Records that did not arrive.
    pub(super) missing: u64,
    /// Records that arrived again.
    pub(super) repeated: u64,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    case: String,
    collector: String,
    version: String,
    runs: usize,
    records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    records_per_cpu_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_cpu_s: Option<f64>,
    /// The least and the most of all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_cpu_s_range: Option<[f64; 2]>,
    /// By CPU time of the busiest thread alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_thread_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_cores: Option<f64>,
    wall_s: f64,
    /// The highest of all runs.
    peak_rss_mib: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Latency>,
    /// Of all runs.
    missing: u64,
    repeated: u64,
}

impl Figures {
    /// Sums up the runs of a case; there is at least one. CPU time by record means something where
    /// a collector does nothing else: `is_drain`.
    pub(super) fn of(case: &str, agent: &Agent, runs: &[Outcome], is_drain: bool) -> Self {
        let all = |each: &dyn Fn(&Outcome) -> Option<f64>| -> Vec<f64> {
            runs.iter().filter_map(each).collect()
        };
        let middle = |digits, each: &dyn Fn(&Outcome) -> Option<f64>| {
            median(&all(each)).map(|value| rounded(value, digits))
        };
        let by_cpu =
            |run: &Outcome| is_drain.then(|| run.bytes as f64 / 1e6 / run.cpu_seconds.max(1e-3));
        let rates = all(&by_cpu);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let lines =
            |run: &Outcome| is_drain.then(|| run.records as f64 / run.cpu_seconds.max(1e-3));
        let latency = |each: &dyn Fn(Latency) -> f64| {
            middle(1, &|run| run.latency.map(each)).unwrap_or_default()
        };
        let has_latency = runs.iter().any(|run| run.latency.is_some());
        let peak = runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0);
        Self {
            case: case.to_owned(),
            collector: agent.name().to_owned(),
            version: agent.version(),
            runs: runs.len(),
            records: runs.last().map_or(0, |run| run.records),
            records_per_cpu_s: median(&all(&lines)).map(|lines| lines as u64),
            mb_per_cpu_s: middle(1, &by_cpu),
            mb_per_cpu_s_range: (!rates.is_empty()).then(|| [rounded(least, 1), rounded(most, 1)]),
            mb_per_thread_s: middle(1, &|run| {
                Some(run.bytes as f64 / 1e6 / run.thread_seconds?.max(1e-3))
            }),
            cores: middle(4, &|run| run.cores),
            idle_cores: middle(4, &|run| run.idle_cores),
            wall_s: middle(2, &|run| Some(run.wall_seconds)).unwrap_or_default(),
            peak_rss_mib: rounded(peak as f64 / MIB, 1),
            rss_mib: middle(1, &|run| Some(run.rss_bytes? as f64 / MIB)),
            latency_ms: has_latency.then(|| Latency {
                p50: latency(&|it| it.p50),
                p99: latency(&|it| it.p99),
                max: latency(&|it| it.max),
            }),
            missing: runs.iter().map(|run| run.missing).sum(),
            repeated: runs.iter().map(|run| run.repeated).sum(),
        }
    }

    /// The line.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// How ours compares with another in the same run: how many times the other takes.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Ratio {
    case: String,
    peer: String,
    /// CPU time for a record; while nothing is written where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<f64>,
    /// Resident memory at its highest.
    peak_rss: f64,
    /// The middle latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<f64>,
}

impl Ratio {
    /// Compares two lines of one case.
    pub(super) fn of(ours: &Figures, peer: &Figures) -> Self {
        let by = |most: Option<f64>, least: Option<f64>| {
            Some(rounded(most? / least.filter(|least| *least > 0.0)?, 2))
        };
        let cpu = by(ours.mb_per_cpu_s, peer.mb_per_cpu_s)
            .or_else(|| by(peer.cores, ours.cores))
            .or_else(|| by(peer.idle_cores, ours.idle_cores));
        let middle = |figures: &Figures| figures.latency_ms.map(|it| it.p50);
        Self {
            case: ours.case.clone(),
            peer: format!("{} {}", peer.collector, peer.version),
            cpu,
            peak_rss: rounded(peer.peak_rss_mib / ours.peak_rss_mib.max(1.0), 2),
            latency: by(middle(peer), middle(ours)),
        }
    }

    /// The line.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// One run in a few words, for those who wait.
pub(super) fn brief(run: &Outcome) -> String {
    let Outcome { records, cpu_seconds, wall_seconds, missing, repeated, .. } = run;
    let rate = run.bytes as f64 / 1e6 / cpu_seconds.max(1e-3);
    let mut text = format!(
        "{records} records, {cpu_seconds:.2} CPU-s, {rate:.0} MB/CPU-s, {wall_seconds:.1} s, {:.0} \
         MiB, {missing} missing, {repeated} repeated",
        run.peak_bytes as f64 / MIB
    );
    if let Some(cores) = run.cores.or(run.idle_cores) {
        text += &format!(", {cores:.4} core");
    }
    if let Some(Latency { p50, p99, max }) = run.latency {
        text += &format!(", {p50} {p99} {max} ms");
    }
    text
}
