//! The state of one decision: the pod of each target, each pod's load, the moves left. Targets and
//! pods are numbers here, in the order of their ids and names. It keeps sums and indexes right; the
//! rules are in `decide`, `balance` and `prefer`.
//!
//! A pod's targets are sorted by weight only when one first leaves it: most decisions remove
//! targets from few pods.

use std::collections::{BTreeSet, HashMap};

use crate::decision::PlacementReason;
use crate::policy::SharingPolicy;

/// No pod, no zone.
pub(crate) const NONE: u32 = u32::MAX;

/// A target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) weight: u64,
    pub(crate) job: u32,
    pub(crate) zone: u32,
    /// The pod that has it in this decision.
    pub(crate) at: u32,
    /// The working pod that had it before.
    pub(crate) home: u32,
    /// It stays with a pod that isn't ready: the decision ignores it.
    pub(crate) stays: bool,
    /// It doesn't leave `home` by choice.
    pub(crate) pinned: bool,
    pub(crate) reason: PlacementReason,
}

/// The targets that may leave a pod by choice: `sorted` by weight once one was removed, `unsorted`
/// until then.
#[derive(Debug)]
struct List {
    unsorted: Vec<u32>,
    sorted: Option<BTreeSet<(u64, u32)>>,
}

/// A ready pod.
#[derive(Debug)]
struct ReadyPod {
    load: u64,
    targets: u64,
    zone: u32,
    list: List,
}

/// The assignment of all targets.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) rows: Vec<Row>,
    columns: Vec<ReadyPod>,
    by_load: BTreeSet<(u64, u32)>,
    by_zone: Vec<BTreeSet<(u64, u32)>>,
    /// Targets of a job per pod. Empty when jobs aren't spread.
    of_job: HashMap<(u32, u32), u32>,
    job_limits: Vec<u32>,
    moves_left: u32,
    targets_max: u64,
}

impl Assignment {
    /// Creates an assignment without placements; `zones` has the zone of each pod, `job_limits` is
    /// empty when jobs aren't spread.
    pub(crate) fn new(
        rows: Vec<Row>,
        zones: &[u32],
        zone_count: usize,
        job_limits: Vec<u32>,
        policy: &SharingPolicy,
    ) -> Self {
        let room = rows.len() / zones.len().max(1) + 1;
        let column = |zone: &u32| ReadyPod {
            load: 0,
            targets: 0,
            zone: *zone,
            list: List { unsorted: Vec::with_capacity(room), sorted: None },
        };
        let counted = if job_limits.is_empty() { 0 } else { rows.len() };
        Self {
            columns: zones.iter().map(column).collect(),
            by_load: BTreeSet::new(),
            by_zone: vec![BTreeSet::new(); zone_count],
            of_job: HashMap::with_capacity(counted),
            job_limits,
            moves_left: policy.moves_max,
            targets_max: policy.targets_max,
            rows,
        }
    }

    /// Assigns targets to their previous pods, up to each pod's limit. Call it once, first.
    pub(crate) fn retain_previous(&mut self) {
        for target in 0..self.rows.len() as u32 {
            let row = self.rows[target as usize];
            if row.home == NONE {
                continue;
            }
            if self.has_capacity(row.home) {
                self.insert_target(target, row.home);
            } else {
                self.rows[target as usize].reason = PlacementReason::PodFull;
            }
        }
        for pod in 0..self.columns.len() as u32 {
            self.index_pod(pod);
        }
    }

    pub(crate) fn pod_count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn pod_load(&self, pod: u32) -> u64 {
        self.columns[pod as usize].load
    }

    pub(crate) fn target_count(&self, pod: u32) -> u64 {
        self.columns[pod as usize].targets
    }

    pub(crate) fn pod_zone(&self, pod: u32) -> u32 {
        self.columns[pod as usize].zone
    }

    pub(crate) fn moves_left(&self) -> u32 {
        self.moves_left
    }

    /// Returns whether the pod may have another target.
    pub(crate) fn has_capacity(&self, pod: u32) -> bool {
        self.target_count(pod) < self.targets_max
    }

    /// Returns the lightest pod that may have another target.
    pub(crate) fn lightest_pod(&self) -> Option<u32> {
        self.pods_by_load().find(|pod| self.has_capacity(*pod))
    }

