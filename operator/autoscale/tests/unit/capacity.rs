//! Tests of what `capacity.rs` keeps to itself.

use super::*;
use crate::observation::Partition;

fn group(rate: f64, lag: u64, pods: u32) -> Group {
    let of = |owner| Partition {
        arrival_per_second: Some(rate),
        commit_per_second: Some(rate),
        lag_messages: lag,
        owner: Some(owner),
    };
    Group {
        partitions: (0..pods).map(of).collect(),
        lag_seconds: None,
        within_bound: true,
        bytes_per_message: Some(100.0),
    }
}

/// Scenario: pods first half idle, then with messages waiting. Guarantee: the rate over the
/// busy share stands in until the first saturated sample, which replaces it.
#[test]
fn a_saturated_sample_replaces_a_provisional_one() {
    let mut known = Capacities::default();
    let busy = |busy| Pod { ordinal: 0, busy: Some(busy), ..Pod::default() };
    known.learn("a", &group(40.0, 0, 1), &[&busy(0.5)], 1);
    assert_eq!(known.of("a").map(|it| (it.messages_per_second, it.samples)), Some((80.0, 0)));
    known.learn("a", &group(20.0, 10_000, 1), &[&busy(0.25)], 1);
    assert_eq!(known.of("a").map(|it| it.samples), Some(0), "held up by something else");
    known.learn("a", &group(100.0, 10_000, 1), &[&busy(1.0)], 1);
    assert_eq!(known.of("a").map(|it| (it.messages_per_second, it.samples)), Some((100.0, 1)));
    known.learn("a", &group(10.0, 0, 1), &[&busy(0.1)], 1);
    assert_eq!(known.of("a").map(|it| it.samples), Some(1), "an idle look teaches nothing");
}

/// Scenario: another image. Guarantee: it starts from a lower bound of the one before, and the
/// old figure is there again after a rollback.
#[test]
fn a_new_key_starts_from_a_lower_bound_of_the_old_one() {
    let mut known = Capacities::default();
    known.learn("old", &group(100.0, 10_000, 2), &[], 2);
    let new = known.of("new").unwrap();
    assert_eq!((new.messages_per_second, new.samples), (80.0, 0));
    known.learn("new", &group(150.0, 10_000, 2), &[], 2);
    assert_eq!(known.of("old").unwrap().messages_per_second, 100.0);
    assert_eq!(known.of("new").unwrap().messages_per_second, 150.0);
    let back = Capacities::restore(known.known().to_vec());
    assert_eq!(back, known);
}

/// Scenario: messages grow tenfold. Guarantee: capacity in messages falls with them.
#[test]
fn larger_messages_lower_the_capacity_in_messages() {
    let mut known = Capacities::default();
    known.learn("a", &group(100.0, 10_000, 1), &[], 1);
    let capacity = known.of("a").unwrap();
    assert_eq!(capacity.at(Some(100.0)), 100.0);
    assert_eq!(capacity.at(Some(1_000.0)), 10.0);
    assert_eq!(capacity.at(None), 100.0);
}
