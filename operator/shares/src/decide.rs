//! The decision: weights, the fair share, what must be placed, then balance, then preferences.
//! docs/sharing.md has the rule in words. O(n log n) in targets, plus moves times pods.

use std::collections::{BTreeMap, HashMap};

use crate::balance::{End, Marks, balance};
use crate::board::{Board, NONE, Row};
use crate::decision::{Decision, Figures, Placement, PodLoad, Reason};
use crate::level::{above, below, deviation_permille, fair, median, needed_pods};
use crate::pod::{Pod, PodName, PodState};
use crate::policy::{AtCap, Policy};
use crate::prefer::{LOOK, fits, prefer};
use crate::target::{Target, TargetId, Weight};

/// What a decision is made of.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// All targets.
    pub targets: &'a BTreeMap<TargetId, Target>,
    /// All pods, also those that are leaving or gone.
    pub pods: &'a BTreeMap<PodName, Pod>,
    /// Which pod has which target now, also one that is not in `pods` any more.
    pub assigned: &'a BTreeMap<TargetId, PodName>,
    /// What is asked for.
    pub policy: &'a Policy,
}

/// Decides which pod is to have each target.
#[must_use]
pub fn decide(input: &Input<'_>) -> Decision {
    let ready: Vec<(&PodName, &Pod)> =
        input.pods.iter().filter(|(_, pod)| pod.state == PodState::Ready).collect();
    let (rows, jobs, zones) = rows(input, &ready);
    let decided = rows.iter().filter(|row| !row.stays);
    let weights: Vec<u64> = decided.map(|row| row.weight).collect();
    let marks = marks(&weights, ready.len(), input.policy);
    let limits = if input.policy.spread { limits(&rows, jobs, ready.len()) } else { Vec::new() };
    let zone_of = |pod: &Pod| pod.zone.as_deref().and_then(|it| zones.get(it)).copied();
    let pod_zones: Vec<u32> = ready.iter().map(|(_, pod)| zone_of(pod).unwrap_or(NONE)).collect();
    let mut board = Board::new(rows, &pod_zones, zones.len(), limits, input.policy.moves_max);
    board.settle();
    place(&mut board, &marks, input.policy);
    let more_to_move = match balance(&mut board, &marks) {
        End::Even => !prefer(&mut board, &marks),
        End::Stuck => false,
        End::OutOfMoves => true,
    };
    let mut decision = tell(input, &ready, &board, &marks);
    decision.figures.more_to_move = more_to_move;
    if let Some(cap) = input.policy.cap {
        let weights = board.rows.iter().map(|row| row.weight);
        let tolerance = input.policy.tolerance.permille();
        decision.figures.needed_pods = Some(needed_pods(weights, cap.milli(), tolerance));
    }
    decision
}

/// Targets as rows, the number of jobs, and numbers of zones that have ready pods.
fn rows<'a>(
    input: &Input<'a>,
    ready: &[(&'a PodName, &'a Pod)],
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
        let (stays, reason) = first(was.is_some(), state, !ready.is_empty());
        rows.push(Row {
            weight: target.weight.map_or(0, Weight::milli),
            job: *jobs.entry(&target.job).or_insert(next),
            zone: target.zone.as_deref().and_then(|it| zones.get(it)).copied().unwrap_or(NONE),
            at: NONE,
            home,
            stays,
            reason,
        });
    }
    fill(&mut rows, jobs.len());
    (rows, jobs.len(), zones)
}

/// Whether a target stays where it was whatever is decided, and why it is where it is. A pod that
/// starts keeps what it has: the operator may be new and not have heard of it yet. With no pod to
/// go to, targets stay with one that is about to end.
fn first(had_one: bool, state: Option<PodState>, others: bool) -> (bool, Reason) {
    match state {
        _ if !had_one => (false, Reason::New),
        Some(PodState::Ready) => (false, Reason::Kept),
        Some(PodState::Starting) => (true, Reason::Kept),
        Some(PodState::Leaving) if !others => (true, Reason::Kept),
        Some(PodState::Leaving) => (false, Reason::PodLeaving),
        Some(PodState::Gone) | None => (false, Reason::PodGone),
    }
}

