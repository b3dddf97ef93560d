//! What a rollout never does, whatever is observed and declared in whatever order.

use millrace_rollout::{
    Canary, CanaryVerdict, Cause, FaultKind, LoadFigures, Member, PodFigures, Precondition,
    RolloutObservation, RolloutPlan, RolloutPolicy, RolloutProgress, RolloutState, Stage, Unit,
    UnitFault, Wish, compare_loads, step_rollout,
};
use proptest::prelude::*;

fn unit() -> impl Strategy<Value = Unit> {
    (0..3u8).prop_map(|it| Unit { image: format!("i{it}"), ..Unit::default() })
}

fn load() -> impl Strategy<Value = LoadFigures> {
    let cpu = prop_oneof![0.0..100.0, Just(f64::NAN), Just(-1.0), Just(f64::INFINITY)];
    let records = prop_oneof![0..200_000u64, any::<u64>()];
    (records.clone(), records, any::<u64>(), cpu, 0..20u64, any::<Option<i64>>()).prop_map(
        |(records_in, records_out, resident_bytes, cpu_seconds, insert_failures, lag_change)| {
            LoadFigures {
                seconds: 60.0,
                records_in,
                records_out,
                cpu_seconds,
                resident_bytes,
                insert_failures,
                lag_change,
                ..LoadFigures::default()
            }
        },
    )
}

fn member() -> impl Strategy<Value = Member> {
    let word = prop_oneof![
        6 => Just(None),
        1 => Just(Some("ImagePullBackOff".to_owned())),
        1 => Just(Some("CrashLoopBackOff".to_owned())),
    ];
    let code = prop_oneof![8 => Just(None), 1 => Just(Some(64)), 1 => Just(Some(1))];
    (any::<bool>(), any::<bool>(), prop_oneof![0..10i64, 0..400i64], 0..3u32, code, word).prop_map(
        |(updated, ready, not_ready_seconds, restarts, exit_code, waiting)| Member {
            figures: PodFigures {
                name: "p".into(),
                waiting,
                node_lost: not_ready_seconds % 3 == 0,
                ..PodFigures::default()
            },
            updated,
            ready,
            not_ready_seconds,
            restarts,
            exit_code,
            termination_message: String::new(),
        },
    )
}

fn observation() -> impl Strategy<Value = RolloutObservation> {
    let wish =
        prop_oneof![6 => Just(Wish::Continue), 1 => Just(Wish::Pause), 1 => Just(Wish::Abort)];
    let loads = || prop::collection::vec(load(), 0..3);
    let members = prop::collection::vec(member(), 0..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0..600i64, unit(), 0..2u8, wish, 0..6u32, flags, members, loads(), loads()).prop_map(
        |(now, wanted, key, wish, size, flags, members, new_loads, old_loads)| RolloutObservation {
            now,
            // The declared unit and its key change together, but the key may change alone.
            key: format!("{}-{key}", wanted.image),
            declared: wanted,
            running: Some(Unit { image: "i0".into(), ..Unit::default() }),
            wish,
            first: if flags.0 { Precondition::Done } else { Precondition::Waits },
            size,
            is_spec_observed: flags.1,
            complete: flags.2,
            allowed: size,
            members,
            stays: flags.3.then(|| UnitFault::new(FaultKind::PodsNotReady, "stays")),
            broker_away: flags.4,
            new_loads,
            old_loads,
        },
    )
}

fn policy() -> impl Strategy<Value = RolloutPolicy> {
    let canary =
        (0..4u32, 0..100i64).prop_map(|(pods, analysis_seconds)| Canary { pods, analysis_seconds });
    (prop::option::of(canary), any::<bool>())
        .prop_map(|(canary, rolls_back)| RolloutPolicy { canary, rolls_back })
}

fn stage() -> impl Strategy<Value = Stage> {
    let point = || {
        prop_oneof![
            Just(RolloutProgress::Waiting),
            Just(RolloutProgress::Canary),
            Just(RolloutProgress::Analyzing),
            any::<u32>().prop_map(|pods| RolloutProgress::Promoting { pods }),
        ]
    };
    let cause = || {
        prop_oneof![
            Just(Cause::Aborted),
            Just(Cause::Failed(UnitFault::new(FaultKind::CanarySlower, "slow"))),
        ]
    };
    prop_oneof![
        Just(Stage::Stable),
        point().prop_map(Stage::Moving),
        point().prop_map(Stage::Paused),
        cause().prop_map(Stage::RollingBack),
        cause().prop_map(Stage::RolledBack),
    ]
}

fn state() -> impl Strategy<Value = RolloutState> {
    (stage(), any::<i64>(), prop::option::of(unit()), unit(), 0..2u8, any::<u32>()).prop_map(
        |(stage, since, before, after, key, attempts)| RolloutState {
            stage,
            since,
            before,
            key: format!("{}-{key}", after.image),
            after,
            attempts,
        },
    )
}

