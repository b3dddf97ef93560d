//! The rules: ours, and models of others with their formulas and constants.
//!
//! Sources: opentelemetry-operator, `cmd/otel-allocator/internal/allocation` (the three strategies,
//! with buraksezer/consistent for the ring); Prometheus' `hashmod` relabeling and vmagent's
//! `-promscrape.cluster.membersCount`. Left out: relabeling before, zone awareness of the allocator
//! (new), vmagent's replication, and all delays.

use std::collections::{BTreeMap, HashMap};

use millrace_share_documents::{PodName, TargetId};
use millrace_shares::{DecisionInput, SharingPolicy, assign_targets};

use crate::fleet::{Fleet, key};
use crate::rng::hash;

/// Which pod scrapes which target.
pub type Assigned = BTreeMap<TargetId, PodName>;

/// What an answer says.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The assignment.
    pub assigned: Assigned,
    /// Whether the rule would go on moving at the next decision.
    pub more: bool,
    /// Pods that the load needs, where the rule says so.
    pub needed_pods: Option<u64>,
}

/// The rules, ours first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `millrace_shares::decide`.
    Ours,
    /// The allocator's default.
    ConsistentHashing,
    /// The allocator's least-weighted: by number of targets.
    LeastWeighted,
    /// The allocator's per-node, for a DaemonSet.
    PerNode,
    /// The hash modulo the number of pods.
    HashModulo,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Ours, Self::ConsistentHashing, Self::LeastWeighted, Self::PerNode, Self::HashModulo];

    /// As the page calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "millrace",
            Self::ConsistentHashing => "consistent hashing",
            Self::LeastWeighted => "least-weighted",
            Self::PerNode => "per-node",
            Self::HashModulo => "hash modulo pods",
        }
    }

    /// What the rule says.
    #[must_use]
    pub fn answer(self, fleet: &Fleet, before: &Assigned, policy: &SharingPolicy) -> Answer {
        let only = |assigned| Answer { assigned, ..Answer::default() };
        match self {
            Self::Ours => {
                let (targets, pods) = (&fleet.targets, &fleet.pods);
                let decision =
                    assign_targets(&DecisionInput { targets, pods, assigned: before, policy });
                Answer {
                    more: decision.figures.more_to_move,
                    needed_pods: decision.figures.needed_pods,
                    assigned: decision.to_assignment(),
                }
            }
            Self::ConsistentHashing => only(consistent_hashing(fleet)),
            Self::LeastWeighted => only(least_weighted(fleet, before)),
            Self::PerNode => only(per_node(fleet)),
            Self::HashModulo => only(hash_modulo(fleet)),
        }
    }
}

/// Partitions of the ring, points of a pod on it, and the share of the mean that a pod may have.
const PARTITIONS: u64 = 1_061;
const POINTS: usize = 5;
const LOAD: f64 = 1.1;

fn consistent_hashing(fleet: &Fleet) -> Assigned {
    let ready = fleet.ready();
    if ready.is_empty() {
        return Assigned::new();
    }
    let most = (PARTITIONS as f64 / ready.len() as f64 * LOAD).ceil() as u64;
    let points = ready.iter().enumerate().flat_map(|(number, name)| {
        (0..POINTS).map(move |point| (hash(&format!("{name}{point}")), number))
    });
    let ring: BTreeMap<u64, usize> = points.collect();
    let mut has = vec![0; ready.len()];
    let owners: Vec<usize> = (0..PARTITIONS)
        .map(|partition| {
            let from = hash(&partition.to_string());
            let mut around = ring.range(from..).chain(ring.range(..from));
            let owner = around.find(|(_, pod)| has[**pod] < most).map_or(0, |(_, pod)| *pod);
            has[owner] += 1;
            owner
        })
        .collect();
    let owner = |id: TargetId| &ready[owners[(key(id) % PARTITIONS) as usize]];
    fleet.targets.keys().map(|id| (*id, owner(*id).clone())).collect()
}

/// One that has a pod keeps it; others go to the pod with the fewest, of these to the one with the
/// fewest of the job, of these to the first by name.
fn least_weighted(fleet: &Fleet, before: &Assigned) -> Assigned {
    let ready = fleet.ready();
    let numbers: HashMap<&PodName, usize> = ready.iter().zip(0..).collect();
    let mut counts = vec![0u64; ready.len()];
    let mut of_job: HashMap<(usize, &str), u64> = HashMap::new();
    let mut assigned = Assigned::new();
    let kept = |id: &TargetId| before.get(id).and_then(|pod| numbers.get(pod)).copied();
    let mut new = Vec::new();
    for (id, target) in &fleet.targets {
        let Some(pod) = kept(id) else {
            new.push((id, target));
            continue;
        };
        counts[pod] += 1;
        *of_job.entry((pod, &target.job)).or_default() += 1;
        assigned.insert(*id, ready[pod].clone());
    }
    for (id, target) in new {
        let job = target.job.as_str();
        let jobs = |pod: usize| of_job.get(&(pod, job)).copied().unwrap_or(0);
        let fewest = counts.iter().copied().min().unwrap_or(0);
        let least = (0..ready.len()).filter(|pod| counts[*pod] == fewest);
        let Some(pod) = least.min_by_key(|pod| (jobs(*pod), *pod)) else { break };
        counts[pod] += 1;
        *of_job.entry((pod, job)).or_default() += 1;
        assigned.insert(*id, ready[pod].clone());
    }
    assigned
}

/// Each pod has the targets of its node, the newest of two. A node without a pod has nobody; nodes
/// that come have no targets of those there were.
fn per_node(fleet: &Fleet) -> Assigned {
    let ready = fleet.ready();
    let on: HashMap<usize, &PodName> =
        ready.iter().filter_map(|name| Some((*fleet.pod_nodes.get(name)?, name))).collect();
    let owner = |id: &TargetId| on.get(fleet.nodes.get(id)?).map(|name| (*name).clone());
    fleet.targets.keys().filter_map(|id| Some((*id, owner(id)?))).collect()
}

fn hash_modulo(fleet: &Fleet) -> Assigned {
    let ready = fleet.ready();
    let pods = ready.len().max(1) as u64;
    let owner = |id: TargetId| ready.get((key(id) % pods) as usize).cloned();
    fleet.targets.keys().filter_map(|id| Some((*id, owner(*id)?))).collect()
}
