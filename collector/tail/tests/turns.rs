//! Whose turn it is: shares by weight, and how long a quiet namespace waits.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use std::collections::HashMap;

use millrace_tail::{Turns, Weight};
use proptest::collection::vec;
use proptest::prelude::*;

/// The most bytes of a turn here.
const TURN: u64 = 1000;

fn turns(weights: &[(String, u8)]) -> Turns<usize> {
    let weights =
        weights.iter().map(|(name, weight)| (name.clone(), Weight::new(*weight).unwrap()));
    Turns::new(weights.collect())
}

fn name(number: usize) -> String {
    format!("n{number}")
}

/// Scenario: a weight of nothing, and beyond the heaviest. Guarantee: there is none.
#[test]
fn a_weight_is_1_to_100() {
    assert_eq!((Weight::new(0), Weight::new(101)), (None, None));
    assert_eq!(Weight::new(1), Some(Weight::default()));
    assert!(Weight::new(100).is_some());
}

proptest! {
    /// Scenario: namespaces with any weights and numbers of files always have something to be read;
    /// turns are of any length. Guarantee: after any number of turns, no two namespaces' bytes over
    /// weight differ by more than a turn of each; within one, files' numbers of turns differ by 1.
    #[test]
    fn namespaces_that_always_write_get_bytes_by_weight(
        weights in vec((1_u8..=100, 1_usize..4), 2..6),
        lengths in vec(1..=TURN, 1..400),
    ) {
        let named: Vec<_> = weights.iter().enumerate().map(|(n, w)| (name(n), w.0)).collect();
        let mut turns = turns(&named);
        let files: Vec<usize> =
            weights.iter().enumerate().flat_map(|(n, w)| std::iter::repeat_n(n, w.1)).collect();
        for (file, namespace) in files.iter().enumerate() {
            turns.push(&name(*namespace), file);
        }
        let (mut bytes, mut served) = (vec![0_u64; weights.len()], vec![0_u64; files.len()]);
        for length in lengths {
            let file = turns.pop().unwrap();
            turns.spent(length);
            bytes[files[file]] += length;
            served[file] += 1;
            turns.push(&name(files[file]), file);
            let normal = |n: usize| bytes[n] as f64 / f64::from(weights[n].0);
            let turn = |n: usize| (TURN + 1) as f64 / f64::from(weights[n].0);
            for one in 0..weights.len() {
                for other in 0..one {
                    let apart = (normal(one) - normal(other)).abs();
                    prop_assert!(apart <= turn(one) + turn(other), "{one} {other}: {apart}");
                }
            }
        }
        for (one, of) in files.iter().enumerate() {
            for (other, _) in files.iter().enumerate().filter(|(_, other)| *other == of) {
                prop_assert!(served[one].abs_diff(served[other]) <= 1);
            }
        }
    }

    /// Scenario: a namespace that is quiet writes a line at any moment, among others that write
    /// without end, of any weights. Guarantee: it has its turn after one of each of the others at
    /// most.
    #[test]
    fn a_quiet_namespaces_line_waits_for_a_turn_of_each_of_the_others(
        weights in vec(1_u8..=100, 2..8),
        steps in vec((1..=TURN, proptest::bool::weighted(0.1)), 1..300),
    ) {
        let named: Vec<_> = weights.iter().enumerate().map(|(n, w)| (name(n), *w)).collect();
        let mut turns = turns(&named);
        (1..weights.len()).for_each(|n| turns.push(&name(n), n));
        let mut waits: Option<HashMap<usize, u32>> = None;
        for (length, writes) in steps {
            if writes && waits.is_none() {
                turns.push(&name(0), 0);
                waits = Some(HashMap::new());
            }
            let next = turns.pop().unwrap();
            if next == 0 {
                // A line is short beside a turn.
                turns.spent(0);
                waits = None;
                continue;
            }
            turns.spent(length);
            turns.push(&name(next), next);
            if let Some(waits) = &mut waits {
                let turns = waits.entry(next).or_default();
                *turns += 1;
                prop_assert!(*turns <= 1, "{next} had {turns} turns meanwhile");
            }
        }
    }

    /// Scenario: anything is queued, taken and paid for, in any order. Guarantee: each thing comes
    /// out once, those of one namespace in order, and nothing stays.
    #[test]
    fn all_that_is_queued_comes_once_and_in_order(
        steps in vec((0_usize..200, 0..=TURN, any::<bool>()), 1..400),
    ) {
        let mut turns = turns(&[(name(3), 7)]);
        let (mut queued, mut came) = (Vec::new(), Vec::new());
        let mut take = |turns: &mut Turns<usize>, length| {
            let next = turns.pop();
            came.extend(next);
            if length > 0 {
                turns.spent(length);
            }
            next.is_some()
        };
        for (number, (namespace, length, pushes)) in steps.into_iter().enumerate() {
            if pushes {
                turns.push(&name(namespace), number);
                queued.push((namespace, number));
            } else {
                take(&mut turns, length);
            }
        }
        while take(&mut turns, 1) {}
        prop_assert!(turns.is_empty());
        let mut sorted = came.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, queued.iter().map(|(_, number)| *number).collect::<Vec<_>>());
        let of: HashMap<usize, usize> = queued.iter().map(|(n, number)| (*number, *n)).collect();
        let mut last: HashMap<usize, usize> = HashMap::new();
        for number in came {
            let before = last.insert(of[&number], number);
            prop_assert!(before.is_none_or(|before| before < number));
        }
    }
}
