//! Targets with skewed weights, and pods.

use std::collections::BTreeMap;

use millrace_share_documents::{PodName, TargetId, Weight};
use millrace_shares::{CandidatePod, PodState, Target};

use crate::rng::{Rng, mix};

/// Samples of the largest body, before the many small ones' base is added.
const LARGEST_SAMPLES: f64 = 150_000.0;
/// Zipf's exponent. With 0.7 the heaviest 1 % of 100,000 targets have a tenth of all samples, and
/// none is heavier than a pod's fair share, so that every rule could be even.
const EXPONENT: f64 = 0.7;
/// Samples of each target beside that.
const BASE_SAMPLES: f64 = 200.0;
/// All are scraped this often.
pub const INTERVAL_SECONDS: u32 = 15;
/// Jobs, besides one of huge targets.
const JOBS: u64 = 60;
/// Zones of targets and pods.
pub const ZONES: u64 = 3;

/// What there is to share out.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// All targets.
    pub targets: BTreeMap<TargetId, Target>,
    /// All pods.
    pub pods: BTreeMap<PodName, CandidatePod>,
    /// The node of a target: the number of the pod that was on it first.
    pub nodes: BTreeMap<TargetId, usize>,
    /// The node of a pod, likewise.
    pub pod_nodes: BTreeMap<PodName, usize>,
    made: usize,
}

impl Fleet {
    /// So many of each.
    #[must_use]
    pub fn new(targets: usize, pods: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut fleet = Self {
            targets: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pod_nodes: BTreeMap::new(),
            made: 0,
        };
        for rank in 1..=targets {
            let samples = LARGEST_SAMPLES / (rank as f64).powf(EXPONENT) + BASE_SAMPLES;
            let job = format!("job-{}", rng.below(JOBS));
            fleet.add(&mut rng, &job, samples as u64, pods);
        }
        (0..pods).for_each(|_| fleet.join());
        fleet
    }

    fn add(&mut self, rng: &mut Rng, job: &str, samples: u64, nodes: usize) {
        let id = TargetId(u128::from(rng.any()) << 64 | u128::from(rng.any()));
        let zone = Some(format!("zone-{}", rng.below(ZONES)));
        let weight = Some(Weight::of_scrape(samples, INTERVAL_SECONDS));
        self.targets.insert(id, Target { job: job.to_owned(), weight, zone, awaits_scrape: false });
        self.nodes.insert(id, rng.below(nodes as u64) as usize);
    }

    /// One job of huge targets.
    pub fn add_huge(&mut self, targets: usize, samples: u64, seed: u64) {
        let mut rng = Rng::new(seed);
        let nodes = self.pods.len();
        (0..targets).for_each(|_| self.add(&mut rng, "huge", samples, nodes));
    }

    /// One more pod, on a node of its own.
    pub fn join(&mut self) {
        self.join_on(self.made);
    }

    /// A pod beside each of the first so many, on its node.
    pub fn join_beside_first(&mut self, count: usize) {
        for name in self.ready().into_iter().take(count) {
            self.join_on(self.pod_nodes.get(&name).copied().unwrap_or_default());
        }
    }

    fn join_on(&mut self, node: usize) {
        let zone = Some(format!("zone-{}", self.made as u64 % ZONES));
        let name = PodName::new(&format!("pod-{:04}", self.made));
        self.made += 1;
        self.pod_nodes.insert(name.clone(), node);
        self.pods.insert(name, CandidatePod { state: PodState::Ready, zone });
    }

    /// Names of pods that are ready, in their order.
    #[must_use]
    pub fn ready(&self) -> Vec<PodName> {
        let ready = self.pods.iter().filter(|(_, pod)| pod.state == PodState::Ready);
        ready.map(|(name, _)| name.clone()).collect()
    }

    /// The first so many ready pods become something else.
    pub fn set_first(&mut self, count: usize, state: PodState) {
        for name in self.ready().into_iter().take(count) {
            if let Some(pod) = self.pods.get_mut(&name) {
                pod.state = state;
            }
        }
    }

    /// Pods that aren't ready are no more.
    pub fn forget_others(&mut self) {
        self.pods.retain(|_, pod| pod.state == PodState::Ready);
    }

    /// Each weight changes by up to `percent`, either way.
    pub fn drift(&mut self, percent: f64, seed: u64) {
        let mut rng = Rng::new(seed);
        for target in self.targets.values_mut() {
            let factor = 1.0 + (rng.unit() * 2.0 - 1.0) * percent / 100.0;
            let weight = target.weight.map_or(0.0, |it| it.milli() as f64);
            target.weight = Some(Weight::new((weight * factor) as u64));
        }
    }

    /// What a target costs.
    #[must_use]
    pub fn weight(&self, id: &TargetId) -> u64 {
        self.targets.get(id).and_then(|it| it.weight).map_or(0, Weight::milli)
    }
}

/// A number of a target's id, for models that hash.
#[must_use]
pub fn key(id: TargetId) -> u64 {
    mix(id.0 as u64 ^ (id.0 >> 64) as u64)
}
