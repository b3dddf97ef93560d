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
mod tests {
    use super::*;
    use crate::pods::ScrapeError;

    fn facts(ordinal: u32) -> PodState {
        PodState {
            name: format!("p-{ordinal}"),
            ordinal: Some(ordinal),
            memory_limit_bytes: Some(1_000),
            cpu_limit_millicores: Some(2_000),
            ..PodState::default()
        }
    }

    fn sample(at: i64, cpu_seconds: f64, inserts: u64, slow_down: u64) -> Sample {
        Sample {
            at,
            cpu_seconds,
            inserts,
            insert_retries: [("slow_down".to_owned(), slow_down)].into(),
            resident_bytes: Some(600),
            ..Sample::default()
        }
    }

    fn none() -> MeteredPods {
        MeteredPods::new()
    }

    fn look(samples: Vec<(u32, Sample)>) -> Look {
        samples.into_iter().map(|(pod, sample)| (format!("p-{pod}"), Ok(sample))).collect()
    }

    /// Scenario: two looks ten seconds apart. Guarantee: processor time used as a share of the
    /// limit, the share of inserts that the sink refused, over both pods.
    #[test]
    fn rates_come_from_two_looks() {
        let mut rates = PodRates::default();
        let pods = [facts(0), facts(1)];
        rates.note(
            &pods,
            &look(vec![(0, sample(0, 5.0, 10, 0)), (1, sample(0, 5.0, 10, 4))]),
            &none(),
        );
        assert_eq!((rates.pods.len(), rates.pods[0].value.busy), (2, None));
        assert_eq!(rates.sink, None, "nothing is known of a rate after one look");
        rates.note(
            &pods,
            &look(vec![(0, sample(10, 15.0, 20, 0)), (1, sample(10, 25.0, 20, 9))]),
            &none(),
        );
        let busy: Vec<_> = rates.pods.iter().map(|pod| pod.value.busy).collect();
        assert_eq!(busy, [Some(0.5), Some(1.0)]);
        assert_eq!(rates.sink, Some(Aged { seen_at: 10, value: Sink { pressure: 0.25 } }));
        // No insert since: nothing new is known of the sink.
        rates.note(&pods, &look(vec![(0, sample(20, 15.0, 20, 0))]), &none());
        assert_eq!(rates.sink.as_ref().map(|sink| sink.seen_at), Some(10));
    }

    /// Scenario: a pod stops answering, starts anew, and is gone. Guarantee: what it said stays
    /// with its age; a new process' counters make no rate; a pod that isn't listed is forgotten.
    #[test]
    fn a_pod_that_does_not_answer_keeps_what_it_said_with_its_age() {
        let mut rates = PodRates::default();
        let pods = [facts(0)];
        rates.note(&pods, &look(vec![(0, sample(0, 50.0, 10, 0))]), &none());
        let cause = "silence".to_owned();
        let address = "10.0.0.1".parse().unwrap();
        let away = ScrapeError::Unreachable { pod: "p-0".into(), address, cause };
        rates.note(&pods, &[("p-0".to_owned(), Err(away))].into(), &none());
        assert_eq!((rates.pods.len(), rates.pods[0].seen_at), (1, 0));
        rates.note(&pods, &look(vec![(0, sample(20, 1.0, 2, 0))]), &none());
        assert_eq!((rates.pods[0].seen_at, rates.pods[0].value.busy), (20, None));
        rates.note(&[], &Look::new(), &none());
        assert!(rates.pods.is_empty());
    }

    /// Scenario: a pod was ended twice for its memory, and looked at in between more often.
    /// Guarantee: each end counts once.
    #[test]
    fn each_end_for_lack_of_memory_counts_once() {
        let mut rates = PodRates::default();
        let mut pod = facts(0);
        for (at, ended, kills) in [(0, None, 0), (1, Some(1), 1), (2, Some(1), 1), (3, Some(3), 2)]
        {
            pod.out_of_memory_at = ended;
            rates.note(&[pod.clone()], &look(vec![(0, sample(at, 1.0, 0, 0))]), &none());
            assert_eq!(rates.pods[0].value.oom_kills, kills, "{at}");
        }
    }

    /// Scenario: a partition moves from one pod to another; for one look both count it. Guarantee:
    /// it has no owner meanwhile.
    #[test]
    fn a_partition_that_two_pods_count_has_no_owner() {
        let mut rates = PodRates::default();
        let reads = |at: i64, partitions: &[i32]| Sample {
            at,
            lag_messages: partitions.iter().map(|it| (("t".to_owned(), *it), 0)).collect(),
            ..Sample::default()
        };
        let pods = [facts(0), facts(1)];
        rates.note(&pods, &look(vec![(0, reads(1, &[0, 1])), (1, reads(1, &[1, 2]))]), &none());
        let owners = [(("t".to_owned(), 0), 0), (("t".to_owned(), 2), 1)];
        assert_eq!(rates.owners, owners.into());
    }

    /// Scenario: a pod that doesn't answer is metered, more than once; then it answers. Guarantee:
    /// the metered figures count with their own age, nothing older replaces what is known, and what
    /// the pod says of itself wins.
    #[test]
    fn a_silent_pod_is_told_of_by_the_metrics_api() {
        let mut rates = PodRates::default();
        let pods = [facts(0)];
        let (pod, address) = ("p-0".to_owned(), "10.0.0.1".parse().unwrap());
        let cause = "silence".to_owned();
        let silent: Look =
            [(pod.clone(), Err(ScrapeError::Unreachable { pod, address, cause }))].into();
        let metered = |at: i64, memory_bytes: u64| -> MeteredPods {
            [("p-0".to_owned(), Metered { at, cpu_millicores: 500.0, memory_bytes })].into()
        };
        rates.note(&pods, &silent, &metered(10, 700));
        rates.note(&pods, &silent, &metered(5, 900));
        let told = rates.pods[0].clone();
        assert_eq!((told.seen_at, told.value.memory_bytes), (10, Some(700)));
        assert_eq!((told.value.busy, told.value.cpu_millicores), (Some(0.25), Some(500.0)));
        assert_eq!(rates.metered, [0].into());
        rates.note(&pods, &look(vec![(0, sample(20, 5.0, 0, 0))]), &metered(21, 900));
        assert_eq!(rates.pods[0].value.memory_bytes, Some(600));
        assert!(rates.metered.is_empty());
    }
}
