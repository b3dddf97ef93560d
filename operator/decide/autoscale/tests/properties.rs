//! Properties of every observation, policy and state.

use millrace_autoscale::{
    Aged, Bounds, Capacities, Capacity, ConsumerGroup, Decision, Observation, PartitionLoad,
    PodReport, ScalingMemory, ScalingMode, ScalingPolicy, ScalingState, SinkReport, SizeChange,
    Transition, decide_size,
};
use proptest::prelude::*;

const NOW: i64 = 1_000_000;

fn any_partition() -> impl Strategy<Value = PartitionLoad> {
    let rate = || prop::option::weighted(0.9, 0.0..5_000.0f64);
    (rate(), rate(), 0u64..2_000_000, prop::option::of(0u32..12)).prop_map(
        |(arrival_per_second, commit_per_second, lag_messages, owner)| PartitionLoad {
            arrival_per_second,
            commit_per_second,
            lag_messages,
            owner,
        },
    )
}

fn any_group() -> impl Strategy<Value = Aged<ConsumerGroup>> {
    let partitions = prop::collection::vec(any_partition(), 0..40);
    let lag = prop::option::of(0.0..600.0f64);
    let size = prop::option::of(1.0..1e6f64);
    (partitions, lag, any::<bool>(), size, 0i64..200).prop_map(
        |(partitions, lag_seconds, within_bound, bytes_per_message, age)| Aged {
            observed_at: NOW - age,
            value: ConsumerGroup { partitions, lag_seconds, within_bound, bytes_per_message },
        },
    )
}

fn any_pod() -> impl Strategy<Value = Aged<PodReport>> {
    (0u32..12, prop::option::of(0.0..1.0f64), 0u64..2 << 30, 0u32..3, 0i64..200).prop_map(
        |(ordinal, busy, memory, oom_kills, age)| Aged {
            observed_at: NOW - age,
            value: PodReport {
                ordinal,
                busy,
                cpu_millicores: None,
                cpu_limit_millicores: None,
                memory_bytes: Some(memory),
                memory_limit_bytes: Some(1 << 30),
                oom_kills,
            },
        },
    )
}

fn any_transition() -> impl Strategy<Value = Transition> {
    prop_oneof![
        4 => Just(Transition::Stable),
        1 => Just(Transition::Scaling),
        1 => Just(Transition::Rollout),
        1 => Just(Transition::Migration),
    ]
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let pods = prop::collection::vec(any_pod(), 0..12);
    let sink = prop::option::of((0.0..1.0f64, 0i64..200));
    let current = prop::option::weighted(0.95, 0u32..60);
    (current, any_transition(), prop::option::weighted(0.9, any_group()), pods, sink).prop_map(
        |(current, transition, group, pods, sink)| Observation {
            now: NOW,
            current,
            transition,
            capacity_key: "image".into(),
            group,
            pods,
            sink: sink.map(|(pressure, age)| Aged {
                observed_at: NOW - age,
                value: SinkReport { pressure },
            }),
        },
    )
}

fn any_policy() -> impl Strategy<Value = ScalingPolicy> {
    (1u32..30, 1u32..60).prop_map(|(a, b)| ScalingPolicy::with_bounds(a.min(b), a.max(b)))
}

fn any_state() -> impl Strategy<Value = ScalingState> {
    let time = || prop::option::of(NOW - 10_000..NOW + 100);
    let change = (NOW - 5_000..NOW + 100, 1u32..40, 1u32..40)
        .prop_map(|(at, from, to)| SizeChange { at, from, to });
    let capacity = prop::option::of((1.0..10_000.0f64, 0u32..5));
    (time(), time(), time(), prop::option::of(change), capacity, 0u32..4).prop_map(
        |(over_since, idle_since, back_off_until, last_change, capacity, premature_shrinks)| {
            let known = capacity.map(|(messages_per_second, samples)| {
                let capacity = Capacity { messages_per_second, bytes_per_second: None, samples };
                ("image".to_owned(), capacity)
            });
            let capacities = Capacities::restore(known.into_iter().collect());
            let memory = ScalingMemory {
                capacities,
                last_change,
                premature_shrinks,
                back_off_until,
                ..ScalingMemory::default()
            };
            ScalingState { over_since, idle_since, ..ScalingState::from_memory(memory) }
        },
    )
}

fn bounds(seen: &Observation, policy: &ScalingPolicy) -> Bounds {
    let partitions = seen.group.as_ref().map(|group| group.value.partitions.len() as u32);
    Bounds::new(policy.min, policy.max, partitions)
}

