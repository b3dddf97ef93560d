//! Moves targets into their zones, and away from pods that have too many of their job, once the
//! load is even. Only within half the tolerance on both sides, so that no move here makes one for
//! balance necessary. A move for a zone crowds no pod, one for a job leaves no zone: nothing moves
//! back.

use crate::balance::Marks;
use crate::board::{Board, NONE};
use crate::decision::Reason;

/// How many of the lightest pods are looked at.
pub(crate) const LOOK: usize = 8;
/// One move may make room for another, so all targets are looked at again after a pass with moves.
const PASSES_MAX: u32 = 8;

/// Whether all that could move did.
pub(crate) fn prefer(board: &mut Board, marks: &Marks) -> bool {
    for _ in 0..PASSES_MAX {
        let mut moved = false;
        for target in 0..board.rows.len() as u32 {
            let Some((pod, reason)) = better(board, marks, target) else { continue };
            if board.moves_left() == 0 {
                return false;
            }
            board.give(target, pod, reason);
            moved = true;
        }
        if !moved {
            break;
        }
    }
    true
}

/// Whether a pod with this target too stays below a mark. One that has nothing always does: a
/// target that is heavier than the fair share has to be somewhere.
pub(crate) fn fits(board: &Board, mark: u64, pod: u32, weight: u64) -> bool {
    let load = board.load(pod);
    load == 0 || load.saturating_add(weight) <= mark
}

/// Where a target should rather be.
fn better(board: &Board, marks: &Marks, target: u32) -> Option<(u32, Reason)> {
    let row = board.rows[target as usize];
    if row.at == NONE {
        return None;
    }
    let left = board.load(row.at) - row.weight;
    let least = board.lightest().map_or(0, |pod| board.load(pod));
    if left < marks.goal_low || left < least {
        return None;
    }
    let takes = |pod: &u32| {
        *pod != row.at
            && fits(board, marks.goal_high, *pod, row.weight)
            && board.keeps_apart(*pod, row.job)
    };
    let at_home = row.zone != NONE && board.zone(row.at) == row.zone;
    if row.zone != NONE
        && !at_home
        && let Some(pod) = board.ascending_in(row.zone).take(LOOK).find(takes)
    {
        return Some((pod, Reason::Zone));
    }
    if !board.crowded(row.at, row.job) {
        return None;
    }
    let pod = match at_home {
        true => board.ascending_in(row.zone).take(LOOK).find(takes),
        false => board.ascending().take(LOOK).find(takes),
    };
    pod.map(|pod| (pod, Reason::Spread))
}
