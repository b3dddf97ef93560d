//! Whether operations that overlap can be placed one after the other: the search of Wing and Gong,
//! with Lowe's memory of what was tried.
//!
//! An operation may come next if no other that must be placed has ended before it began. What was
//! placed, with the state that it led to, is remembered, so that no such pair is looked at twice.

use std::collections::HashSet;
use std::hash::Hash;

use crate::history::Stamp;

/// Something to be placed.
#[derive(Debug, Clone)]
pub(crate) struct Step<T> {
    pub(crate) begun: Stamp,
    /// `None`: it may come at any later time.
    pub(crate) ended: Option<Stamp>,
    /// Whether it may also never come.
    pub(crate) optional: bool,
    pub(crate) what: T,
}

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is an order.
    Order,
    /// There is none; this step, by its place in what was given, is the first to end of those that
    /// the longest try left over.
    None { stuck: usize },
    /// The budget is spent.
    Spent,
}

/// Looks for an order of `steps`, from the state `start`. `apply` gives the state after a step, or
/// none where it can't come. Takes from `budget` what it uses.
pub(crate) fn order<T, S: Clone + Eq + Hash>(
    steps: &[Step<T>],
    start: S,
    apply: impl Fn(&S, &T) -> Option<S>,
    budget: &mut u64,
) -> Found {
    let mut by_begin: Vec<usize> = (0..steps.len()).collect();
    by_begin.sort_by_key(|place| steps.get(*place).map(|step| step.begun));
    let sorted: Vec<&Step<T>> = by_begin.iter().filter_map(|place| steps.get(*place)).collect();
    let mut placed = Placed::new(sorted.len());
    let mut tried: HashSet<(Vec<u64>, S)> = HashSet::new();
    // What was placed, with the state before it.
    let mut path: Vec<(usize, S)> = Vec::new();
    let mut state = start;
    let mut from = 0;
    let mut left_over = (usize::MAX, 0);
    loop {
        let Some(deadline) = deadline(&sorted, &placed) else {
            return Found::Order;
        };
        let rest = sorted.len() - path.len();
        if rest < left_over.0 {
            left_over = (rest, deadline.1);
        }
        let mut next = None;
        for place in candidates(&sorted, &placed, deadline.0, from) {
            let Some(step) = sorted.get(place) else {
                continue;
            };
            if *budget == 0 {
                return Found::Spent;
            }
            *budget -= 1;
            if let Some(after) = apply(&state, &step.what)
                && tried.insert((placed.with(place), after.clone()))
            {
                next = Some((place, after));
                break;
            }
        }
        match next {
            Some((place, after)) => {
                placed.set(place, true);
                path.push((place, std::mem::replace(&mut state, after)));
                from = 0;
            }
            None => match path.pop() {
                Some((place, before)) => {
                    placed.set(place, false);
                    state = before;
                    from = rank(&sorted, place) + 1;
                }
                None => {
                    let stuck = by_begin.get(left_over.1).copied().unwrap_or(0);
                    return Found::None { stuck };
                }
            },
        }
    }
}

/// In which turn a step is tried: those that may never come after all that must, since most of them
/// are not needed, and each doubles what there is to try.
fn rank<T>(sorted: &[&Step<T>], place: usize) -> usize {
    let optional = sorted.get(place).is_some_and(|step| step.optional);
    if optional { place + sorted.len() } else { place }
}

/// What may come next, from a turn on.
fn candidates<T>(
    sorted: &[&Step<T>],
    placed: &Placed,
    deadline: Option<Stamp>,
    from: usize,
) -> impl Iterator<Item = usize> {
    let open = move |optional| {
        let begun = sorted.iter().enumerate().skip(placed.low);
        let begun = begun.take_while(move |(_, step)| deadline.is_none_or(|end| step.begun <= end));
        begun.filter(move |(place, step)| step.optional == optional && !placed.has(*place))
    };
    let all = open(false).chain(open(true)).map(|(place, _)| place);
    all.filter(move |place| rank(sorted, *place) >= from)
}

/// The first end among steps that must still be placed, and whose it is; none when all are.
fn deadline<T>(sorted: &[&Step<T>], placed: &Placed) -> Option<(Option<Stamp>, usize)> {
    let must = sorted.iter().enumerate().skip(placed.low);
    let must = must.filter(|(place, step)| !step.optional && !placed.has(*place));
    let first = must.min_by_key(|(_, step)| step.ended.unwrap_or(Stamp::MAX))?;
    Some((first.1.ended, first.0))
}

/// A set of steps.
struct Placed {
    words: Vec<u64>,
    /// Everything before it is placed.
    low: usize,
}

impl Placed {
    fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], low: 0 }
    }

    fn has(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    fn set(&mut self, place: usize, value: bool) {
        if let Some(word) = self.words.get_mut(place / 64) {
            let bit = 1 << (place % 64);
            *word = if value { *word | bit } else { *word & !bit };
        }
        if value {
            while self.has(self.low) {
                self.low += 1;
            }
        } else {
            self.low = self.low.min(place);
        }
    }

    fn with(&self, place: usize) -> Vec<u64> {
        let mut words = self.words.clone();
        if let Some(word) = words.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Step, order};

    /// A counter: an operation says what it found.
    fn found(steps: &[(u64, Option<u64>, u32)], budget: u64) -> Found {
        let steps: Vec<Step<u32>> = steps
            .iter()
            .map(|(begun, ended, what)| Step {
                begun: *begun,
                ended: *ended,
                optional: ended.is_none(),
                what: *what,
            })
            .collect();
        let apply = |state: &u32, what: &u32| (state == what).then_some(state + 1);
        order(&steps, 0, apply, &mut { budget })
    }

    /// Scenario: overlapping steps that fit in one order only; steps that don't overlap and would
    /// have to change places; one that needs another whose end is unknown. Guarantee: the first and
    /// last are placed, the second is named.
    #[test]
    fn an_order_is_found_if_there_is_one() {
        assert_eq!(found(&[(0, Some(9), 2), (1, Some(8), 1), (2, Some(7), 0)], 100), Found::Order);
        assert_eq!(found(&[(0, Some(1), 1), (2, Some(3), 0)], 100), Found::None { stuck: 0 });
        assert_eq!(found(&[(0, None, 0), (2, Some(3), 1)], 100), Found::Order);
    }

    /// Scenario: a hundred steps at once that fit nowhere, with a small budget. Guarantee: the search
    /// ends and doesn't guess.
    #[test]
    fn a_spent_budget_decides_nothing() {
        let steps: Vec<_> = (0..100).map(|place| (place, Some(1000), 7)).collect();
        assert_eq!(found(&steps, 10), Found::Spent);
    }
}
