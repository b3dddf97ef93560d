//! Figures of the runs of a case as one JSON line, and the ratios between collectors of one run.
//!
//! Medians; for memory the highest, which a pod's limit has to hold.

use serde::Serialize;

use super::agent::Agent;
use super::arrivals::Punctuality;
use crate::report::{Latency, median, rounded};

const MIB: f64 = 1024.0 * 1024.0;

/// What is remembered between scrapes, as our collector says it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Remembered {
    pub(super) series: f64,
    pub(super) bytes: f64,
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) targets: u64,
    /// Bytes of a body, of the longest.
    pub(super) body_bytes: u64,
    /// Processor time by time on the clock.
    pub(super) cores: f64,
    /// Resident memory at the end, in bytes, and at its highest.
    pub(super) rss_bytes: u64,
    pub(super) peak_bytes: u64,
    /// The same before the bodies grew, where they do.
    pub(super) idle_bytes: Option<u64>,
    pub(super) punctuality: Punctuality,
    pub(super) late: Option<Latency>,
    /// Points that arrived in Kafka, where they go there.
    pub(super) points: Option<u64>,
    /// Bytes of remote writes.
    pub(super) sunk_bytes: u64,
    pub(super) remembered: Option<Remembered>,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    case: String,
    collector: String,
    version: String,
    runs: usize,
    targets: u64,
    body_bytes: u64,
    cores: f64,
    /// The highest of all runs.
    peak_rss_mib: f64,
    rss_mib: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_rss_mib: Option<f64>,
    /// The highest above what was resident before.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_above_idle_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<u64>,
    /// What a series is remembered in, by the collector's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_series: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remembered_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<Latency>,
    /// Of all runs.
    scrapes: u64,
    missed: u64,
    doubled: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<u64>,
    sunk_mib: f64,
}

impl Figures {
    /// Sums up the runs of a case; there is at least one.
    pub(super) fn of(case: &str, agent: &Agent, runs: &[Outcome]) -> Self {
        let all = |each: &dyn Fn(&Outcome) -> Option<f64>| -> Vec<f64> {
            runs.iter().filter_map(each).collect()
        };
        let middle = |digits, each: &dyn Fn(&Outcome) -> Option<f64>| {
            median(&all(each)).map(|value| rounded(value, digits))
        };
        let most = |each: &dyn Fn(&Outcome) -> Option<f64>| {
            all(each).into_iter().reduce(f64::max).map(|it| rounded(it / MIB, 1))
        };
        let late = |each: &dyn Fn(Latency) -> f64| {
            middle(1, &|run| run.late.map(each)).unwrap_or_default()
        };
        let remembered = runs.iter().find_map(|run| run.remembered);
        let sum = |each: &dyn Fn(&Outcome) -> u64| runs.iter().map(each).sum();
        Self {
            case: case.to_owned(),
            collector: agent.name().to_owned(),
            version: agent.version(),
            runs: runs.len(),
            targets: runs.first().map_or(0, |run| run.targets),
            body_bytes: runs.first().map_or(0, |run| run.body_bytes),
            cores: middle(4, &|run| Some(run.cores)).unwrap_or_default(),
            peak_rss_mib: most(&|run| Some(run.peak_bytes as f64)).unwrap_or_default(),
            rss_mib: most(&|run| Some(run.rss_bytes as f64)).unwrap_or_default(),
            idle_rss_mib: most(&|run| run.idle_bytes.map(|it| it as f64)),
            peak_above_idle_mib: most(&|run| {
                run.idle_bytes.map(|idle| run.peak_bytes as f64 - idle as f64)
            }),
            series: remembered.map(|it| it.series as u64),
            bytes_per_series: remembered.map(|it| rounded(it.bytes / it.series.max(1.0), 1)),
            remembered_mib: remembered.map(|it| rounded(it.bytes / MIB, 1)),
            late_ms: runs.iter().any(|run| run.late.is_some()).then(|| Latency {
                p50: late(&|it| it.p50),
                p99: late(&|it| it.p99),
                max: late(&|it| it.max),
            }),
            scrapes: sum(&|run| run.punctuality.scrapes),
            missed: sum(&|run| run.punctuality.missed),
            doubled: sum(&|run| run.punctuality.doubled),
            points: runs.iter().map(|run| run.points).sum(),
            sunk_mib: rounded(sum(&|run| run.sunk_bytes) as f64 / MIB, 1),
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
    cpu: f64,
    /// Resident memory at its highest.
    peak_rss: f64,
}

impl Ratio {
    /// Compares two lines of one case.
    pub(super) fn of(ours: &Figures, peer: &Figures) -> Self {
        Self {
            case: ours.case.clone(),
            peer: format!("{} {}", peer.collector, peer.version),
            cpu: rounded(peer.cores / ours.cores.max(1e-4), 2),
            peak_rss: rounded(peer.peak_rss_mib / ours.peak_rss_mib.max(1.0), 2),
        }
    }

    /// The line.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// One run in a few words, for those who wait.
pub(super) fn brief(run: &Outcome) -> String {
    let Punctuality { scrapes, missed, doubled } = run.punctuality;
    let mib = |bytes: u64| bytes as f64 / MIB;
    let mut text = format!(
        "{:.4} core, {:.0} MiB, {:.0} at most, {scrapes} scrapes, {missed} missed, {doubled} twice",
        run.cores,
        mib(run.rss_bytes),
        mib(run.peak_bytes),
    );
    if let Some(idle) = run.idle_bytes {
        text += &format!(", {:.0} before", mib(idle));
    }
    if let Some(Latency { p50, p99, max }) = run.late {
        text += &format!(", late by {p50} {p99} {max} ms");
    }
    text
}
