//! The state of one decision: which target is where, what each pod has, how many moves are left.
//! Targets and pods are numbers here, in the order of their ids and names. It keeps sums and
//! indexes right; the rules are in `decide`, `balance` and `prefer`.
//!
//! A list of a pod's targets by weight is made when one is first taken from it: most decisions take
//! from few pods.

use std::collections::{BTreeSet, HashMap};

use crate::decision::Reason;

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
    /// It stays with a pod that isn't ready: it is no part of what is decided.
    pub(crate) stays: bool,
    pub(crate) reason: Reason,
}

/// A pod's targets: `sorted` by weight as soon as one was taken, `unsorted` until then.
#[derive(Debug)]
struct List {
    unsorted: Vec<u32>,
    sorted: Option<BTreeSet<(u64, u32)>>,
}

/// A ready pod.
#[derive(Debug)]
struct Column {
    load: u64,
    targets: u64,
    zone: u32,
    list: List,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) rows: Vec<Row>,
    columns: Vec<Column>,
    by_load: BTreeSet<(u64, u32)>,
    by_zone: Vec<BTreeSet<(u64, u32)>>,
    /// Targets of a job on a pod, and how many are too many. Empty where nobody asks.
    of_job: HashMap<(u32, u32), u32>,
    job_limits: Vec<u32>,
    moves_left: u32,
}

impl Board {
    /// Nothing placed; `zones` has the zone of each pod, `job_limits` is empty where jobs aren't
    /// kept apart.
    pub(crate) fn new(
        rows: Vec<Row>,
        zones: &[u32],
        zone_count: usize,
        job_limits: Vec<u32>,
        moves_max: u32,
    ) -> Self {
        let room = rows.len() / zones.len().max(1) + 1;
        let column = |zone: &u32| Column {
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
            moves_left: moves_max,
            rows,
        }
    }

    /// Puts those that stay where they were. Once, before anything else.
    pub(crate) fn settle(&mut self) {
        for target in 0..self.rows.len() as u32 {
            let row = self.rows[target as usize];
            if row.home != NONE {
                self.add(target, row.home);
            }
        }
        for pod in 0..self.columns.len() as u32 {
            self.index(pod);
        }
    }

    pub(crate) fn pods(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn load(&self, pod: u32) -> u64 {
        self.columns[pod as usize].load
    }

    pub(crate) fn targets(&self, pod: u32) -> u64 {
        self.columns[pod as usize].targets
    }

    pub(crate) fn zone(&self, pod: u32) -> u32 {
        self.columns[pod as usize].zone
    }

    pub(crate) fn moves_left(&self) -> u32 {
        self.moves_left
    }

    /// The pod with the least.
    pub(crate) fn lightest(&self) -> Option<u32> {
        self.by_load.first().map(|(_, pod)| *pod)
    }

    /// Pods from the least load on.
    pub(crate) fn ascending(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.by_load.iter().map(|(_, pod)| *pod)
    }

    /// Those of a zone.
    pub(crate) fn ascending_in(&self, zone: u32) -> impl Iterator<Item = u32> {
        self.by_zone.get(zone as usize).into_iter().flatten().map(|(_, pod)| *pod)
    }

    /// Whether one more target of the job is not too many.
    pub(crate) fn keeps_apart(&self, pod: u32, job: u32) -> bool {
        self.excess(pod, job, 1)
    }

    /// Whether the pod has too many targets of the job.
    pub(crate) fn crowded(&self, pod: u32, job: u32) -> bool {
        !self.excess(pod, job, 0)
    }

    fn excess(&self, pod: u32, job: u32, more: u32) -> bool {
        let Some(limit) = self.job_limits.get(job as usize) else { return true };
        self.of_job.get(&(pod, job)).copied().unwrap_or(0).saturating_add(more) <= *limit
    }

    /// A pod's targets by weight.
    pub(crate) fn sorted(&mut self, pod: u32) -> &BTreeSet<(u64, u32)> {
        let List { unsorted, sorted } = &mut self.columns[pod as usize].list;
        let rows = &self.rows;
        sorted.get_or_insert_with(|| {
            let targets = std::mem::take(unsorted);
            targets.into_iter().map(|it| (rows[it as usize].weight, it)).collect()
        })
    }

    /// Gives a target to a pod. Leaving the pod that had it before costs a move, returning there
    /// gives it back. The reason is of those that had a working pod; others keep theirs.
    pub(crate) fn give(&mut self, target: u32, pod: u32, reason: Reason) {
        let row = self.rows[target as usize];
        if row.at != NONE {
            self.take(target);
            if row.at == row.home {
                self.moves_left = self.moves_left.saturating_sub(1);
            }
        }
        self.add(target, pod);
        self.index(pod);
        let row = &mut self.rows[target as usize];
        if row.home == pod {
            self.moves_left += 1;
            row.reason = Reason::Kept;
        } else if row.home != NONE {
            row.reason = reason;
        }
    }

    fn take(&mut self, target: u32) {
        let row = self.rows[target as usize];
        let pod = row.at;
        self.unindex(pod);
        self.sorted(pod);
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
        self.index(pod);
    }

    /// Without the indexes.
    fn add(&mut self, target: u32, pod: u32) {
        self.unindex(pod);
        let row = &mut self.rows[target as usize];
        row.at = pod;
        let column = &mut self.columns[pod as usize];
        column.load += row.weight;
        column.targets += 1;
        match &mut column.list.sorted {
            None => column.list.unsorted.push(target),
            Some(sorted) => {
                sorted.insert((row.weight, target));
            }
        }
        if !self.job_limits.is_empty() {
            *self.of_job.entry((pod, row.job)).or_insert(0) += 1;
        }
    }

    fn index(&mut self, pod: u32) {
        let column = &self.columns[pod as usize];
        self.by_load.insert((column.load, pod));
        if let Some(zone) = self.by_zone.get_mut(column.zone as usize) {
            zone.insert((column.load, pod));
        }
    }

    fn unindex(&mut self, pod: u32) {
        let column = &self.columns[pod as usize];
        if self.by_load.remove(&(column.load, pod))
            && let Some(zone) = self.by_zone.get_mut(column.zone as usize)
        {
            zone.remove(&(column.load, pod));
        }
    }
}
