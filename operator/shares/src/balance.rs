//! Moves targets from pods with too much to the pod with the least, until all are within the
//! tolerance. It moves as few as it finds: the heaviest that fits into the difference first.
//!
//! A move is made only if the pod that gets the target then has less than the other had. So the sum
//! of squares falls with each move, the least load never falls, and nothing moves back: with the
//! same weights the next decision has nothing to do.

use crate::board::Board;
use crate::decision::Reason;
use crate::level::deviation_permille;

/// How many targets next to the best fit are looked at for zone and job, not below half of it.
const LOOK: usize = 32;

/// Where a pod is too full or too empty, in thousandths of a sample per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) fair: u64,
    /// Over this, targets move away until at most `goal_high` is left.
    pub(crate) high: u64,
    pub(crate) goal_high: u64,
    /// Below this, targets come until there is at least `goal_low`.
    pub(crate) low: u64,
    pub(crate) goal_low: u64,
    /// The cap, unless the fair share is over it: then it can't be kept anywhere.
    pub(crate) cap: u64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All pods are within the tolerance.
    Even,
    /// Some are not, and no move makes it better.
    Stuck,
    /// Some are not, and no moves are left.
    OutOfMoves,
}

pub(crate) fn balance(board: &mut Board, marks: &Marks) -> End {
    let mut broken = vec![false; board.pods()];
    // Donors of which nothing fits on the lightest pod. Its load never falls, so they stay here
    // until they get something.
    let mut stuck = vec![false; board.pods()];
    loop {
        let Some(to) = board.lightest() else { return End::Even };
        let from = match too_full(board, marks, &broken, &stuck) {
            Some(from) => {
                broken[from as usize] = true;
                from
            }
            None if too_empty(board, marks, &broken, to) => {
                broken[to as usize] = true;
                match richest(board, marks, &stuck) {
                    Some(from) => from,
                    None => return end(board, marks),
                }
            }
            None => return end(board, marks),
        };
        if board.moves_left() == 0 {
            return End::OutOfMoves;
        }
        match candidate(board, marks, from, to) {
            Some(target) if from != to => {
                let reason = reason(board, marks, from, to);
                board.give(target, to, reason);
                stuck[to as usize] = false;
            }
            _ => stuck[from as usize] = true,
        }
    }
}

/// A pod with a single target can't have less, so it doesn't count.
fn end(board: &Board, marks: &Marks) -> End {
    let mut full = board.ascending().rev().take_while(|pod| board.load(*pod) > marks.high);
    let empty = board.lightest().is_some_and(|pod| board.load(pod) < marks.low);
    if empty || full.any(|pod| board.targets(pod) > 1) { End::Stuck } else { End::Even }
}

fn too_full(board: &Board, marks: &Marks, broken: &[bool], stuck: &[bool]) -> Option<u32> {
    let full = board.ascending().rev().take_while(|pod| board.load(*pod) > marks.goal_high);
    let mut movable = full.filter(|pod| !stuck[*pod as usize]);
    movable.find(|pod| broken[*pod as usize] || board.load(*pod) > marks.high)
}

fn too_empty(board: &Board, marks: &Marks, broken: &[bool], pod: u32) -> bool {
    let load = board.load(pod);
    load < marks.low || (broken[pod as usize] && load < marks.goal_low)
}

fn richest(board: &Board, marks: &Marks, stuck: &[bool]) -> Option<u32> {
    let rich = board.ascending().rev().take_while(|pod| board.load(*pod) > marks.fair);
    rich.into_iter().find(|pod| !stuck[*pod as usize])
}

/// The target that moves from one pod to another, if any makes it better.
fn candidate(board: &mut Board, marks: &Marks, from: u32, to: u32) -> Option<u32> {
    let (full, empty) = (board.load(from), board.load(to));
    let gap = full.saturating_sub(marks.fair).min(marks.fair.saturating_sub(empty));
    // What makes it better: less than the difference, and no cap broken.
    let most = full.saturating_sub(empty).saturating_sub(1).min(marks.cap.saturating_sub(empty));
    let gap = gap.min(most);
    board.sorted(from);
    let fitting: Vec<(u64, u32)> =
        board.sorted(from).range(..=(gap, u32::MAX)).rev().take(LOOK).copied().collect();
    let Some((heaviest, _)) = fitting.first().copied() else {
        let next = board.sorted(from).range((gap + 1, 0)..).next().copied();
        return next.filter(|(weight, _)| *weight <= most).map(|(_, target)| target);
    };
    let near = fitting.into_iter().take_while(|(weight, _)| weight.saturating_mul(2) >= heaviest);
    // The first of the best: `max_by_key` takes the last.
    let by_score = near.map(|(_, target)| (score(board, target, from, to), target));
    let mut best: Option<(i32, u32)> = None;
    for (score, target) in by_score {
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, target));
        }
    }
    best.map(|(_, target)| target)
}

/// What zone and job gain by a move.
fn score(board: &Board, target: u32, from: u32, to: u32) -> i32 {
    let row = board.rows[target as usize];
    let in_zone = |pod: u32| i32::from(board.zone(pod) == row.zone);
    let apart =
        i32::from(board.crowded(from, row.job)) - i32::from(!board.keeps_apart(to, row.job));
    2 * (in_zone(to) - in_zone(from)) + apart
}

fn reason(board: &Board, marks: &Marks, from: u32, to: u32) -> Reason {
    let (full, empty) = (board.load(from), board.load(to));
    if full > marks.cap {
        return Reason::OverCap { over_permille: deviation_permille(full, marks.cap) };
    }
    Reason::Balance {
        from_permille: deviation_permille(full, marks.fair),
        to_permille: deviation_permille(empty, marks.fair),
    }
}