/// Decides for the same pool several times, `by` seconds apart.
fn live(looks: &[Observation], policy: &ScalingPolicy, by: i64) -> Vec<Decision> {
    let mut state = ScalingState::default();
    let mut size = None;
    let shifted = looks.iter().zip(0..).map(|(look, nth)| {
        let mut look = look.clone();
        let shift = nth * by;
        look.now += shift;
        look.current = size;
        for seen_at in look
            .group
            .iter_mut()
            .map(|it| &mut it.observed_at)
            .chain(look.pods.iter_mut().map(|it| &mut it.observed_at))
            .chain(look.sink.iter_mut().map(|it| &mut it.observed_at))
        {
            *seen_at += shift;
        }
        let decision = decide_size(&look, policy, &state);
        state = decision.state.clone();
        size = Some(decision.replicas);
        decision
    });
    shifted.collect()
}

proptest! {
    /// Guarantee: at least one pod, at most the maximum, at most the partitions, at least the
    /// minimum where partitions allow it.
    #[test]
    fn the_size_is_always_inside_its_bounds(
        seen in any_observation(), policy in any_policy(), last in any_state()
    ) {
        let decision = decide_size(&seen, &policy, &last);
        let bounds = bounds(&seen, &policy);
        prop_assert!(decision.replicas >= bounds.floor && decision.replicas <= bounds.ceiling);
        prop_assert!(decision.proposed >= 1 && decision.proposed <= bounds.ceiling);
    }

    /// Guarantee: without a fresh observation of the group the size only ever moves into its
    /// bounds.
    #[test]
    fn missing_or_old_signals_never_move_a_size_inside_its_bounds(
        mut seen in any_observation(), policy in any_policy(), last in any_state(),
        age in 61i64..1_000
    ) {
        if let Some(group) = &mut seen.group {
            group.observed_at = NOW - age;
        }
        let decision = decide_size(&seen, &policy, &last);
        if let Some(current) = seen.current {
            prop_assert_eq!(decision.replicas, bounds(&seen, &policy).clamp(current));
        }
    }

    /// Guarantee: all else equal, more lag never gives a smaller size.
    #[test]
    fn more_lag_never_means_fewer_pods(
        seen in any_observation(), policy in any_policy(), last in any_state(),
        more in prop::collection::vec(0u64..1_000_000, 40), older in 0.0..600.0f64,
        broken in any::<bool>()
    ) {
        let mut worse = seen.clone();
        if let Some(group) = &mut worse.group {
            for (partition, more) in group.value.partitions.iter_mut().zip(&more) {
                partition.lag_messages += more;
            }
            group.value.lag_seconds = group.value.lag_seconds.map(|lag| lag + older);
            group.value.within_bound &= !broken;
        }
        let (less, more) = (decide_size(&seen, &policy, &last), decide_size(&worse, &policy, &last));
        prop_assert!(less.replicas <= more.replicas, "{} then {}", less, more);
    }

    /// Guarantee: the further one partition alone is behind, the more pods are desired, within the
    /// bounds.
    #[test]
    fn a_partition_further_behind_never_means_fewer_pods(
        rates in prop::collection::vec(0.0..1_500.0f64, 1..40), nth in 0usize..40,
        behind in prop::collection::vec(0u64..5_000_000, 2), policy in any_policy(),
        size in 1u32..30, messages_per_second in 200.0..5_000.0f64
    ) {
        let capacity = Capacity { messages_per_second, bytes_per_second: None, samples: 1 };
        let capacities = Capacities::restore(vec![("image".to_owned(), capacity)]);
        let last = ScalingState::from_memory(ScalingMemory { capacities, ..ScalingMemory::default() });
        let policy = ScalingPolicy { mode: ScalingMode::Act, ..policy };
        let wanted = |behind: u64| {
            let partition = |(at, rate): (usize, &f64)| PartitionLoad {
                arrival_per_second: Some(*rate),
                commit_per_second: Some(*rate),
                lag_messages: if at == nth % rates.len() { behind } else { 0 },
                owner: None,
            };
            let group = ConsumerGroup {
                partitions: rates.iter().enumerate().map(partition).collect(),
                lag_seconds: Some(600.0),
                within_bound: false,
                bytes_per_message: None,
            };
            let seen = Observation {
                now: NOW,
                current: Some(size),
                transition: Transition::Stable,
                capacity_key: "image".into(),
                group: Some(Aged { observed_at: NOW, value: group }),
                pods: Vec::new(),
                sink: None,
            };
            decide_size(&seen, &policy, &last).proposed
        };
        let (less, more) = (behind[0].min(behind[1]), behind[0].max(behind[1]));
        prop_assert!(wanted(less) <= wanted(more), "{} then {}", wanted(less), wanted(more));
    }

    /// Guarantee: a repeated decision at the same instant with its own state changes nothing.
    #[test]
    fn the_same_instant_never_moves_twice(
        mut seen in any_observation(), policy in any_policy(), last in any_state()
    ) {
        let first = decide_size(&seen, &policy, &last);
        prop_assume!(seen.current != Some(first.replicas));
        seen.current = Some(first.replicas);
        let second = decide_size(&seen, &policy, &first.state);
        prop_assert_eq!(second.replicas, first.replicas);
    }

    /// Guarantee: the same observations give identical decisions.
    #[test]
    fn a_replay_gives_the_same_decisions(
        looks in prop::collection::vec(any_observation(), 1..20), policy in any_policy()
    ) {
        prop_assert_eq!(live(&looks, &policy, 10), live(&looks, &policy, 10));
    }

    /// Guarantee: a pool that another autoscaler sizes never changes, and a fixed size stays.
    #[test]
    fn there_is_one_writer(
        seen in any_observation(), policy in any_policy(), last in any_state(), fixed in 1u32..90
    ) {
        let told = ScalingPolicy { mode: ScalingMode::Recommend, ..policy.clone() };
        if let Some(current) = seen.current {
            prop_assert_eq!(decide_size(&seen, &told, &last).replicas, current);
        }
        let set = ScalingPolicy { mode: ScalingMode::Fixed(fixed), ..policy };
        prop_assert_eq!(decide_size(&seen, &set, &last).replicas, fixed);
    }
}

