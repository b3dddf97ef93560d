//! Tests of private items of `capacity.rs`.

use super::*;
use crate::observation::PartitionLoad;

fn group(rate: f64, lag: u64, pods: u32) -> ConsumerGroup {
    let of = |owner| PartitionLoad {
        arrival_per_second: Some(rate),
        commit_per_second: Some(rate),
        lag_messages: lag,
        owner: Some(owner),
    };
    ConsumerGroup {
        partitions: (0..pods).map(of).collect(),
        lag_seconds: None,
        within_bound: true,
        bytes_per_message: Some(100.0),
    }
}

/// Scenario: pods first half idle, then with messages waiting. Guarantee: the rate over the busy
/// share is used until the first saturated sample, which replaces it.
#[test]
fn a_saturated_sample_replaces_a_provisional_one() {
    let mut known = Capacities::default();
    let busy = |busy| PodReport { ordinal: 0, busy: Some(busy), ..PodReport::default() };
    known.learn_sample("a", &group(40.0, 0, 1), &[&busy(0.5)], 1);
    assert_eq!(known.for_key("a").map(|it| (it.messages_per_second, it.samples)), Some((80.0, 0)));
    known.learn_sample("a", &group(20.0, 10_000, 1), &[&busy(0.25)], 1);
    assert_eq!(known.for_key("a").map(|it| it.samples), Some(0), "held up by something else");
    known.learn_sample("a", &group(100.0, 10_000, 1), &[&busy(1.0)], 1);
    assert_eq!(known.for_key("a").map(|it| (it.messages_per_second, it.samples)), Some((100.0, 1)));
    known.learn_sample("a", &group(10.0, 0, 1), &[&busy(0.1)], 1);
    assert_eq!(known.for_key("a").map(|it| it.samples), Some(1), "an idle look teaches nothing");
}

/// Scenario: another image. Guarantee: it starts from a lower bound of the previous one, and the
/// old figure returns after a rollback.
#[test]
fn a_new_key_starts_from_a_lower_bound_of_the_old_one() {
    let mut known = Capacities::default();
    known.learn_sample("old", &group(100.0, 10_000, 2), &[], 2);
    let new = known.for_key("new").unwrap();
    assert_eq!((new.messages_per_second, new.samples), (80.0, 0));
    known.learn_sample("new", &group(150.0, 10_000, 2), &[], 2);
    assert_eq!(known.for_key("old").unwrap().messages_per_second, 100.0);
    assert_eq!(known.for_key("new").unwrap().messages_per_second, 150.0);
    let back = Capacities::restore(known.known().to_vec());
    assert_eq!(back, known);
}

/// Scenario: messages grow tenfold. Guarantee: capacity in messages falls with them.
#[test]
fn larger_messages_lower_the_capacity_in_messages() {
    let mut known = Capacities::default();
    known.learn_sample("a", &group(100.0, 10_000, 1), &[], 1);
    let capacity = known.for_key("a").unwrap();
    assert_eq!(capacity.rate_for_size(Some(100.0)), 100.0);
    assert_eq!(capacity.rate_for_size(Some(1_000.0)), 10.0);
    assert_eq!(capacity.rate_for_size(None), 100.0);
}
