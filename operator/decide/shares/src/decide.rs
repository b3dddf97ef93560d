//! The decision: weights, the fair share, required placements, then balance, then preferences.
//! docs/internals/sharing/rule.md has the rule in words. O(n log n) in targets, plus moves times
//! pods.

use std::collections::{BTreeMap, HashMap};

use millrace_share_documents::{PodName, TargetId, Weight};

use crate::assignment::{Assignment, NONE, Row};
use crate::balance::{BalanceOutcome, LoadMarks, balance_load};
use crate::decision::{Decision, DecisionFigures, Placement, PlacementReason, PodLoad};
use crate::level::{
    deviation_permille, fair_share, median, minus_permille, needed_pods, plus_permille,
};
use crate::pod::{CandidatePod, PodState};
use crate::policy::{OverflowPolicy, SharingPolicy};
use crate::prefer::{PODS_CHECKED_MAX, apply_preferences, fits_below};
use crate::target::Target;

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInput<'a> {
    /// All targets.
    pub targets: &'a BTreeMap<TargetId, Target>,
    /// All pods, also those that are leaving or gone.
    pub pods: &'a BTreeMap<PodName, CandidatePod>,
    /// The present pod of each target, even one that is no longer in `pods`.
    pub assigned: &'a BTreeMap<TargetId, PodName>,
    /// The policy.
    pub policy: &'a SharingPolicy,
}

/// Decides which pod is to have each target.
#[must_use]
pub fn assign_targets(input: &DecisionInput<'_>) -> Decision {
    let ready: Vec<(&PodName, &CandidatePod)> =
        input.pods.iter().filter(|(_, pod)| pod.state == PodState::Ready).collect();
    let (rows, jobs, zones) = build_rows(input, &ready);
    let decided = rows.iter().filter(|row| !row.stays);
    let weights: Vec<u64> = decided.map(|row| row.weight).collect();
    let marks = compute_marks(&weights, ready.len(), input.policy);
    let limits =
        if input.policy.spread { job_limits(&rows, jobs, ready.len()) } else { Vec::new() };
    let zone_of = |pod: &CandidatePod| pod.zone.as_deref().and_then(|it| zones.get(it)).copied();
    let pod_zones: Vec<u32> = ready.iter().map(|(_, pod)| zone_of(pod).unwrap_or(NONE)).collect();
    let mut assignment = Assignment::new(rows, &pod_zones, zones.len(), limits, input.policy);
    assignment.retain_previous();
    assign_remaining(&mut assignment, &marks, input.policy);
    let more_to_move = match balance_load(&mut assignment, &marks) {
        BalanceOutcome::Even => !apply_preferences(&mut assignment, &marks),
        BalanceOutcome::Stuck => false,
        BalanceOutcome::OutOfMoves => true,
    };
    let mut decision = build_decision(input, &ready, &assignment, &marks);
    decision.figures.more_to_move = more_to_move;
    let weights = assignment.rows.iter().map(|row| row.weight);
    decision.figures.needed_pods = needed_pods(weights, input.policy);
    decision
}

/// Returns targets as rows, the number of jobs, and the numbers of zones that have ready pods.
fn build_rows<'a>(
    input: &DecisionInput<'a>,
    ready: &[(&'a PodName, &'a CandidatePod)],
) -> (Vec<Row>, usize, HashMap<&'a str, u32>) {
    let mut zones = HashMap::new();
    if input.policy.zones {
        for zone in ready.iter().filter_map(|(_, pod)| pod.zone.as_deref()) {
            let next = zones.len() as u32;
            zones.entry(zone).or_insert(next);
        }
    }
    let numbers: HashMap<&str, u32> =
        ready.iter().zip(0..).map(|((name, _), number)| (name.as_str(), number)).collect();
    let mut jobs: HashMap<&str, u32> = HashMap::new();
    let mut assigned = input.assigned.iter().peekable();
    let mut rows = Vec::with_capacity(input.targets.len());
    for (id, target) in input.targets {
        while assigned.next_if(|(other, _)| *other < id).is_some() {}
        let was = assigned.next_if(|(other, _)| *other == id).map(|(_, pod)| pod.as_str());
        let home = was.and_then(|name| numbers.get(name)).copied().unwrap_or(NONE);
        let next = jobs.len() as u32;
        let state = was.and_then(|name| input.pods.get(name)).map(|pod| pod.state);
        let (stays, reason) = initial_placement(was.is_some(), state, !ready.is_empty());
        rows.push(Row {
            weight: target.weight.map_or(0, Weight::milli),
            job: *jobs.entry(&target.job).or_insert(next),
            zone: target.zone.as_deref().and_then(|it| zones.get(it)).copied().unwrap_or(NONE),
            at: NONE,
            home,
            stays,
            pinned: target.awaits_scrape,
            reason,
        });
    }
    fill_missing_weights(&mut rows, jobs.len());
    (rows, jobs.len(), zones)
}