    /// Returns the pods by ascending load.
    pub(crate) fn pods_by_load(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.by_load.iter().map(|(_, pod)| *pod)
    }

    /// Returns the pods of a zone by ascending load.
    pub(crate) fn zone_pods_by_load(&self, zone: u32) -> impl Iterator<Item = u32> {
        self.by_zone.get(zone as usize).into_iter().flatten().map(|(_, pod)| *pod)
    }

    /// Returns whether the pod may have one more target of the job.
    pub(crate) fn has_job_capacity(&self, pod: u32, job: u32) -> bool {
        self.is_within_job_limit(pod, job, 1)
    }

    /// Returns whether the pod has too many targets of the job.
    pub(crate) fn is_crowded(&self, pod: u32, job: u32) -> bool {
        !self.is_within_job_limit(pod, job, 0)
    }

    fn is_within_job_limit(&self, pod: u32, job: u32, more: u32) -> bool {
        let Some(limit) = self.job_limits.get(job as usize) else { return true };
        self.of_job.get(&(pod, job)).copied().unwrap_or(0).saturating_add(more) <= *limit
    }

    /// Returns the targets that may leave a pod by choice, by weight.
    pub(crate) fn targets_by_weight(&mut self, pod: u32) -> &BTreeSet<(u64, u32)> {
        let List { unsorted, sorted } = &mut self.columns[pod as usize].list;
        let rows = &self.rows;
        sorted.get_or_insert_with(|| {
            let targets = std::mem::take(unsorted);
            targets.into_iter().map(|it| (rows[it as usize].weight, it)).collect()
        })
    }

    /// Gives a target to a pod. Leaving its previous pod costs a move; returning there refunds it.
    /// Only a target that had a working pod gets the reason; others keep theirs.
    pub(crate) fn assign_target(&mut self, target: u32, pod: u32, reason: PlacementReason) {
        let row = self.rows[target as usize];
        if row.at != NONE {
            self.unassign_target(target);
            if row.at == row.home {
                self.moves_left = self.moves_left.saturating_sub(1);
            }
        }
        self.insert_target(target, pod);
        self.index_pod(pod);
        let row = &mut self.rows[target as usize];
        if row.home == pod {
            self.moves_left += 1;
            row.reason = PlacementReason::Unchanged;
        } else if row.home != NONE {
            row.reason = reason;
        }
    }

    fn unassign_target(&mut self, target: u32) {
        let row = self.rows[target as usize];
        let pod = row.at;
        self.unindex_pod(pod);
        self.targets_by_weight(pod);
        let column = &mut self.columns[pod as usize];
        if let Some(sorted) = &mut column.list.sorted {
            sorted.remove(&(row.weight, target));
        }
        column.load -= row.weight;
        column.targets -= 1;
        if !self.job_limits.is_empty()
            && let Some(count) = self.of_job.get_mut(&(pod, row.job))
        {
            *count -= 1;
        }
        self.rows[target as usize].at = NONE;
        self.index_pod(pod);
    }

    /// Inserts a target without indexing the pod.
    fn insert_target(&mut self, target: u32, pod: u32) {
        self.unindex_pod(pod);
        let row = &mut self.rows[target as usize];
        row.at = pod;
        let column = &mut self.columns[pod as usize];
        column.load += row.weight;
        column.targets += 1;
        match &mut column.list.sorted {
            _ if row.pinned && pod == row.home => {}
            None => column.list.unsorted.push(target),
            Some(sorted) => {
                sorted.insert((row.weight, target));
            }
        }
        if !self.job_limits.is_empty() {
            *self.of_job.entry((pod, row.job)).or_insert(0) += 1;
        }
    }

    fn index_pod(&mut self, pod: u32) {
        let column = &self.columns[pod as usize];
        self.by_load.insert((column.load, pod));
        if let Some(zone) = self.by_zone.get_mut(column.zone as usize) {
            zone.insert((column.load, pod));
        }
    }

    fn unindex_pod(&mut self, pod: u32) {
        let column = &self.columns[pod as usize];
        if self.by_load.remove(&(column.load, pod))
            && let Some(zone) = self.by_zone.get_mut(column.zone as usize)
        {
            zone.remove(&(column.load, pod));
        }
    }
}