/// Gives targets that aren't measured the median of their job, or else of all.
fn fill(rows: &mut [Row], jobs: usize) {
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

fn marks(weights: &[u64], pods: usize, policy: &Policy) -> Marks {
    let fair = fair(weights, pods);
    let tolerance = policy.tolerance.permille();
    // A cap below the fair share can't be kept by moving: then the excess is spread evenly.
    let cap = policy.cap.map(Weight::milli).filter(|cap| *cap >= fair).unwrap_or(u64::MAX);
    Marks {
        fair,
        high: above(fair, tolerance).min(cap),
        goal_high: above(fair, tolerance / 2).min(cap),
        low: below(fair, tolerance),
        goal_low: below(fair, tolerance / 2),
        cap,
    }
}

/// How many targets of each job a pod may have: twice the mean, rounded up.
fn limits(rows: &[Row], jobs: usize, pods: usize) -> Vec<u32> {
    let mut counts = vec![0u32; jobs];
    for row in rows.iter().filter(|row| !row.stays) {
        counts[row.job as usize] += 1;
    }
    let pods = u32::try_from(pods.max(1)).unwrap_or(u32::MAX);
    counts.into_iter().map(|count| count.saturating_mul(2).div_ceil(pods)).collect()
}

/// Places what no working pod has, the heaviest first.
fn place(board: &mut Board, marks: &Marks, policy: &Policy) {
    let rows = &board.rows;
    let homeless = |row: &Row| row.at == NONE && !row.stays;
    let mut homeless: Vec<u32> =
        (0..rows.len() as u32).filter(|it| homeless(&rows[*it as usize])).collect();
    // Stable: those of one weight stay in the order of their ids.
    homeless.sort_by_key(|target| std::cmp::Reverse(rows[*target as usize].weight));
    let cap = policy.cap.map_or(u64::MAX, Weight::milli);
    for target in homeless {
        let row = board.rows[target as usize];
        let Some(lightest) = board.lightest() else {
            board.rows[target as usize].reason = Reason::NoPod;
            continue;
        };
        let leaves_out = policy.at_cap == AtCap::LeaveOut && row.reason == Reason::New;
        if leaves_out && board.load(lightest).saturating_add(row.weight) > cap {
            board.rows[target as usize].reason = Reason::CapReached;
            continue;
        }
        let pod = preferred(board, marks, cap, &row).unwrap_or(lightest);
        board.give(target, pod, row.reason);
    }
}

/// One of the lightest pods: of its zone, without too many of its job, if that keeps the load even.
fn preferred(board: &Board, marks: &Marks, cap: u64, row: &Row) -> Option<u32> {
    let fits = |pod: &u32| fits(board, marks.goal_high.min(cap), *pod, row.weight);
    let apart = |pod: &u32| board.keeps_apart(*pod, row.job);
    let in_zone = || board.ascending_in(row.zone).take(LOOK).filter(fits);
    let anywhere = || board.ascending().take(LOOK).filter(fits);
    in_zone().find(apart).or_else(|| in_zone().next()).or_else(|| anywhere().find(apart))
}

fn tell(input: &Input<'_>, ready: &[(&PodName, &Pod)], board: &Board, marks: &Marks) -> Decision {
    let mut figures = Figures { fair_millisamples_per_second: marks.fair, ..Figures::default() };
    let mut assigned = input.assigned.iter().peekable();
    let placements = input.targets.keys().zip(&board.rows).map(|(id, row)| {
        while assigned.next_if(|(other, _)| *other < id).is_some() {}
        let was = assigned.next_if(|(other, _)| *other == id).map(|(_, pod)| pod);
        let placement = placement(ready, row, was);
        count(&mut figures, row, &placement);
        (*id, placement)
    });
    let placements = placements.collect();
    let cap = input.policy.cap.map_or(u64::MAX, Weight::milli);
    let mut pods = BTreeMap::new();
    for ((name, _), pod) in ready.iter().zip(0..) {
        let (load, targets) = (board.load(pod), board.targets(pod));
        let over_cap = load > cap;
        figures.pods_over_cap += u64::from(over_cap);
        if targets != 1 || load <= marks.fair {
            let permille = deviation_permille(load, marks.fair);
            figures.imbalance_permille = figures.imbalance_permille.max(permille);
        }
        let load = PodLoad { millisamples_per_second: load, targets, over_cap };
        pods.insert((*name).clone(), load);
    }
    Decision { placements, pods, figures }
}

fn placement(ready: &[(&PodName, &Pod)], row: &Row, was: Option<&PodName>) -> Placement {
    let weight = Weight::new(row.weight);
    let at = ready.get(row.at as usize).map(|(name, _)| (*name).clone());
    if at.is_some() {
        let from = was.filter(|_| row.at != row.home).cloned();
        return Placement { pod: at, from, weight, reason: row.reason };
    }
    match was.filter(|_| row.stays) {
        Some(name) => {
            Placement { pod: Some(name.clone()), from: None, weight, reason: Reason::Kept }
        }
        None => Placement { pod: None, from: was.cloned(), weight, reason: row.reason },
    }
}

fn count(figures: &mut Figures, row: &Row, placement: &Placement) {
    match placement {
        Placement { pod: None, .. } => figures.left_out += 1,
        Placement { from: Some(_), .. } if row.home != NONE => {
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