/// Returns whether a target stays regardless of the decision, and the reason. A starting pod
/// retains its targets: the operator may be new and not have heard from it yet. So does a pod that
/// lives and can't be reached. Without another pod, targets stay with one that is about to end or
/// that may be dead, because it may be alive.
fn initial_placement(
    had_one: bool,
    state: Option<PodState>,
    others: bool,
) -> (bool, PlacementReason) {
    match state {
        _ if !had_one => (false, PlacementReason::New),
        Some(PodState::Ready) => (false, PlacementReason::Unchanged),
        Some(PodState::Starting | PodState::Unreachable) => (true, PlacementReason::Unchanged),
        Some(PodState::Leaving | PodState::Silent) if !others => (true, PlacementReason::Unchanged),
        Some(PodState::Leaving) => (false, PlacementReason::PodLeaving),
        Some(PodState::Silent | PodState::Ended) | None => (false, PlacementReason::PodGone),
    }
}

/// Gives targets that aren't measured the median of their job, or else of all.
fn fill_missing_weights(rows: &mut [Row], jobs: usize) {
    if rows.iter().all(|row| row.weight > 0) {
        return;
    }
    let mut measured: Vec<Vec<u64>> = vec![Vec::new(); jobs];
    let mut all = Vec::with_capacity(rows.len());
    for row in rows.iter().filter(|row| row.weight > 0) {
        measured[row.job as usize].push(row.weight);
        all.push(row.weight);
    }
    let of_all = median(&mut all).unwrap_or(Weight::UNKNOWN.milli());
    let of_jobs: Vec<u64> =
        measured.iter_mut().map(|weights| median(weights).unwrap_or(of_all)).collect();
    for row in rows.iter_mut().filter(|row| row.weight == 0) {
        row.weight = of_jobs[row.job as usize];
    }
}

fn compute_marks(weights: &[u64], pods: usize, policy: &SharingPolicy) -> LoadMarks {
    let fair = fair_share(weights, pods);
    let tolerance = policy.tolerance.permille();
    // No move can satisfy a cap below the fair share: then the excess is spread evenly.
    let cap = policy.cap.map(Weight::milli).filter(|cap| *cap >= fair).unwrap_or(u64::MAX);
    LoadMarks {
        fair,
        high: plus_permille(fair, tolerance).min(cap),
        goal_high: plus_permille(fair, tolerance / 2).min(cap),
        low: minus_permille(fair, tolerance),
        goal_low: minus_permille(fair, tolerance / 2),
        cap,
    }
}

/// Returns how many targets of each job a pod may have: twice the mean, rounded up.
fn job_limits(rows: &[Row], jobs: usize, pods: usize) -> Vec<u32> {
    let mut counts = vec![0u32; jobs];
    for row in rows.iter().filter(|row| !row.stays) {
        counts[row.job as usize] += 1;
    }
    let pods = u32::try_from(pods.max(1)).unwrap_or(u32::MAX);
    counts.into_iter().map(|count| count.saturating_mul(2).div_ceil(pods)).collect()
}

