//! Pods, one line each: rates and resource use.

use serde::Serialize;

use crate::facts::{CounterSample, Facts, PodFacts, Role};

/// One pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodLine<'a> {
    /// The pod.
    #[serde(flatten)]
    pub pod: &'a PodFacts,
    /// The release that it reports.
    pub version: Option<String>,
    /// Records received per second, of all signals.
    pub in_per_second: Option<f64>,
    /// Records passed on per second.
    pub out_per_second: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
    /// CPU time used, in thousandths of a core.
    pub cpu_millicores: Option<f64>,
    /// Bytes held for records, in percent of the budget.
    pub budget_percent: Option<u64>,
    /// Records in its buffer on disk.
    pub buffered_on_disk: Option<u64>,
    /// Insert retries per second.
    pub insert_retries_per_second: Option<f64>,
}

/// Returns the pods of a pipeline, by role, pool and name.
#[must_use]
pub fn pod_lines(facts: &Facts) -> Vec<PodLine<'_>> {
    let mut pods: Vec<&PodFacts> = facts.pods.iter().collect();
    pods.sort_by(|a, b| (a.role, &a.pool, &a.name).cmp(&(b.role, &b.pool, &b.name)));
    pods.into_iter().map(|pod| pod_line(facts, pod)).collect()
}

fn pod_line<'a>(facts: &Facts, pod: &'a PodFacts) -> PodLine<'a> {
    let sample = pod.now.as_ref();
    let rate = |count: fn(&CounterSample) -> f64| {
        let seconds = facts.interval_seconds.filter(|seconds| *seconds > 0.0)?;
        let (before, now) = pod.readings()?;
        Some((count(now) - count(before)).max(0.0) / seconds)
    };
    let is_gateway = pod.role == Role::Gateway;
    PodLine {
        pod,
        version: sample.and_then(|sample| sample.version.clone()),
        in_per_second: rate(|sample| sample.received.values().sum::<u64>() as f64),
        out_per_second: rate(|sample| sample.passed.values().sum::<u64>() as f64),
        memory_bytes: sample.and_then(|sample| sample.resident_bytes),
        cpu_millicores: rate(|sample| sample.cpu_seconds * 1_000.0),
        budget_percent: sample.and_then(|sample| {
            let most = sample.budget_bytes.filter(|most| *most > 0)?;
            Some(sample.in_flight_bytes?.saturating_mul(100) / most)
        }),
        buffered_on_disk: sample.map(|sample| sample.buffered_on_disk).filter(|count| *count > 0),
        insert_retries_per_second: is_gateway
            .then(|| rate(|sample| sample.insert_retries.values().sum::<u64>() as f64))
            .flatten(),
    }
}