proptest! {
    // Each case is two hours of observations.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Guarantee: at any constant rate with noise a pool changes its size to find the right one and
    /// then never again.
    #[test]
    fn constant_load_never_flaps(
        load in 0.2..11.0f64, noise in 0.0..0.05f64, seed in any::<u64>(), start in 1u32..12
    ) {
        let (policy, partitions, capacity) = (ScalingPolicy::with_bounds(1, 12), 12u32, 1_000.0);
        let (mut state, mut size, mut sizes) = (ScalingState::default(), start, vec![start]);
        let (mut random, mut lag) = (seed | 1, 0.0f64);
        for look in 0..720i64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let error = 1.0 + noise * ((random >> 40) as f64 / (1u64 << 23) as f64 - 1.0);
            let arrival = load * capacity * error;
            // The busiest pod's share decides how much is worked off.
            let even = f64::from(partitions) / f64::from(partitions.div_ceil(size));
            let done = (arrival + lag / 10.0).min(even * capacity);
            lag = (lag + (arrival - done) * 10.0).max(0.0);
            let each = |total: f64| total / f64::from(partitions);
            let partition = |nth: u32| PartitionLoad {
                arrival_per_second: Some(each(arrival)),
                commit_per_second: Some(each(done)),
                lag_messages: each(lag + 2.0 * arrival) as u64,
                owner: Some(nth % size),
            };
            let now = NOW + look * 10;
            let lag_seconds = 2.0 + lag / arrival;
            let value = ConsumerGroup {
                partitions: (0..partitions).map(partition).collect(),
                lag_seconds: Some(lag_seconds),
                within_bound: lag_seconds <= 60.0,
                bytes_per_message: None,
            };
            let busy = Some((done / f64::from(size) / capacity).min(1.0));
            let pods = (0..size).map(|ordinal| Aged {
                observed_at: now,
                value: PodReport { ordinal, busy, ..PodReport::default() },
            });
            let seen = Observation {
                now,
                current: Some(size),
                transition: Transition::Stable,
                capacity_key: "image".into(),
                group: Some(Aged { observed_at: now, value }),
                pods: pods.collect(),
                sink: None,
            };
            let decision = decide_size(&seen, &policy, &state);
            state = decision.state;
            if decision.replicas != size {
                size = decision.replicas;
                sizes.push(size);
            }
        }
        let turns = sizes.windows(3).filter(|it| (it[0] < it[1]) != (it[1] < it[2])).count();
        prop_assert!(turns <= 1 && sizes.len() <= 5, "load {} sizes {:?}", load, sizes);
    }
}
