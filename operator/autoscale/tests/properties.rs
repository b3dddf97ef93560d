//! What holds for every observation, policy and memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_autoscale::{Lag, Observation, Policy, State, decide};
use proptest::prelude::*;

const NOW: i64 = 1_000_000;

fn any_lag() -> impl Strategy<Value = Lag> {
    (0u64..10_000_000, any::<bool>(), 0i64..200).prop_map(|(messages, within_bound, age)| Lag {
        messages,
        within_bound,
        observed_seconds: NOW - age,
    })
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let current = prop::option::of(0u32..200);
    let partitions = prop::option::of(0u32..200);
    (current, any::<bool>(), partitions, prop::option::of(any_lag())).prop_map(
        |(current, rollout_under_way, partitions, lag)| Observation {
            now_seconds: NOW,
            current,
            ready: current.unwrap_or(0),
            rollout_under_way,
            partitions,
            lag,
        },
    )
}

fn any_policy() -> impl Strategy<Value = Policy> {
    (1u32..50, 1u32..100).prop_map(|(a, b)| Policy::with_bounds(None, a.min(b), a.max(b)))
}

fn any_state() -> impl Strategy<Value = State> {
    let time = || prop::option::of(NOW - 10_000..NOW + 100);
    (time(), time(), time()).prop_map(|(above_bound_since, idle_since, changed_at)| State {
        above_bound_since,
        idle_since,
        changed_at,
    })
}

proptest! {
    /// Guarantee: at least one pod, at most the maximum, at most the partitions, at least the
    /// minimum where partitions allow it.
    #[test]
    fn the_size_is_always_inside_its_bounds(
        seen in any_observation(), policy in any_policy(), last in any_state()
    ) {
        let size = decide(&seen, &policy, &last).replicas;
        let ceiling = seen.partitions.map_or(policy.max, |p| policy.max.min(p)).max(1);
        prop_assert!(size >= 1 && size <= ceiling);
        prop_assert!(size >= policy.min.min(ceiling));
    }

    /// Guarantee: without a fresh lag the size only ever moves to come inside its bounds.
    #[test]
    fn missing_or_old_lag_never_moves_a_size_inside_its_bounds(
        mut seen in any_observation(), policy in any_policy(), last in any_state()
    ) {
        seen.lag = seen.lag.filter(|lag| NOW - lag.observed_seconds > policy.stale_after_seconds);
        let decision = decide(&seen, &policy, &last);
        if let Some(current) = seen.current {
            let ceiling = seen.partitions.map_or(policy.max, |p| policy.max.min(p)).max(1);
            prop_assert_eq!(decision.replicas, current.clamp(policy.min.min(ceiling), ceiling));
        }
    }

    /// Guarantee: all else equal, lag above the bound never gives a smaller size than lag inside
    /// it.
    #[test]
    fn more_lag_never_means_fewer_pods(
        seen in any_observation(), policy in any_policy(), last in any_state(),
        messages in 0u64..1000
    ) {
        let with = |messages, within_bound| {
            let lag = Lag { messages, within_bound, observed_seconds: NOW };
            decide(&Observation { lag: Some(lag), ..seen.clone() }, &policy, &last).replicas
        };
        prop_assert!(with(messages, true) <= with(messages, false));
        prop_assert!(with(messages, true) <= with(messages + 1_000_000, true));
    }

    /// Guarantee: asked again at the same instant with what it remembered, it does not move on.
    #[test]
    fn the_same_instant_never_moves_twice(
        mut seen in any_observation(), policy in any_policy(), last in any_state()
    ) {
        let first = decide(&seen, &policy, &last);
        seen.current = Some(first.replicas);
        let second = decide(&seen, &policy, &first.state);
        prop_assert_eq!(second.replicas, first.replicas);
    }

    /// Guarantee: a change never skips a size at which the busiest pod would read a different
    /// number of partitions, and a smaller pool is the
    /// smallest of its speed.
    #[test]
    fn a_step_changes_the_partitions_per_pod_by_a_whole_size(
        current in 1u32..100, partitions in 1u32..200, within_bound in any::<bool>()
    ) {
        prop_assume!(current <= partitions);
        let policy = Policy::with_bounds(None, 1, 200);
        let long_ago = Some(NOW - 100_000);
        let last = State { above_bound_since: long_ago, idle_since: long_ago, changed_at: None };
        let lag = Lag { messages: 0, within_bound, observed_seconds: NOW };
        let seen = Observation {
            now_seconds: NOW,
            current: Some(current),
            ready: current,
            rollout_under_way: false,
            partitions: Some(partitions),
            lag: Some(lag),
        };
        let size = decide(&seen, &policy, &last).replicas;
        let per_pod = |size: u32| partitions.div_ceil(size);
        if size > current {
            prop_assert!(per_pod(size) < per_pod(current));
            prop_assert!((current..size).all(|between| per_pod(between) == per_pod(current)));
        }
        if size < current {
            // The smallest pool as fast as one with a pod less: not one pod is given up for
            // nothing.
            prop_assert_eq!(per_pod(size), per_pod(current - 1));
            prop_assert!(size == 1 || per_pod(size - 1) > per_pod(size));
        }
    }
}
