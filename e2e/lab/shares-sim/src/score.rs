//! What an assignment is like, and what lies between two.

use std::collections::HashMap;

use millrace_share_documents::{PodName, TargetId};

use crate::fleet::Fleet;
use crate::rules::Assigned;

/// How even an assignment is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evenness {
    /// How far the fullest pod is over the fair share, in percent. A pod with one target that is
    /// heavier than the share counts by what it has beside it.
    pub over_percent: f64,
    /// How far the emptiest is under it.
    pub under_percent: f64,
    /// Samples per second of the fullest pod.
    pub fullest: f64,
    /// Targets that nobody has.
    pub nobody: usize,
    /// Share of samples whose target and pod are in one zone, in percent.
    pub in_zone_percent: f64,
}

/// The fair share: the mean without targets that are heavier than it, and their pods.
fn fair(fleet: &Fleet, pods: usize) -> f64 {
    let mut weights: Vec<u64> = fleet.targets.keys().map(|id| fleet.weight(id)).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let mut rest = weights.iter().sum::<u64>() as f64;
    let mut left = pods.max(1) as f64;
    for weight in weights {
        if left <= 1.0 || weight as f64 <= rest / left {
            break;
        }
        rest -= weight as f64;
        left -= 1.0;
    }
    rest / left
}

/// Of an assignment to the ready pods.
#[must_use]
pub fn evenness(fleet: &Fleet, assigned: &Assigned) -> Evenness {
    let ready = fleet.ready();
    let fair = fair(fleet, ready.len());
    let mut loads: HashMap<&PodName, (f64, f64)> =
        ready.iter().map(|name| (name, (0.0, 0.0))).collect();
    let (mut in_zone, mut all) = (0.0, 0.0);
    for (id, pod) in assigned {
        let weight = fleet.weight(id) as f64;
        let Some(load) = loads.get_mut(pod) else { continue };
        load.0 += weight;
        load.1 += if weight > fair { weight - fair } else { 0.0 };
        let zone = fleet.targets.get(id).and_then(|it| it.zone.as_ref());
        let same = zone == fleet.pods.get(pod).and_then(|it| it.zone.as_ref());
        in_zone += if same { weight } else { 0.0 };
        all += weight;
    }
    // One target too heavy is nobody's fault, two on one pod are.
    let counted = |(load, excess): &(f64, f64)| {
        if *excess > 0.0 && *load < 2.0 * fair + excess { load - excess } else { *load }
    };
    let most = loads.values().map(counted).fold(0.0, f64::max);
    let least = loads.values().map(|(load, _)| *load).fold(f64::INFINITY, f64::min);
    Evenness {
        over_percent: (most / fair - 1.0) * 100.0,
        under_percent: (1.0 - least / fair) * 100.0,
        fullest: loads.values().map(|(load, _)| *load).fold(0.0, f64::max) / 1_000.0,
        nobody: fleet.targets.len() - assigned.len(),
        in_zone_percent: in_zone / f64::max(all, 1.0) * 100.0,
    }
}

/// What changed its pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Targets.
    pub targets: usize,
    /// Their share of all samples, in percent.
    pub samples_percent: f64,
}

/// Between two assignments: targets that another pod has now, or nobody.
#[must_use]
pub fn moved(fleet: &Fleet, before: &Assigned, after: &Assigned) -> Moved {
    let changed = |(id, pod): &(&TargetId, &PodName)| after.get(*id) != Some(*pod);
    let mut moved = Moved::default();
    let mut weight = 0;
    for (id, _) in before.iter().filter(changed) {
        moved.targets += 1;
        weight += fleet.weight(id);
    }
    let all: u64 = fleet.targets.keys().map(|id| fleet.weight(id)).sum();
    moved.samples_percent = weight as f64 / all.max(1) as f64 * 100.0;
    moved
}
