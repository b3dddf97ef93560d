//! What a session asks, read back from the bytes it would send.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::wire::{Reader, op};
use crate::workload::{Workload, text};

fn generator(yaml: &str, seed: u64, session: u32) -> Generator {
    let mut workload: Workload = serde_norway::from_str(yaml).unwrap();
    workload.seed = seed;
    let plan = Arc::new(Plan::new(workload).unwrap());
    let paths = Paths::new(&plan);
    Generator::new(&plan, &paths, &Data::new(seed), session)
}

/// The bytes and kinds of a session's first requests.
fn requests(yaml: &str, seed: u64, session: u32, count: i32) -> (Vec<u8>, Vec<Kind>) {
    let mut generator = generator(yaml, seed, session);
    let mut out = Vec::new();
    let kinds = (1..=count).map(|xid| generator.next(&mut out, xid, None).kind).collect();
    (out, kinds)
}

/// The paths of creates and removals, in order.
fn comings_and_goings(mut bytes: &[u8]) -> Vec<(bool, String)> {
    let mut all = Vec::new();
    while let Some(head) = bytes.first_chunk() {
        let (message, rest) = bytes[4..].split_at(i32::from_be_bytes(*head) as usize);
        bytes = rest;
        let mut reader = Reader::new(&message[4..]);
        let code = reader.int().unwrap();
        if code == op::CREATE || code == op::DELETE {
            all.push((code == op::CREATE, reader.text().unwrap().to_owned()));
        }
    }
    all
}

const TOKENS: &str = r"
name: tokens
seconds: 1
setup: [{name: blocks, count: 3, tag: blocks}]
requests:
  - create: {weight: 3, tag: blocks, name_bytes: 12, data_bytes: {least: 1, most: 9}, into: made, remove_factor: 0.4}
  - remove: {weight: 1, tag: made}
  - get: {weight: 1, tag: made}
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Scenario: any seed; two sessions of it. Guarantee: the same bytes again, others for the
    /// other session. Slow: 256 seeds, 600 requests of each.
    #[test]
    fn a_seed_makes_the_same_requests_again(seed: u64) {
        let first = requests(TOKENS, seed, 0, 200);
        prop_assert_eq!(&first, &requests(TOKENS, seed, 0, 200));
        prop_assert_ne!(first.0, requests(TOKENS, seed, 1, 200).0);
    }

    /// Scenario: nodes that are made and removed at random. Guarantee: no node is made twice, by
    /// either of two sessions; only what is there is removed.
    #[test]
    fn only_what_is_there_is_removed(seed: u64) {
        let mut ever = HashSet::new();
        for session in 0..2 {
            let mut there = HashSet::new();
            for (made, path) in comings_and_goings(&requests(TOKENS, seed, session, 300).0) {
                if made {
                    prop_assert!(ever.insert(path.clone()), "{} made twice", path);
                    there.insert(path);
                } else {
                    prop_assert!(there.remove(&path), "{} isn't there", path);
                }
            }
        }
    }
}

/// Scenario: a hundred thousand operations of `described-load`. Guarantee: two thirds reads, a
/// third writes, 70 % of which are multis, each within one percent of all.
#[test]
fn the_load_that_was_described_has_its_mix() {
    let (_, kinds) = requests(text("described-load").unwrap(), 7, 0, 100_000);
    let share = |of: &[Kind]| {
        kinds.iter().filter(|kind| of.contains(kind)).count() as f64 / kinds.len() as f64
    };
    let writes = share(&[Kind::Create, Kind::Remove, Kind::Set, Kind::MultiWrite]);
    assert!((writes - 0.33).abs() < 0.01, "{writes}");
    let multis = share(&[Kind::MultiWrite]) / writes;
    assert!((multis - 0.70).abs() < 0.01, "{multis}");
    let reads = share(&[Kind::Get, Kind::Exists, Kind::List, Kind::MultiRead]);
    assert!((reads + writes - 1.0).abs() < 1e-9, "{reads}");
}
