//! Samples of pods for judging rollouts: counters at the start of a watch period, and the pool's
//! past before it.
//!
//! Kept in memory. Losing it is safe: the watch period restarts with the next sample, and a pool of
//! one pod is judged without its past. Nothing is judged here.

use std::collections::BTreeMap;

use millrace_rollout::{FilesLoad, Load};

use crate::pods::{self, NodeLogsSample, Sample};

/// A pool's past covers one to two of these: as long as a canary is judged by default, so that both
/// cover similar times.
const PAST_SECONDS: i64 = 300;

/// What the pods said that answered.
#[must_use]
pub fn answered(look: &pods::Look) -> Look {
    let answered = look.iter().filter_map(|(pod, answer)| Some((pod, answer.as_ref().ok()?)));
    answered.map(|(pod, sample)| (pod.clone(), sample.clone())).collect()
}

/// One sample of all pods that answered, by pod.
pub type Look = BTreeMap<String, Sample>;

/// What is kept of one pool.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Which watch `base` began, and the counters at its beginning.
    watch: Option<(String, Look)>,
    /// While no rollout runs: the two newest samples that are far enough apart.
    past: Option<(Look, Look)>,
    newest: Look,
    /// The trial pod that could not be created.
    pub untried: Option<String>,
}

impl Baseline {
    /// Adds a sample while no rollout runs.
    pub fn rest(&mut self, look: Look) {
        self.watch = None;
        self.past = match self.past.take() {
            None => Some((look.clone(), look.clone())),
            Some((_, newer)) if is_apart(&newer, &look) => Some((newer, look.clone())),
            Some(past) => Some(past),
        };
        self.newest = look;
    }

    /// Adds a sample during the watch period `name`; the first one is its start.
    pub fn watch(&mut self, name: &str, look: Look) {
        match &mut self.watch {
            Some((of, base)) if of == name => {
                // A new pod starts with its first sample.
                for (pod, counters) in &look {
                    base.entry(pod.clone()).or_insert_with(|| counters.clone());
                }
            }
            _ => {
                // The past ends where the first watch begins.
                if self.watch.is_none() {
                    let newest = std::mem::take(&mut self.newest);
                    self.past = self.past.take().map(|(older, _)| (older, newest));
                }
                self.watch = Some((name.to_owned(), look.clone()));
            }
        }
        self.newest = look;
    }

    /// What each pod did since the watch began.
    #[must_use]
    pub fn loads(&self) -> Vec<(String, Load)> {
        self.watch.as_ref().map_or_else(Vec::new, |(_, base)| between(base, &self.newest))
    }

    /// What each pod did before, while no rollout ran.
    #[must_use]
    pub fn past(&self) -> Vec<Load> {
        let Some((older, newer)) = &self.past else { return Vec::new() };
        between(older, newer).into_iter().map(|(_, load)| load).collect()
    }
}

fn is_apart(before: &Look, now: &Look) -> bool {
    let at = |look: &Look| look.values().map(|it| it.at).max();
    match (at(before), at(now)) {
        (Some(before), Some(now)) => now.saturating_sub(before) >= PAST_SECONDS,
        // A sample without pods can't be a start.
        (before, _) => before.is_none(),
    }
}

/// Load of pods in both samples. If a pod restarted in between (it says so, or its counters fell),
/// its counters start from zero.
fn between(base: &Look, now: &Look) -> Vec<(String, Load)> {
    let load = |(pod, now): (&String, &Sample)| {
        let base = base.get(pod)?;
        let began = now.started_at.zip(base.started_at);
        let restarted = began.is_some_and(|(now, before)| now != before)
            || now.records_in < base.records_in
            || now.cpu_seconds < base.cpu_seconds;
        let nothing = Sample {
            at: base.at,
            lag_messages: base.lag_messages.clone(),
            // No counter: what was behind, still is.
            node_logs: NodeLogsSample { lost_bytes: 0, ..base.node_logs },
            ..Sample::default()
        };
        let base = if restarted { &nothing } else { base };
        let seconds = now.at.saturating_sub(base.at);
        if seconds <= 0 {
            return None;
        }
        // Partitions that came or went don't show how fast this pod is.
        let lags = now.lag_messages.iter();
        let lags = lags.filter_map(|(of, lag)| Some(change(*lag, *base.lag_messages.get(of)?)));
        let lags: Vec<i64> = lags.collect();
        let load = Load {
            seconds: seconds as f64,
            records_in: now.records_in.saturating_sub(base.records_in),
            records_out: now.records_out.saturating_sub(base.records_out),
            records_apart: now.records_apart.saturating_sub(base.records_apart),
            held_change: change(now.records_held, base.records_held),
            cpu_seconds: now.cpu_seconds - base.cpu_seconds,
            resident_bytes: now.resident_bytes.unwrap_or(0),
            insert_failures: now.insert_failures().saturating_sub(base.insert_failures()),
            lag_change: (!lags.is_empty()).then(|| lags.iter().sum()),
            files: files(&base.node_logs, &now.node_logs),
        };
        Some((pod.clone(), load))
    };
    now.iter().filter_map(load).collect()
}

/// What a pod did with its node's files; none if it reads none. A release that doesn't count what
/// it takes and confirms has nothing unaccounted.
fn files(base: &NodeLogsSample, now: &NodeLogsSample) -> Option<FilesLoad> {
    let behind = now.behind_bytes?;
    let counted = now.taken_bytes.zip(now.confirmed_bytes);
    let unaccounted_bytes =
        counted.map_or(0, |(taken, confirmed)| FilesLoad::unaccounted(taken, confirmed, behind));
    Some(FilesLoad {
        unaccounted_bytes,
        behind_change: change(behind, base.behind_bytes.unwrap_or(0)),
        lost_bytes: now.lost_bytes.saturating_sub(base.lost_bytes),
    })
}

fn change(now: u64, then: u64) -> i64 {
    i64::try_from(now).unwrap_or(i64::MAX) - i64::try_from(then).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "../../tests/unit/cache/baseline.rs"]
mod tests;