/// Places targets that no working pod has, the heaviest first.
fn assign_remaining(assignment: &mut Assignment, marks: &LoadMarks, policy: &SharingPolicy) {
    let rows = &assignment.rows;
    let homeless = |row: &Row| row.at == NONE && !row.stays;
    let mut homeless: Vec<u32> =
        (0..rows.len() as u32).filter(|it| homeless(&rows[*it as usize])).collect();
    // The sort is stable: targets of one weight stay in the order of their ids.
    homeless.sort_by_key(|target| std::cmp::Reverse(rows[*target as usize].weight));
    let cap = policy.cap.map_or(u64::MAX, Weight::milli);
    for target in homeless {
        let row = assignment.rows[target as usize];
        let Some(lightest) = assignment.lightest_pod() else {
            let reason = if assignment.pod_count() == 0 {
                PlacementReason::NoPod
            } else {
                PlacementReason::PodsFull
            };
            assignment.rows[target as usize].reason = reason;
            continue;
        };
        let leaves_out =
            policy.overflow_policy == OverflowPolicy::Wait && row.reason == PlacementReason::New;
        if leaves_out && assignment.pod_load(lightest).saturating_add(row.weight) > cap {
            assignment.rows[target as usize].reason = PlacementReason::CapacityReached;
            continue;
        }
        let pod = preferred_pod(assignment, marks, cap, &row).unwrap_or(lightest);
        assignment.assign_target(target, pod, row.reason);
    }
}

/// Returns one of the lightest pods, in the target's zone and without too many of its job, if that
/// keeps the load even.
fn preferred_pod(assignment: &Assignment, marks: &LoadMarks, cap: u64, row: &Row) -> Option<u32> {
    let fits = |pod: &u32| fits_below(assignment, marks.goal_high.min(cap), *pod, row.weight);
    let has_capacity = |pod: &u32| assignment.has_job_capacity(*pod, row.job);
    let in_zone = || assignment.zone_pods_by_load(row.zone).take(PODS_CHECKED_MAX).filter(fits);
    let anywhere = || assignment.pods_by_load().take(PODS_CHECKED_MAX).filter(fits);
    in_zone()
        .find(has_capacity)
        .or_else(|| in_zone().next())
        .or_else(|| anywhere().find(has_capacity))
}

fn build_decision(
    input: &DecisionInput<'_>,
    ready: &[(&PodName, &CandidatePod)],
    assignment: &Assignment,
    marks: &LoadMarks,
) -> Decision {
    let mut figures =
        DecisionFigures { fair_millisamples_per_second: marks.fair, ..DecisionFigures::default() };
    let mut assigned = input.assigned.iter().peekable();
    let placements = input.targets.keys().zip(&assignment.rows).map(|(id, row)| {
        while assigned.next_if(|(other, _)| *other < id).is_some() {}
        let was = assigned.next_if(|(other, _)| *other == id).map(|(_, pod)| pod);
        let placement = row_placement(ready, row, was);
        count_placement(&mut figures, row, &placement);
        (*id, placement)
    });
    let placements = placements.collect();
    let cap = input.policy.cap.map_or(u64::MAX, Weight::milli);
    let mut pods = BTreeMap::new();
    for ((name, _), pod) in ready.iter().zip(0..) {
        let (load, targets) = (assignment.pod_load(pod), assignment.target_count(pod));
        let over_cap = load > cap;
        figures.pods_over_capacity += u64::from(over_cap);
        if targets != 1 || load <= marks.fair {
            let permille = deviation_permille(load, marks.fair);
            figures.imbalance_permille = figures.imbalance_permille.max(permille);
        }
        let load = PodLoad { millisamples_per_second: load, targets, over_cap };
        pods.insert((*name).clone(), load);
    }
    Decision { placements, pods, figures }
}

fn row_placement(
    ready: &[(&PodName, &CandidatePod)],
    row: &Row,
    was: Option<&PodName>,
) -> Placement {
    let weight = Weight::new(row.weight);
    let at = ready.get(row.at as usize).map(|(name, _)| (*name).clone());
    if at.is_some() {
        let from = was.filter(|_| row.at != row.home).cloned();
        return Placement { pod: at, from, weight, reason: row.reason };
    }
    match was.filter(|_| row.stays) {
        Some(name) => Placement {
            pod: Some(name.clone()),
            from: None,
            weight,
            reason: PlacementReason::Unchanged,
        },
        None => Placement { pod: None, from: was.cloned(), weight, reason: row.reason },
    }
}

fn count_placement(figures: &mut DecisionFigures, row: &Row, placement: &Placement) {
    match placement {
        Placement { pod: None, .. } => figures.unplaced += 1,
        Placement { from: Some(_), .. }
            if row.home != NONE && row.reason != PlacementReason::PodFull =>
        {
            figures.moved += 1;
            figures.moved_millisamples_per_second += row.weight;
        }
        Placement { from: Some(_), .. } => {
            figures.rescued += 1;
            figures.rescued_millisamples_per_second += row.weight;
        }
        Placement { .. } => {}
    }
}
