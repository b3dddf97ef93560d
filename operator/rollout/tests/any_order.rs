//! What a rollout never does, whatever is seen and asked in whatever order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_rollout::{
    Canary, Cause, Fault, FaultKind, First, Judgement, Load, Member, Plan, PodFigures, Point,
    Policy, Seen, Stage, State, Unit, Wish, compare, step,
};
use proptest::prelude::*;

fn unit() -> impl Strategy<Value = Unit> {
    (0..3u8).prop_map(|it| Unit { image: format!("i{it}"), ..Unit::default() })
}

fn load() -> impl Strategy<Value = Load> {
    let cpu = prop_oneof![0.0..100.0, Just(f64::NAN), Just(-1.0), Just(f64::INFINITY)];
    let records = prop_oneof![0..200_000u64, any::<u64>()];
    (records.clone(), records, any::<u64>(), cpu, 0..20u64, any::<Option<i64>>()).prop_map(
        |(records_in, records_out, resident_bytes, cpu_seconds, insert_failures, lag_change)| {
            Load {
                seconds: 60.0,
                records_in,
                records_out,
                cpu_seconds,
                resident_bytes,
                insert_failures,
                lag_change,
                ..Load::default()
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
            last_words: String::new(),
        },
    )
}

fn seen() -> impl Strategy<Value = Seen> {
    let wish = prop_oneof![6 => Just(Wish::Go), 1 => Just(Wish::Pause), 1 => Just(Wish::Abort)];
    let loads = || prop::collection::vec(load(), 0..3);
    let members = prop::collection::vec(member(), 0..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0..600i64, unit(), 0..2u8, wish, 0..6u32, flags, members, loads(), loads()).prop_map(
        |(now, wanted, key, wish, size, flags, members, new_loads, old_loads)| Seen {
            now,
            // What is asked for and its key go together, but the key may change alone.
            key: format!("{}-{key}", wanted.image),
            wanted,
            running: Some(Unit { image: "i0".into(), ..Unit::default() }),
            wish,
            first: if flags.0 { First::Done } else { First::Waits },
            size,
            taken_up: flags.1,
            complete: flags.2,
            members,
            stays: flags.3.then(|| Fault::new(FaultKind::PodsNotReady, "stays")),
            broker_away: flags.4,
            new_loads,
            old_loads,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let canary =
        (0..4u32, 0..100i64).prop_map(|(pods, judge_seconds)| Canary { pods, judge_seconds });
    (prop::option::of(canary), any::<bool>())
        .prop_map(|(canary, rolls_back)| Policy { canary, rolls_back })
}

fn stage() -> impl Strategy<Value = Stage> {
    let point = || {
        prop_oneof![
            Just(Point::Waiting),
            Just(Point::Canary),
            Just(Point::Judging),
            any::<u32>().prop_map(|pods| Point::Promoting { pods }),
        ]
    };
    let cause = || {
        prop_oneof![
            Just(Cause::Aborted),
            Just(Cause::Failed(Fault::new(FaultKind::CanarySlower, "slow"))),
        ]
    };
    prop_oneof![
        Just(Stage::Stable),
        point().prop_map(Stage::Moving),
        point().prop_map(Stage::Paused),
        cause().prop_map(Stage::Returning),
        cause().prop_map(Stage::Returned),
    ]
}

fn state() -> impl Strategy<Value = State> {
    (stage(), any::<i64>(), prop::option::of(unit()), unit(), 0..2u8, any::<u32>()).prop_map(
        |(stage, since, before, after, key, attempts)| State {
            stage,
            since,
            before,
            key: format!("{}-{key}", after.image),
            after,
            attempts,
        },
    )
}

fn pods(plan: Plan) -> u32 {
    match plan {
        Plan::Whole => u32::MAX,
        Plan::Split { pods } => pods,
        Plan::Old => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Scenario: any remembered state, even one that no rollout leaves behind, and anything seen.
    /// Guarantee: no panic, and what is remembered is about what is asked for.
    #[test]
    fn any_state_and_any_look_give_a_step(
        last in prop::option::of(state()), seen in seen(), policy in policy(),
    ) {
        let step = step(last.as_ref(), &seen, &policy);
        prop_assert_eq!(&step.state.key, &seen.key);
        prop_assert!(step.state.after.runs_as(&seen.wanted));
        if let Plan::Split { pods } = step.plan {
            prop_assert!(pods >= 1 && pods <= seen.size.max(1));
        }
        if step.plan == Plan::Old {
            prop_assert!(step.state.before.is_some(), "{step:?}");
        }
    }

    /// Scenario: any order of looks. Guarantee: pods beyond those that have it get a unit only with
    /// no pod's fault and no failing comparison; while paused none does; what was taken back stays
    /// so until something else is asked for; `Stable` is left only for another unit.
    #[test]
    fn no_order_of_looks_promotes_what_fails(
        looks in prop::collection::vec(seen(), 1..60), policy in policy(),
    ) {
        let mut last: Option<(State, Plan, u32)> = None;
        for seen in looks {
            let step = step(last.as_ref().map(|it| &it.0), &seen, &policy);
            if let Some((before, plan, size)) = &last {
                let same = before.key == seen.key
                    && before.after.runs_as(&seen.wanted)
                    && step.state.before == before.before;
                let moves = matches!(before.stage, Stage::Moving(point) if point != Point::Waiting);
                // A pool that grows lets pods have it that were allowed before.
                if same && moves && pods(step.plan) > pods(*plan) && seen.size <= *size {
                    let fault = seen.members.iter().find_map(|it| it.updated.then(|| it.fault())?);
                    prop_assert_eq!(fault, None);
                    if step.plan != Plan::Whole {
                        let judged = compare(&seen.new_loads, &seen.old_loads);
                        prop_assert!(!matches!(judged, Judgement::Failed(_)));
                    }
                    prop_assert_eq!(seen.wish, Wish::Go);
                }
                let taken_back = matches!(before.stage, Stage::Returning(_) | Stage::Returned(_));
                if same && taken_back {
                    prop_assert_eq!(step.plan, Plan::Old);
                    let still = matches!(step.state.stage, Stage::Returning(_) | Stage::Returned(_));
                    prop_assert!(still);
                }
                if before.stage == Stage::Stable && before.after.runs_as(&seen.wanted) {
                    prop_assert_eq!(step.plan, Plan::Whole);
                    prop_assert_eq!(&step.state.after, &before.after);
                }
                if seen.wish == Wish::Abort && !before.after.runs_as(&seen.wanted) {
                    prop_assert!(step.plan == Plan::Old || step.state.stage == Stage::Stable);
                }
            }
            last = Some((step.state, step.plan, seen.size));
        }
    }

    /// Scenario: a fault in a unit's first pod, from any point on, then quiet. Guarantee: it ends in
    /// the old unit.
    #[test]
    fn a_rollback_always_ends_in_the_old_unit(
        looks in prop::collection::vec(seen(), 1..30), policy in policy(),
    ) {
        let policy = Policy { rolls_back: true, ..policy };
        let (old, new) = (unit_of("old"), unit_of("new"));
        let asked = |mut seen: Seen| {
            (seen.wanted, seen.key, seen.running) = (new.clone(), "k".into(), Some(old.clone()));
            seen
        };
        let mut last: Option<State> = None;
        for seen in looks {
            last = Some(step(last.as_ref(), &asked(seen), &policy).state);
            if last.as_ref().is_some_and(|it| it.stage == Stage::Stable) {
                return Ok(());
            }
        }
        let bad = Member { updated: true, exit_code: Some(64), ..Member::default() };
        let quiet = Seen {
            size: 3,
            first: First::Done,
            taken_up: true,
            complete: true,
            members: vec![bad],
            ..Seen::default()
        };
        let mut end = None;
        for _ in 0..4 {
            let step = step(last.as_ref(), &asked(quiet.clone()), &policy);
            last = Some(step.state.clone());
            end = Some(step);
        }
        let end = end.unwrap();
        prop_assert!(matches!(end.state.stage, Stage::Returned(_)), "{:?}", end.state.stage);
        prop_assert_eq!(end.plan, Plan::Old);
        prop_assert_eq!(end.state.before.unwrap(), old);
    }
}

fn unit_of(image: &str) -> Unit {
    Unit { image: image.into(), ..Unit::default() }
}
