//! Moves targets into their zones, and away from pods that have too many of their job, once the
//! load is even. Moves stay within half the tolerance on both sides, so that none makes another for
//! balance necessary. A move for a zone crowds no pod, and a move for a job leaves no zone: nothing
//! moves back.

use crate::assignment::{Assignment, NONE};
use crate::balance::LoadMarks;
use crate::decision::PlacementReason;

/// How many of the lightest pods are checked.
pub(crate) const PODS_CHECKED_MAX: usize = 8;
/// One move may enable another, so all targets are checked again after a pass with moves.
const PASSES_MAX: u32 = 8;

/// Returns whether all possible moves were made.
pub(crate) fn apply_preferences(assignment: &mut Assignment, marks: &LoadMarks) -> bool {
    for _ in 0..PASSES_MAX {
        let mut moved = false;
        for target in 0..assignment.rows.len() as u32 {
            let Some((pod, reason)) = better_pod(assignment, marks, target) else { continue };
            if assignment.moves_left() == 0 {
                return false;
            }
            assignment.assign_target(target, pod, reason);
            moved = true;
        }
        if !moved {
            break;
        }
    }
    true
}

/// Returns whether a pod stays below a mark with this target too. An empty pod always does: some
/// pod must have a target that is heavier than the fair share.
pub(crate) fn fits_below(assignment: &Assignment, mark: u64, pod: u32, weight: u64) -> bool {
    let load = assignment.pod_load(pod);
    assignment.has_capacity(pod) && (load == 0 || load.saturating_add(weight) <= mark)
}

/// Returns the pod that a target prefers to its present one, if any.
fn better_pod(
    assignment: &Assignment,
    marks: &LoadMarks,
    target: u32,
) -> Option<(u32, PlacementReason)> {
    let row = assignment.rows[target as usize];
    if row.at == NONE || (row.pinned && row.at == row.home) {
        return None;
    }
    let left = assignment.pod_load(row.at) - row.weight;
    let least = assignment.lightest_pod().map_or(0, |pod| assignment.pod_load(pod));
    if left < marks.goal_low || left < least {
        return None;
    }
    let takes = |pod: &u32| {
        *pod != row.at
            && fits_below(assignment, marks.goal_high, *pod, row.weight)
            && assignment.has_job_capacity(*pod, row.job)
    };
    let at_home = row.zone != NONE && assignment.pod_zone(row.at) == row.zone;
    if row.zone != NONE
        && !at_home
        && let Some(pod) = assignment.zone_pods_by_load(row.zone).take(PODS_CHECKED_MAX).find(takes)
    {
        return Some((pod, PlacementReason::Zone));
    }
    if !assignment.is_crowded(row.at, row.job) {
        return None;
    }
    let pod = match at_home {
        true => assignment.zone_pods_by_load(row.zone).take(PODS_CHECKED_MAX).find(takes),
        false => assignment.pods_by_load().take(PODS_CHECKED_MAX).find(takes),
    };
    pod.map(|pod| (pod, PlacementReason::Spread))
}
