//! Samples of pods for judging rollouts: the counters at the start of a watch period, and the
//! pool's past before it.
//!
//! In memory; losing it is safe: the watch period restarts with the next sample, and a pool of one
//! pod is judged without its past. This file judges nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_rollout::{FilesLoad, LoadFigures};

use crate::cache::pools::absent::{AbsentClock, AbsentPods, LostPods};
use crate::pods::{self, NodeLogsSample, PodSample};

/// A pool's past covers one to two of these: as long as a canary is judged by default, so that both
/// cover similar times.
const PAST_SECONDS: i64 = 300;

/// Returns the samples of the pods that answered.
#[must_use]
pub fn successful_samples(scrapes: &pods::ScrapeResults) -> SamplesByPod {
    let answered = scrapes.iter().filter_map(|(pod, answer)| Some((pod, answer.as_ref().ok()?)));
    answered.map(|(pod, sample)| (pod.clone(), sample.clone())).collect()
}

/// One sample of each pod that answered, by pod.
pub type SamplesByPod = BTreeMap<String, Arc<PodSample>>;

/// A trial pod that the API server refused to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untried {
    /// The trial pod's name.
    pub name: String,
    /// The API server's refusal.
    pub cause: String,
}

/// The samples of one pool.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// The name of the current watch period, and the counters at its start.
    watch: Option<(String, SamplesByPod)>,
    /// The two newest samples, far enough apart, from a time without a rollout.
    past: Option<(SamplesByPod, SamplesByPod)>,
    newest: SamplesByPod,
    /// The trial pod that could not be created.
    pub untried: Option<Untried>,
    /// Pods with stable names that should exist and don't.
    pub absent: AbsentPods,
    /// The number of absent pods without stable names.
    pub absent_clock: AbsentClock,
    /// The absent pods without stable names that the change has lost.
    pub lost: LostPods,
}

impl Baseline {
    /// Adds a sample while no rollout runs.
    pub fn record_past(&mut self, samples: SamplesByPod) {
        self.watch = None;
        self.past = match self.past.take() {
            None => Some((samples.clone(), samples.clone())),
            Some((_, newer)) if has_window_elapsed(&newer, &samples) => {
                Some((newer, samples.clone()))
            }
            Some(past) => Some(past),
        };
        self.newest = samples;
    }

    /// Adds a sample of the watch period `name`. The first one starts the period.
    pub fn record_watched(&mut self, name: &str, samples: SamplesByPod) {
        match &mut self.watch {
            Some((of, base)) if of == name => {
                // A new pod starts with its first sample.
                for (pod, counters) in &samples {
                    base.entry(pod.clone()).or_insert_with(|| counters.clone());
                }
            }
            _ => {
                // The past ends where the first watch period begins.
                if self.watch.is_none() {
                    let newest = std::mem::take(&mut self.newest);
                    self.past = self.past.take().map(|(older, _)| (older, newest));
                }
                self.watch = Some((name.to_owned(), samples.clone()));
            }
        }
        self.newest = samples;
    }

    /// Returns each pod's load since the watch period began.
    #[must_use]
    pub fn watched_loads(&self) -> Vec<(String, LoadFigures)> {
        self.watch.as_ref().map_or_else(Vec::new, |(_, base)| loads_between(base, &self.newest))
    }

    /// Returns each pod's load before the watch period, while no rollout ran.
    #[must_use]
    pub fn past_loads(&self) -> Vec<LoadFigures> {
        let Some((older, newer)) = &self.past else { return Vec::new() };
        loads_between(older, newer).into_iter().map(|(_, load)| load).collect()
    }
}

fn has_window_elapsed(before: &SamplesByPod, now: &SamplesByPod) -> bool {
    let at = |samples: &SamplesByPod| samples.values().map(|it| it.at).max();
    match (at(before), at(now)) {
        (Some(before), Some(now)) => now.saturating_sub(before) >= PAST_SECONDS,
        // A sample without pods can't be a start.
        (before, _) => before.is_none(),
    }
}

/// Returns the load of the pods in both samples. If a pod restarted in between (its start time
/// changed or its counters fell), its counters start from zero.
fn loads_between(base: &SamplesByPod, now: &SamplesByPod) -> Vec<(String, LoadFigures)> {
    let load = |(pod, now): (&String, &Arc<PodSample>)| {
        let base = base.get(pod)?;
        let began = now.started_at.zip(base.started_at);
        let restarted = began.is_some_and(|(now, before)| now != before)
            || now.records_in < base.records_in
            || now.cpu_seconds < base.cpu_seconds;
        let nothing = PodSample {
            at: base.at,
            lag_messages: base.lag_messages.clone(),
            // This is a gauge, not a counter: the backlog survives the restart.
            node_logs: NodeLogsSample { lost_bytes: 0, ..base.node_logs },
            ..PodSample::default()
        };
        let base = if restarted { &nothing } else { base.as_ref() };
        let seconds = now.at.saturating_sub(base.at);
        if seconds <= 0 {
            return None;
        }
        // Partitions assigned or revoked in between don't show this pod's speed.
        let lags = now.lag_messages.iter();
        let lags =
            lags.filter_map(|(of, lag)| Some(signed_change(*lag, *base.lag_messages.get(of)?)));
        let lags: Vec<i64> = lags.collect();
        let load = LoadFigures {
            seconds: seconds as f64,
            records_in: now.records_in.saturating_sub(base.records_in),
            records_out: now.records_out.saturating_sub(base.records_out),
            records_rejected: now.records_rejected.saturating_sub(base.records_rejected),
            records_dropped: now.records_dropped.saturating_sub(base.records_dropped),
            held_change: signed_change(now.records_held, base.records_held),
            cpu_seconds: now.cpu_seconds - base.cpu_seconds,
            resident_bytes: now.resident_bytes.unwrap_or(0),
            insert_failures: now.insert_failures().saturating_sub(base.insert_failures()),
            lag_change: (!lags.is_empty()).then(|| lags.iter().sum()),
            files: files_load(&base.node_logs, &now.node_logs),
        };
        Some((pod.clone(), load))
    };
    now.iter().filter_map(load).collect()
}

/// Returns a pod's load from its node's files; `None` if it reads none. A release that doesn't
/// count read and confirmed bytes has no unaccounted ones.
fn files_load(base: &NodeLogsSample, now: &NodeLogsSample) -> Option<FilesLoad> {
    let behind = now.behind_bytes?;
    let counted = now.accepted_bytes.zip(now.confirmed_bytes);
    let unaccounted_bytes = counted.map_or(0, |(accepted, confirmed)| {
        FilesLoad::count_unaccounted(accepted, confirmed, behind)
    });
    Some(FilesLoad {
        unaccounted_bytes,
        behind_change: signed_change(behind, base.behind_bytes.unwrap_or(0)),
        lost_bytes: now.lost_bytes.saturating_sub(base.lost_bytes),
    })
}

fn signed_change(now: u64, then: u64) -> i64 {
    i64::try_from(now).unwrap_or(i64::MAX) - i64::try_from(then).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
