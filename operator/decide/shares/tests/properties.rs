//! Properties of every decision, whatever the targets, pods and policy.

use std::collections::BTreeMap;

use millrace_share_documents::{PodName, TargetId, Weight};
use millrace_shares::{
    CandidatePod, Decision, DecisionInput, OverflowPolicy, Percent, PlacementReason, PodState,
    SharingPolicy, Target, assign_targets,
};
use proptest::prelude::*;

type Targets = BTreeMap<TargetId, Target>;
type Pods = BTreeMap<PodName, CandidatePod>;
type Assigned = BTreeMap<TargetId, PodName>;

fn name(number: u32) -> PodName {
    PodName::new(&format!("pod-{number}"))
}

fn zone() -> impl Strategy<Value = Option<String>> {
    prop::option::of((0..3u8).prop_map(|it| format!("zone-{it}")))
}

fn target(weight: impl Strategy<Value = Option<u64>>) -> impl Strategy<Value = Target> {
    (0..4u8, weight, zone()).prop_map(|(job, weight, zone)| Target {
        job: format!("job-{job}"),
        weight: weight.map(Weight::new),
        zone,
        awaits_scrape: false,
    })
}

fn any_weight() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        1 => Just(None),
        6 => (1..5_000u64).prop_map(Some),
        1 => (1..200_000u64).prop_map(Some),
        1 => any::<u64>().prop_map(Some),
    ]
}

fn any_targets() -> impl Strategy<Value = Targets> {
    let ids = (0..500u128).prop_map(TargetId);
    prop::collection::btree_map(ids, target(any_weight()), 0..120)
}

fn any_pods() -> impl Strategy<Value = Pods> {
    let state = prop_oneof![
        8 => Just(PodState::Ready),
        1 => Just(PodState::Starting),
        1 => Just(PodState::Leaving),
        1 => Just(PodState::Unreachable),
        1 => Just(PodState::Silent),
        1 => Just(PodState::Ended),
    ];
    let pod = (state, zone()).prop_map(|(state, zone)| CandidatePod { state, zone });
    prop::collection::btree_map((0..14u32).prop_map(name), pod, 0..14)
}

fn ready_pods(count: impl Strategy<Value = u32>) -> impl Strategy<Value = Pods> {
    let zones = prop::collection::vec(zone(), 20);
    (count, zones).prop_map(|(count, zones)| {
        let pods = zones.into_iter().zip(0..count);
        pods.map(|(zone, it)| (name(it), CandidatePod { state: PodState::Ready, zone })).collect()
    })
}

/// Assignments to existing pods, and some to missing ones.
fn any_assigned() -> impl Strategy<Value = Assigned> {
    let ids = (0..500u128).prop_map(TargetId);
    prop::collection::btree_map(ids, (0..16u32).prop_map(name), 0..200)
}

fn any_policy() -> impl Strategy<Value = SharingPolicy> {
    let overflow_policy = prop_oneof![Just(OverflowPolicy::Scrape), Just(OverflowPolicy::Wait)];
    let cap = prop::option::of(prop_oneof![1..60_000u64, 1..1_000_000u64]);
    let moves = prop_oneof![Just(0), 0..20u32, Just(u32::MAX / 2)];
    (cap, overflow_policy, 1..30u8, moves, any::<bool>(), any::<bool>()).prop_map(
        |(cap, overflow_policy, tolerance, moves_max, spread, zones)| SharingPolicy {
            cap: cap.map(Weight::new),
            overflow_policy,
            tolerance: Percent::new(tolerance),
            moves_max,
            spread,
            zones,
            ..SharingPolicy::default()
        },
    )
}

fn unbounded(policy: SharingPolicy) -> SharingPolicy {
    SharingPolicy { moves_max: u32::MAX / 2, ..policy }
}

fn run(targets: &Targets, pods: &Pods, assigned: &Assigned, policy: &SharingPolicy) -> Decision {
    assign_targets(&DecisionInput { targets, pods, assigned, policy })
}

fn loads(decision: &Decision) -> Vec<u64> {
    decision.pods.values().map(|load| load.millisamples_per_second).collect()
}

