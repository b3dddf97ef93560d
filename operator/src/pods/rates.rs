//! From two samples of a pool's pods to what sizing needs: how busy, how full, how fast the sink
//! is. Pure.
//!
//! A figure's time is when the pod reported it. A silent pod keeps its last figures with their age,
//! so that the rule distinguishes missing from calm. Limits: as many pods as are listed.

use std::collections::{BTreeMap, BTreeSet};

use millrace_autoscale::{Aged, Pod, Sink};

use super::{Look, Metered, MeteredPods, PodState, Sample};

/// Rows that can't be stored are the data's fault; other resent inserts are the sink's.
const NOT_THE_SINKS: &str = "bad_rows";

/// What is kept of a pool's pods.
#[derive(Clone, Debug, Default)]
pub struct PodRates {
    /// Pods that reported, each with the time.
    pub pods: Vec<Aged<Pod>>,
    /// The sink, as the pods see it.
    pub sink: Option<Aged<Sink>>,
    /// Pods that were asked.
    pub listed: usize,
    /// The ordinals of those whose newest figures come from the metrics API.
    pub metered: BTreeSet<u32>,
    /// Which pod reads which partition; none where two claim it.
    pub owners: BTreeMap<(String, i32), u32>,
    seen: BTreeMap<String, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    known: bool,
    sample: Option<Sample>,
    told: Option<Aged<Pod>>,
    metered: bool,
    out_of_memory_at: Option<i64>,
    oom_kills: u32,
}

/// What inserts did between two samples.
#[derive(Clone, Copy, Debug, Default)]
struct Inserts {
    sent: u64,
    refused: u64,
    at: i64,
}

impl PodRates {
    /// Adds a sample of the pods, and measurements of those that did not answer. The same sample
    /// again changes nothing.
    pub fn note(&mut self, pods: &[PodState], look: &Look, metered: &MeteredPods) {
        let before = std::mem::take(&mut self.seen);
        let mut inserts = Inserts::default();
        for facts in pods {
            let was = before.get(&facts.name).cloned().unwrap_or_default();
            let sample = look.get(&facts.name).and_then(|answer| answer.as_ref().ok());
            let silent = look.get(&facts.name).is_some_and(Result::is_err);
            let metered = metered.get(&facts.name).filter(|_| silent);
            let mut now = seen(facts, was, sample, &mut inserts);
            if let Some(told) = metered.and_then(|it| told_by(it, facts, &now)) {
                (now.told, now.metered) = (Some(told), true);
            }
            self.seen.insert(facts.name.clone(), now);
        }
        self.listed = pods.len();
        self.pods = self.seen.values().filter_map(|seen| seen.told.clone()).collect();
        let metered = self.seen.values().filter(|seen| seen.metered);
        let metered = metered.filter_map(|seen| Some(seen.told.as_ref()?.value.ordinal));
        self.metered = metered.collect();
        self.owners = owners(&self.seen);
        if inserts.sent > 0 {
            let pressure = (inserts.refused as f64 / inserts.sent as f64).min(1.0);
            self.sink = Some(Aged { seen_at: inserts.at, value: Sink { pressure } });
        }
    }
}

fn seen(facts: &PodState, was: Seen, sample: Option<&Sample>, inserts: &mut Inserts) -> Seen {
    let mut now = was.clone();
    // Counts from before a pod's first sample may be long past, and were counted then.
    if was.known && facts.out_of_memory_at > was.out_of_memory_at {
        now.oom_kills = was.oom_kills.saturating_add(1);
    }
    (now.known, now.out_of_memory_at) = (true, facts.out_of_memory_at.max(was.out_of_memory_at));
    let (Some(sample), Some(ordinal)) = (sample, facts.ordinal) else { return now };
    let last = was.sample.as_ref();
    if last.is_some_and(|last| last.at >= sample.at) {
        return now;
    }
    // A process that began anew counts from zero.
    let last = last.filter(|last| last.cpu_seconds <= sample.cpu_seconds);
    let cpu_millicores = last
        .map(|last| (sample.cpu_seconds - last.cpu_seconds) / (sample.at - last.at) as f64 * 1e3);
    if let Some(last) = last {
        inserts.sent += sample.inserts.saturating_sub(last.inserts);
        inserts.refused += refused(sample).saturating_sub(refused(last));
        inserts.at = inserts.at.max(sample.at);
    }
    let told = pod(facts, ordinal, (cpu_millicores, sample.resident_bytes), now.oom_kills);
    (now.told, now.metered) = (Some(Aged { seen_at: sample.at, value: told }), false);
    now.sample = Some(sample.clone());
    now
}

/// A pod's measurement, unless its own figures are newer.
fn told_by(metered: &Metered, facts: &PodState, seen: &Seen) -> Option<Aged<Pod>> {
    let Metered { at, cpu_millicores, memory_bytes } = *metered;
    let known = seen.told.as_ref().is_some_and(|told| told.seen_at >= at);
    let used = (Some(cpu_millicores), Some(memory_bytes));
    let value = pod(facts, facts.ordinal?, used, seen.oom_kills);
    (!known).then_some(Aged { seen_at: at, value })
}

/// A pod with its limits and what it uses of processor time and memory.
fn pod(
    facts: &PodState,
    ordinal: u32,
    (cpu_millicores, memory_bytes): (Option<f64>, Option<u64>),
    oom_kills: u32,
) -> Pod {
    let limit = facts.cpu_limit_millicores.filter(|limit| *limit > 0);
    Pod {
        ordinal,
        busy: cpu_millicores.zip(limit).map(|(used, limit)| (used / limit as f64).min(1.0)),
        cpu_millicores,
        cpu_limit_millicores: facts.cpu_limit_millicores,
        memory_bytes,
        memory_limit_bytes: facts.memory_limit_bytes,
        oom_kills,
    }
}

/// Inserts the sink did not take.
fn refused(sample: &Sample) -> u64 {
    let classes = sample.insert_retries.iter();
    classes.filter(|(class, _)| *class != NOT_THE_SINKS).map(|(_, count)| count).sum()
}

/// A partition that two pods claim is being handed over: nobody's until one releases it.
fn owners(seen: &BTreeMap<String, Seen>) -> BTreeMap<(String, i32), u32> {
    let mut owners: BTreeMap<(String, i32), Option<u32>> = BTreeMap::new();
    for seen in seen.values() {
        let (Some(sample), Some(told)) = (&seen.sample, &seen.told) else { continue };
        for partition in sample.lag_messages.keys() {
            let owner = owners.entry(partition.clone());
            owner.and_modify(|owner| *owner = None).or_insert(Some(told.value.ordinal));
        }
    }
    owners.into_iter().filter_map(|(partition, owner)| Some((partition, owner?))).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/pods/rates.rs"]
mod tests;