fn pods(plan: RolloutPlan) -> u32 {
    match plan {
        RolloutPlan::All => u32::MAX,
        RolloutPlan::Split { pods } => pods,
        RolloutPlan::Previous => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Scenario: any stored state, even one that no rollout leaves behind, and any observation.
    /// Guarantee: no panic, and the new state is about the declared unit.
    #[test]
    fn any_state_and_any_look_give_a_step(
        last in prop::option::of(state()), seen in observation(), policy in policy(),
    ) {
        let step = step_rollout(last.as_ref(), &seen, &policy);
        prop_assert_eq!(&step.state.key, &seen.key);
        prop_assert!(step.state.after.runs_as(&seen.declared));
        if let RolloutPlan::Split { pods } = step.plan {
            let states = [Some(&step.state), last.as_ref()].into_iter().flatten();
            let is_paused = states.map(|it| &it.stage).any(|it| matches!(it, Stage::Paused(_)));
            prop_assert!((pods >= 1 || is_paused) && pods <= seen.size.max(1));
        }
        if step.plan == RolloutPlan::Previous {
            prop_assert!(step.state.before.is_some(), "{step:?}");
        }
    }

    /// Scenario: any order of observations. Guarantee: more pods get a unit only with no pod's
    /// fault and no failing comparison; none does while paused; a unit that was rolled back stays
    /// so until the spec changes; `Stable` is left only for another unit.
    #[test]
    fn no_order_of_looks_promotes_what_fails(
        looks in prop::collection::vec(observation(), 1..60), policy in policy(),
    ) {
        let mut last: Option<(RolloutState, RolloutPlan, u32)> = None;
        for seen in looks {
            let step = step_rollout(last.as_ref().map(|it| &it.0), &seen, &policy);
            if let Some((before, plan, size)) = &last {
                let same = before.key == seen.key
                    && before.after.runs_as(&seen.declared)
                    && step.state.before == before.before;
                let moves = matches!(before.stage, Stage::Moving(point) if point != RolloutProgress::Waiting);
                // A pool that grows lets the pods have it that the previous plan allowed.
                if same && moves && pods(step.plan) > pods(*plan) && seen.size <= *size {
                    let fault = seen.members.iter().find_map(|it| it.updated.then(|| it.find_fault())?);
                    prop_assert_eq!(fault, None);
                    if step.plan != RolloutPlan::All {
                        let judged = compare_loads(&seen.new_loads, &seen.old_loads);
                        prop_assert!(!matches!(judged, CanaryVerdict::Failed(_)));
                    }
                    prop_assert_eq!(seen.wish, Wish::Continue);
                }
                let taken_back = matches!(before.stage, Stage::RollingBack(_) | Stage::RolledBack(_));
                if same && taken_back {
                    prop_assert_eq!(step.plan, RolloutPlan::Previous);
                    let still = matches!(step.state.stage, Stage::RollingBack(_) | Stage::RolledBack(_));
                    prop_assert!(still);
                }
                if before.stage == Stage::Stable && before.after.runs_as(&seen.declared) {
                    prop_assert_eq!(step.plan, RolloutPlan::All);
                    prop_assert_eq!(&step.state.after, &before.after);
                }
                if seen.wish == Wish::Abort && !before.after.runs_as(&seen.declared) {
                    prop_assert!(step.plan == RolloutPlan::Previous || step.state.stage == Stage::Stable);
                }
            }
            last = Some((step.state, step.plan, seen.size));
        }
    }

    /// Scenario: a fault in a unit's first pod, from any point on, then quiet. Guarantee: the
    /// rollout ends in the old unit.
    #[test]
    fn a_rollback_always_ends_in_the_old_unit(
        looks in prop::collection::vec(observation(), 1..30), policy in policy(),
    ) {
        let policy = RolloutPolicy { rolls_back: true, ..policy };
        let (old, new) = (unit_of("old"), unit_of("new"));
        let asked = |mut seen: RolloutObservation| {
            (seen.declared, seen.key, seen.running) = (new.clone(), "k".into(), Some(old.clone()));
            seen
        };
        let mut last: Option<RolloutState> = None;
        for seen in looks {
            last = Some(step_rollout(last.as_ref(), &asked(seen), &policy).state);
            if last.as_ref().is_some_and(|it| it.stage == Stage::Stable) {
                return Ok(());
            }
        }
        let bad = Member { updated: true, exit_code: Some(64), ..Member::default() };
        let quiet = RolloutObservation {
            size: 3,
            first: Precondition::Done,
            is_spec_observed: true,
            complete: true,
            members: vec![bad],
            ..RolloutObservation::default()
        };
        let mut end = None;
        for _ in 0..4 {
            let step = step_rollout(last.as_ref(), &asked(quiet.clone()), &policy);
            last = Some(step.state.clone());
            end = Some(step);
        }
        let end = end.unwrap();
        prop_assert!(matches!(end.state.stage, Stage::RolledBack(_)), "{:?}", end.state.stage);
        prop_assert_eq!(end.plan, RolloutPlan::Previous);
        prop_assert_eq!(end.state.before.unwrap(), old);
    }
}

fn unit_of(image: &str) -> Unit {
    Unit { image: image.into(), ..Unit::default() }
}