/// Targets whose heaviest is at most `percent` percent of a pod's share.
fn fine_targets() -> impl Strategy<Value = Targets> {
    let weight = (500..1_000u64).prop_map(Some);
    prop::collection::vec(target(weight), 400..700).prop_map(|targets| {
        let ids = (0..).map(|it: u128| TargetId(it * 0x9E37_79B9_7F4A_7C15 % 1_000_003));
        ids.zip(targets).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Scenario: any input. Guarantee: each target has one pod; it has none only without a ready
    /// pod or, where the policy allows it, as a new one at the cap; sums match the assignments; a
    /// pod that isn't ready gets nothing new.
    #[test]
    fn each_target_is_placed_once(
        targets in any_targets(), pods in any_pods(), assigned in any_assigned(),
        policy in any_policy(),
    ) {
        let decision = run(&targets, &pods, &assigned, &policy);
        prop_assert!(decision.placements.keys().eq(targets.keys()));
        let mut sums: BTreeMap<&PodName, (u64, u64)> = BTreeMap::new();
        for (id, placed) in &decision.placements {
            let was = assigned.get(id);
            match &placed.pod {
                None => {
                    let expected = match placed.reason {
                        PlacementReason::CapacityReached => policy.overflow_policy == OverflowPolicy::Wait && was.is_none(),
                        _ => decision.pods.is_empty(),
                    };
                    prop_assert!(expected, "{id}: {placed:?}");
                }
                Some(pod) => {
                    let state = pods.get(pod).map(|it| it.state);
                    let ready = state == Some(PodState::Ready);
                    prop_assert!(ready || was == Some(pod), "{id}: {placed:?}");
                    prop_assert!(state.is_some() && state != Some(PodState::Ended));
                    prop_assert_eq!(placed.from.as_ref(), was.filter(|it| *it != pod));
                    let sum = sums.entry(pod).or_default();
                    *sum = (sum.0 + placed.weight.milli(), sum.1 + 1);
                }
            }
        }
        for (name, load) in &decision.pods {
            let sum = sums.get(name).copied().unwrap_or_default();
            prop_assert_eq!((load.millisamples_per_second, load.targets), sum);
        }
    }

    /// Scenario: any targets and a budget of moves. Guarantee: no more targets leave working pods
    /// than the budget allows, for whatever reason; those of other pods don't count.
    #[test]
    fn the_budget_of_moves_is_kept(
        targets in any_targets(), pods in any_pods(), assigned in any_assigned(),
        policy in any_policy(),
    ) {
        let decision = run(&targets, &pods, &assigned, &policy);
        let ready = |name: &PodName| pods.get(name).is_some_and(|it| it.state == PodState::Ready);
        let moved = decision.placements.values().filter(|it| it.from.as_ref().is_some_and(ready));
        let moved: Vec<_> = moved.collect();
        prop_assert!(moved.len() as u64 <= u64::from(policy.moves_max));
        prop_assert_eq!(moved.len() as u64, decision.figures.moved);
        let chosen = |reason| matches!(
            reason,
            PlacementReason::Balance { .. } | PlacementReason::OverCapacity { .. } | PlacementReason::Spread | PlacementReason::Zone
        );
        prop_assert!(moved.iter().all(|it| chosen(it.reason)), "{moved:?}");
    }

    /// Scenario: pods with a low limit of targets. Guarantee: none has more, and targets are
    /// omitted only while all pods are at the limit, also in the next decision.
    #[test]
    fn no_pod_has_more_targets_than_it_may(
        targets in any_targets(), pods in any_pods(), assigned in any_assigned(),
        policy in any_policy(), targets_max in 1..40u64,
    ) {
        let policy = SharingPolicy { overflow_policy: OverflowPolicy::Scrape, targets_max, ..unbounded(policy) };
        let first = run(&targets, &pods, &assigned, &policy);
        prop_assert!(first.pods.values().all(|pod| pod.targets <= targets_max));
        let left = first.placements.values().any(|placed| placed.reason == PlacementReason::PodsFull);
        prop_assert!(!left || first.pods.values().all(|pod| pod.targets == targets_max));
        let again = run(&targets, &pods, &first.to_assignment(), &policy);
        prop_assert!(again.pods.values().all(|pod| pod.targets <= targets_max));
        prop_assert_eq!(again.figures.rescued, 0);
    }

    /// Scenario: a decision with enough moves, then the same again. Guarantee: the second changes
    /// nothing.
    #[test]
    fn nothing_moves_when_nothing_changed(
        targets in any_targets(), pods in any_pods(), assigned in any_assigned(),
        policy in any_policy(),
    ) {
        let policy = SharingPolicy { overflow_policy: OverflowPolicy::Scrape, ..unbounded(policy) };
        let first = run(&targets, &pods, &assigned, &policy);
        let again = run(&targets, &pods, &first.to_assignment(), &policy);
        prop_assert_eq!(first.to_assignment(), again.to_assignment());
        prop_assert_eq!(again.figures.moved + again.figures.rescued, 0);
    }

    /// Scenario: a cap that isn't below the fair share, and enough moves. Guarantee: a pod exceeds
    /// it only if none of its targets would fit on the pod with the most capacity.
    #[test]
    fn the_cap_is_kept_while_another_pod_has_room(
        targets in any_targets(), pods in ready_pods(1..12u32), assigned in any_assigned(),
        policy in any_policy(), more_percent in 0..60u64,
    ) {
        let free = SharingPolicy { cap: None, ..unbounded(policy) };
        let fair = run(&targets, &pods, &assigned, &free).figures.fair_millisamples_per_second;
        let cap = Weight::new(fair + fair / 100 * more_percent);
        if cap.milli() < fair {
            // Above the maximum weight: such a cap can't be written.
            return Ok(());
        }
        let policy = SharingPolicy { cap: Some(cap), ..free };
        let decision = run(&targets, &pods, &assigned, &policy);
        let least = loads(&decision).into_iter().min().unwrap();
        for (id, placed) in &decision.placements {
            let Some(pod) = &placed.pod else { continue };
            let over = decision.pods[pod].over_cap;
            prop_assert_eq!(over, decision.pods[pod].millisamples_per_second > cap.milli());
            let fits = least + placed.weight.milli() <= cap.milli();
            prop_assert!(!(over && fits), "{id} {placed:?} {least} {cap:?}");
        }
    }

    /// Scenario: light targets on any pods. Guarantee: with enough moves all pods are within the
    /// tolerance, also where zones and jobs pull.
    #[test]
    fn loads_are_even_where_weights_allow(
        targets in fine_targets(), pods in ready_pods(1..12u32), assigned in any_assigned(),
        tolerance in 5..20u8, spread in any::<bool>(), zones in any::<bool>(),
    ) {
        let tolerance = Percent::new(tolerance);
        let policy = unbounded(SharingPolicy { tolerance, spread, zones, ..SharingPolicy::default() });
        let decision = run(&targets, &pods, &assigned, &policy);
        let fair = decision.figures.fair_millisamples_per_second;
        prop_assume!(1_000 * 1_000 <= fair * tolerance.permille());
        for load in loads(&decision) {
            prop_assert!(load * 1_000 <= fair * (1_000 + tolerance.permille()), "{load} {fair}");
            prop_assert!((load + 1) * 1_000 >= fair * (1_000 - tolerance.permille()));
        }
    }

    /// Scenario: an even pool loses a pod. Guarantee: its targets are placed in one decision; of
    /// the others, no more move than what is outside the tolerance without moves, and one target
    /// each.
    #[test]
    fn a_lost_pod_moves_its_load_and_what_the_tolerance_needs(
        targets in fine_targets(), pods in ready_pods(3..12u32), lost in 0..12usize,
    ) {
        let policy = unbounded(SharingPolicy { spread: false, zones: false, ..SharingPolicy::default() });
        let before = run(&targets, &pods, &Assigned::new(), &policy).to_assignment();
        let mut after = pods.clone();
        let lost = pods.keys().nth(lost % pods.len()).unwrap();
        after.get_mut(lost).unwrap().state = PodState::Ended;
        let still = run(&targets, &after, &before, &SharingPolicy { moves_max: 0, ..policy });
        let decision = run(&targets, &after, &before, &policy);
        let had = before.values().filter(|it| *it == lost).count() as u64;
        prop_assert_eq!((decision.figures.rescued, decision.figures.unplaced), (had, 0));
        let fair = decision.figures.fair_millisamples_per_second;
        prop_assume!(1_000 * 1_000 <= fair * 25);
        let outside = loads(&still).into_iter().map(|load| {
            let over = load.saturating_sub(fair * 1_025 / 1_000);
            let under = (fair * 975 / 1_000).saturating_sub(load);
            if load > fair * 1_050 / 1_000 || load < fair * 950 / 1_000 {
                over + under + 1_000
            } else {
                0
            }
        });
        prop_assert!(decision.figures.moved_millisamples_per_second <= outside.sum());
    }

    /// Scenario: the same sets, built in another order. Guarantee: the same decision with the same
    /// reasons.
    #[test]
    fn the_order_of_the_input_does_not_matter(
        targets in any_targets(), pods in any_pods(), assigned in any_assigned(),
        policy in any_policy(),
    ) {
        let reversed = (
            targets.clone().into_iter().rev().collect(),
            pods.clone().into_iter().rev().collect(),
            assigned.clone().into_iter().rev().collect(),
        );
        let first = run(&targets, &pods, &assigned, &policy);
        prop_assert_eq!(first, run(&reversed.0, &reversed.1, &reversed.2, &policy));
    }

    /// Scenario: a cap, light targets, and as many empty pods as the decision requested. Guarantee:
    /// none exceeds the cap.
    #[test]
    fn the_pods_that_are_asked_for_suffice(targets in fine_targets(), cap in 20_000..400_000u64) {
        let policy = unbounded(SharingPolicy { cap: Some(Weight::new(cap)), ..SharingPolicy::default() });
        let one = BTreeMap::from([(name(0), CandidatePod { state: PodState::Ready, zone: None })]);
        let needed = run(&targets, &one, &Assigned::new(), &policy).figures.needed_pods.unwrap();
        let pods = (0..needed as u32).map(|it| (name(it), one[&name(0)].clone())).collect();
        let decision = run(&targets, &pods, &Assigned::new(), &policy);
        prop_assume!(1_000 * 1_000 <= decision.figures.fair_millisamples_per_second * 50);
        prop_assert_eq!(decision.figures.pods_over_capacity, 0);
        prop_assert_eq!(decision.figures.needed_pods, Some(needed));
    }
}
