//! Moves targets from overloaded pods to the lightest pod, until all are within the tolerance. To
//! move few, it picks the heaviest target that fits into the difference first.
//!
//! A move is made only if the receiving pod then has less than the other had. So the sum of squares
//! falls with each move, the lowest load never falls, and nothing moves back: with the same weights
//! the next decision makes no moves.

use crate::assignment::Assignment;
use crate::decision::PlacementReason;
use crate::level::deviation_permille;

/// How many targets next to the best fit are compared by zone and job, not below half of it.
const CANDIDATES_MAX: usize = 32;

/// Loads at which a pod is too full or too empty, in thousandths of a sample per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadMarks {
    pub(crate) fair: u64,
    /// Above this, targets leave until at most `goal_high` is left.
    pub(crate) high: u64,
    pub(crate) goal_high: u64,
    /// Below this, targets are added until there is at least `goal_low`.
    pub(crate) low: u64,
    pub(crate) goal_low: u64,
    /// The cap, unless the fair share exceeds it: then no pod can stay below it.
    pub(crate) cap: u64,
}

/// The outcome of balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BalanceOutcome {
    /// All pods are within the tolerance.
    Even,
    /// Some are not, and no move improves them.
    Stuck,
    /// Some are not, and no moves are left.
    OutOfMoves,
}

pub(crate) fn balance_load(assignment: &mut Assignment, marks: &LoadMarks) -> BalanceOutcome {
    let mut broken = vec![false; assignment.pod_count()];
    // Donors none of whose targets fits on the lightest pod. Its load never falls, so they stay
    // here until they get a target.
    let mut stuck = vec![false; assignment.pod_count()];
    loop {
        let Some(to) = assignment.lightest_pod() else { return BalanceOutcome::Even };
        let from = match too_full(assignment, marks, &broken, &stuck) {
            Some(from) => {
                broken[from as usize] = true;
                from
            }
            None if too_empty(assignment, marks, &broken, to) => {
                broken[to as usize] = true;
                match heaviest_donor(assignment, marks, &stuck) {
                    Some(from) => from,
                    None => return balance_outcome(assignment, marks),
                }
            }
            None => return balance_outcome(assignment, marks),
        };
        if assignment.moves_left() == 0 {
            return BalanceOutcome::OutOfMoves;
        }
        match target_to_move(assignment, marks, from, to) {
            Some(target) if from != to => {
                let reason = move_reason(assignment, marks, from, to);
                assignment.assign_target(target, to, reason);
                stuck[to as usize] = false;
            }
            _ => stuck[from as usize] = true,
        }
    }
}

/// A pod with a single target can't have less, so it doesn't count.
fn balance_outcome(assignment: &Assignment, marks: &LoadMarks) -> BalanceOutcome {
    let mut full =
        assignment.pods_by_load().rev().take_while(|pod| assignment.pod_load(*pod) > marks.high);
    let empty = assignment.lightest_pod().is_some_and(|pod| assignment.pod_load(pod) < marks.low);
    if empty || full.any(|pod| assignment.target_count(pod) > 1) {
        BalanceOutcome::Stuck
    } else {
        BalanceOutcome::Even
    }
}

fn too_full(
    assignment: &Assignment,
    marks: &LoadMarks,
    broken: &[bool],
    stuck: &[bool],
) -> Option<u32> {
    let full = assignment
        .pods_by_load()
        .rev()
        .take_while(|pod| assignment.pod_load(*pod) > marks.goal_high);
    let mut movable = full.filter(|pod| !stuck[*pod as usize]);
    movable.find(|pod| broken[*pod as usize] || assignment.pod_load(*pod) > marks.high)
}

fn too_empty(assignment: &Assignment, marks: &LoadMarks, broken: &[bool], pod: u32) -> bool {
    let load = assignment.pod_load(pod);
    load < marks.low || (broken[pod as usize] && load < marks.goal_low)
}

fn heaviest_donor(assignment: &Assignment, marks: &LoadMarks, stuck: &[bool]) -> Option<u32> {
    let rich =
        assignment.pods_by_load().rev().take_while(|pod| assignment.pod_load(*pod) > marks.fair);
    rich.into_iter().find(|pod| !stuck[*pod as usize])
}

/// Returns the target whose move from one pod to another improves the balance, if any does.
fn target_to_move(
    assignment: &mut Assignment,
    marks: &LoadMarks,
    from: u32,
    to: u32,
) -> Option<u32> {
    let (full, empty) = (assignment.pod_load(from), assignment.pod_load(to));
    let gap = full.saturating_sub(marks.fair).min(marks.fair.saturating_sub(empty));
    // An improvement is less than the difference and exceeds no cap.
    let most = full.saturating_sub(empty).saturating_sub(1).min(marks.cap.saturating_sub(empty));
    let gap = gap.min(most);
    assignment.targets_by_weight(from);
    let fitting: Vec<(u64, u32)> = assignment
        .targets_by_weight(from)
        .range(..=(gap, u32::MAX))
        .rev()
        .take(CANDIDATES_MAX)
        .copied()
        .collect();
    let Some((heaviest, _)) = fitting.first().copied() else {
        let next = assignment.targets_by_weight(from).range((gap + 1, 0)..).next().copied();
        return next.filter(|(weight, _)| *weight <= most).map(|(_, target)| target);
    };
    let near = fitting.into_iter().take_while(|(weight, _)| weight.saturating_mul(2) >= heaviest);
    // Picks the first of the best: `max_by_key` would pick the last.
    let by_score = near.map(|(_, target)| (move_score(assignment, target, from, to), target));
    let mut best: Option<(i32, u32)> = None;
    for (score, target) in by_score {
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, target));
        }
    }
    best.map(|(_, target)| target)
}

/// Scores the gain of a move for zone and job.
fn move_score(assignment: &Assignment, target: u32, from: u32, to: u32) -> i32 {
    let row = assignment.rows[target as usize];
    let in_zone = |pod: u32| i32::from(assignment.pod_zone(pod) == row.zone);
    let spread = i32::from(assignment.is_crowded(from, row.job))
        - i32::from(!assignment.has_job_capacity(to, row.job));
    2 * (in_zone(to) - in_zone(from)) + spread
}

fn move_reason(assignment: &Assignment, marks: &LoadMarks, from: u32, to: u32) -> PlacementReason {
    let (full, empty) = (assignment.pod_load(from), assignment.pod_load(to));
    if full > marks.cap {
        return PlacementReason::OverCapacity {
            over_permille: deviation_permille(full, marks.cap),
        };
    }
    PlacementReason::Balance {
        from_permille: deviation_permille(full, marks.fair),
        to_permille: deviation_permille(empty, marks.fair),
    }
}
