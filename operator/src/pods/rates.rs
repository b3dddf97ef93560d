//! Computes what sizing needs from two samples of a pool's pods: how busy and full they are, and
//! how much the sink refuses. Pure.
//!
//! A figure's time is when the pod reported it. A silent pod retains its last figures with their
//! age, so that the rule distinguishes missing from calm. Limits: as many pods as are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_autoscale::{Aged, PodReport, SinkReport};

use super::{PodSample, PodState, PodUsage, ScrapeResults, UsageByPod};

/// The class of retries that the data causes: rows that can't be stored. The sink causes the
/// others.
const NOT_THE_SINKS: &str = "bad_rows";

/// The figures of a pool's pods.
#[derive(Clone, Debug, Default)]
pub struct PodRates {
    /// Pods that reported, each with the time.
    pub pods: Vec<Aged<PodReport>>,
    /// The sink, as the pods observe it.
    pub sink: Option<Aged<SinkReport>>,
    /// The number of listed pods.
    pub listed: usize,
    /// Whether this process has yet to hear how the query of a listed pod ended.
    pub awaits_answers: bool,
    /// The ordinals of pods whose newest figures come from the metrics API.
    pub metered: BTreeSet<u32>,
    history: BTreeMap<String, PodHistory>,
}

#[derive(Clone, Debug, Default)]
struct PodHistory {
    known: bool,
    sample: Option<Arc<PodSample>>,
    reported: Option<Aged<PodReport>>,
    metered: bool,
    out_of_memory_at: Option<i64>,
    oom_kills: u32,
}

/// The inserts between two samples.
#[derive(Clone, Copy, Debug, Default)]
struct Inserts {
    sent: u64,
    refused: u64,
    at: i64,
}

impl PodRates {
    /// Adds a sample of the pods, and measurements of those that did not answer. The same sample
    /// again changes nothing.
    pub fn record_pods(
        &mut self,
        pods: &[PodState],
        scrapes: &ScrapeResults,
        metered: &UsageByPod,
    ) {
        let before = std::mem::take(&mut self.history);
        let mut inserts = Inserts::default();
        for facts in pods {
            let was = before.get(&facts.name).cloned().unwrap_or_default();
            let sample = scrapes.get(&facts.name).and_then(|answer| answer.as_ref().ok());
            let silent = scrapes.get(&facts.name).is_some_and(Result::is_err);
            let metered = metered.get(&facts.name).filter(|_| silent);
            let mut now = observe_pod(facts, was, sample, &mut inserts);
            // A recreated pod that waits for a node is not silent: drop its predecessor's figures.
            now.reported = now.reported.filter(|_| facts.address.is_some());
            if let Some(reported) = metered.and_then(|it| metered_pod(it, facts, &now)) {
                (now.reported, now.metered) = (Some(reported), true);
            }
            self.history.insert(facts.name.clone(), now);
        }
        self.listed = pods.len();
        let is_queried = |pod: &&PodState| pod.address.is_some();
        self.awaits_answers =
            pods.iter().filter(is_queried).any(|pod| !scrapes.contains_key(&pod.name));
        self.pods = self.history.values().filter_map(|pod| pod.reported.clone()).collect();
        let metered = self.history.values().filter(|pod| pod.metered);
        let metered = metered.filter_map(|pod| Some(pod.reported.as_ref()?.value.ordinal));
        self.metered = metered.collect();
        if inserts.sent > 0 {
            let pressure = (inserts.refused as f64 / inserts.sent as f64).min(1.0);
            self.sink = Some(Aged { observed_at: inserts.at, value: SinkReport { pressure } });
        }
    }

    /// Returns the pod that reads each partition. A partition that two pods claim is being handed
    /// over: it has none until one releases it.
    #[must_use]
    pub fn partition_owners(&self) -> BTreeMap<(&str, i32), u32> {
        let mut owners: BTreeMap<(&str, i32), Option<u32>> = BTreeMap::new();
        for pod in self.history.values() {
            let (Some(sample), Some(reported)) = (&pod.sample, &pod.reported) else { continue };
            for (topic, partition) in sample.lag_messages.keys() {
                let owner = owners.entry((topic.as_str(), *partition));
                owner.and_modify(|owner| *owner = None).or_insert(Some(reported.value.ordinal));
            }
        }
        owners.into_iter().filter_map(|(partition, owner)| Some((partition, owner?))).collect()
    }
}

fn observe_pod(
    facts: &PodState,
    was: PodHistory,
    sample: Option<&Arc<PodSample>>,
    inserts: &mut Inserts,
) -> PodHistory {
    let mut now = was.clone();
    // A kill before a pod's first sample may be long past, and was counted then.
    if was.known && facts.out_of_memory_at > was.out_of_memory_at {
        now.oom_kills = was.oom_kills.saturating_add(1);
    }
    (now.known, now.out_of_memory_at) = (true, facts.out_of_memory_at.max(was.out_of_memory_at));
    let (Some(sample), Some(ordinal)) = (sample, facts.ordinal) else { return now };
    let last = was.sample.as_ref();
    if last.is_some_and(|last| last.at >= sample.at) {
        return now;
    }
    // A restarted process counts from zero.
    let last = last.filter(|last| last.cpu_seconds <= sample.cpu_seconds);
    let cpu_millicores = last
        .map(|last| (sample.cpu_seconds - last.cpu_seconds) / (sample.at - last.at) as f64 * 1e3);
    if let Some(last) = last {
        inserts.sent += sample.inserts.saturating_sub(last.inserts);
        inserts.refused += refused_inserts(sample).saturating_sub(refused_inserts(last));
        inserts.at = inserts.at.max(sample.at);
    }
    let reported =
        build_pod(facts, ordinal, (cpu_millicores, sample.resident_bytes), now.oom_kills);
    (now.reported, now.metered) = (Some(Aged { observed_at: sample.at, value: reported }), false);
    now.sample = Some(sample.clone());
    now
}

/// Returns a pod's measurement, unless its own figures are newer.
fn metered_pod(
    metered: &PodUsage,
    facts: &PodState,
    history: &PodHistory,
) -> Option<Aged<PodReport>> {
    let PodUsage { at, cpu_millicores, memory_bytes } = *metered;
    let known = history.reported.as_ref().is_some_and(|reported| reported.observed_at >= at);
    let used = (Some(cpu_millicores), Some(memory_bytes));
    let value = build_pod(facts, facts.ordinal?, used, history.oom_kills);
    (!known).then_some(Aged { observed_at: at, value })
}

/// Returns a pod with its limits and its use of processor time and memory.
fn build_pod(
    facts: &PodState,
    ordinal: u32,
    (cpu_millicores, memory_bytes): (Option<f64>, Option<u64>),
    oom_kills: u32,
) -> PodReport {
    let limit = facts.cpu_limit_millicores.filter(|limit| *limit > 0);
    PodReport {
        ordinal,
        busy: cpu_millicores.zip(limit).map(|(used, limit)| (used / limit as f64).min(1.0)),
        cpu_millicores,
        cpu_limit_millicores: facts.cpu_limit_millicores,
        memory_bytes,
        memory_limit_bytes: facts.memory_limit_bytes,
        oom_kills,
    }
}

/// Returns the number of inserts that the sink refused.
fn refused_inserts(sample: &PodSample) -> u64 {
    let classes = sample.insert_retries.iter();
    classes.filter(|(class, _)| *class != NOT_THE_SINKS).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests;
