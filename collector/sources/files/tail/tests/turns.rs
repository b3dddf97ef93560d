//! Tests the fair queue: shares by weight, and how long a quiet namespace waits.

use std::collections::HashMap;
use std::time::Duration;

use millrace_tail::{FairQueue, Weight};
use proptest::collection::vec;
use proptest::prelude::*;

/// The maximum bytes of a read here.
const TURN: u64 = 1000;

fn turns(weights: &[(String, u8)]) -> FairQueue<usize> {
    let weights =
        weights.iter().map(|(name, weight)| (name.clone(), Weight::new(*weight).unwrap()));
    FairQueue::new(weights.collect())
}

fn name(number: usize) -> String {
    format!("n{number}")
}

/// Scenario: a weight of zero, and one above the maximum. Guarantee: both are refused.
#[test]
fn a_weight_is_1_to_100() {
    assert_eq!((Weight::new(0), Weight::new(101)), (None, None));
    assert_eq!(Weight::new(1), Some(Weight::default()));
    assert!(Weight::new(100).is_some());
}

/// Scenario: two namespaces always have something to read; a read of one takes 2 s of processor
/// time, one of the other 1 ms. Guarantee: the latter has more than a hundred reads for each of the
/// former.
#[test]
fn a_namespace_pays_for_processor_time() {
    let mut turns = turns(&[]);
    let took = [Duration::from_secs(2), Duration::from_millis(1)];
    let mut served = [0_u32; 2];
    (0..2).for_each(|n| turns.push(&name(n), n));
    for _ in 0..1000 {
        let next = turns.pop().unwrap();
        turns.charge_usage(256 * 1024, took[next]);
        turns.push(&name(next), next);
        served[next] += 1;
    }
    assert!(served[1] > 100 * served[0], "{served:?}");
}

proptest! {
    /// Scenario: namespaces with any weights and numbers of files always have something to read;
    /// reads have any length. Guarantee: after any number of reads, no two namespaces' bytes over
    /// weight differ by more than a read of each; within one, files' numbers of reads differ by at
    /// most 1.
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
            turns.charge_usage(length, Duration::ZERO);
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

    /// Scenario: a quiet namespace writes a line at any moment, among others that write without
    /// end, of any weights. Guarantee: it is read after at most one read of each of the others.
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
                // A line is short compared with a read.
                turns.charge_usage(0, Duration::ZERO);
                waits = None;
                continue;
            }
            turns.charge_usage(length, Duration::ZERO);
            turns.push(&name(next), next);
            if let Some(waits) = &mut waits {
                let turns = waits.entry(next).or_default();
                *turns += 1;
                prop_assert!(*turns <= 1, "{next} had {turns} turns meanwhile");
            }
        }
    }

    /// Scenario: items are queued, popped and charged, in any order. Guarantee: each item is
    /// returned once, those of one namespace in order, and none remains.
    #[test]
    fn all_that_is_queued_comes_once_and_in_order(
        steps in vec((0_usize..200, 0..=TURN, any::<bool>()), 1..400),
    ) {
        let mut turns = turns(&[(name(3), 7)]);
        let (mut queued, mut came) = (Vec::new(), Vec::new());
        let mut take = |turns: &mut FairQueue<usize>, length| {
            let next = turns.pop();
            came.extend(next);
            if length > 0 {
                turns.charge_usage(length, Duration::ZERO);
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
