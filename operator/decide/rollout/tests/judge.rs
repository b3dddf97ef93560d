//! Tests of the assessment of a workload's figures, case by case and over all figures.

use millrace_rollout::{
    Moving, PodFigures, RolloutVerdict, Stuck, Trouble, WorkloadObservation, assess_rollout,
};
use proptest::prelude::*;

fn complete(pods: u32) -> WorkloadObservation {
    WorkloadObservation {
        generation: 2,
        observed_generation: Some(2),
        desired: pods,
        existing: pods,
        updated: pods,
        ready: pods,
        available: pods,
        ..WorkloadObservation::default()
    }
}

fn pod(waiting: &str) -> PodFigures {
    PodFigures { name: "p".into(), waiting: Some(waiting.into()), ..PodFigures::default() }
}

/// Scenario: all pods are new and available. Guarantee: complete, whatever the number of pods.
#[test]
fn all_pods_new_and_available_is_complete() {
    assert_eq!(assess_rollout(&complete(3)), RolloutVerdict::Complete);
    assert_eq!(assess_rollout(&complete(0)), RolloutVerdict::Complete);
}

/// Scenario: perfect figures, but of the previous spec. Guarantee: never complete.
#[test]
fn figures_of_an_older_generation_are_never_complete() {
    let stale = WorkloadObservation { observed_generation: Some(1), ..complete(3) };
    assert_eq!(assess_rollout(&stale), RolloutVerdict::Moving(Moving::NotObserved));
    let unseen = WorkloadObservation { observed_generation: None, ..complete(3) };
    assert_eq!(assess_rollout(&unseen), RolloutVerdict::Moving(Moving::NotObserved));
}

/// Scenario: the new pods are up, one old pod still drains. Guarantee: moving, not complete.
#[test]
fn a_pod_too_many_is_still_moving() {
    let surplus = WorkloadObservation { existing: 4, ..complete(3) };
    assert_eq!(assess_rollout(&surplus), RolloutVerdict::Moving(Moving::Ending { surplus: 1 }));
}

/// Scenario: each trouble that a pod can have. Guarantee: stuck with that trouble.
#[test]
fn each_trouble_is_told_apart() {
    let cases = [
        (pod("ImagePullBackOff"), Trouble::ImagePull),
        (pod("CreateContainerConfigError"), Trouble::Configuration),
        (pod("CrashLoopBackOff"), Trouble::CrashLoop),
        (
            PodFigures { last_ended: Some("OOMKilled".into()), ..pod("CrashLoopBackOff") },
            Trouble::OutOfMemory,
        ),
        (PodFigures { restarts: 3, ..PodFigures::default() }, Trouble::CrashLoop),
        (no_node(300), Trouble::Unschedulable),
    ];
    for (figures, wanted) in cases {
        let seen = WorkloadObservation { available: 2, pods: vec![figures], ..complete(3) };
        match assess_rollout(&seen) {
            RolloutVerdict::Stuck(Stuck::Pods { trouble, count: 1, .. }) => {
                assert_eq!(trouble, wanted)
            }
            other => panic!("{wanted:?}: {other:?}"),
        }
    }
}

fn no_node(seconds: i64) -> PodFigures {
    PodFigures { unschedulable_seconds: Some(seconds), ..PodFigures::default() }
}

/// Scenario: a pod has no node for less than five minutes, alone and where another can't pull its
/// image. Guarantee: a cluster autoscaler has time to add a node: moving, or stuck for the image.
#[test]
fn a_cluster_autoscaler_has_time_to_make_a_node() {
    let of = |pods| WorkloadObservation { available: 2, pods, ..complete(3) };
    let moving = RolloutVerdict::Moving(Moving::Starting { available: 2, desired: 3 });
    assert_eq!(assess_rollout(&of(vec![no_node(299)])), moving);
    let verdict = assess_rollout(&of(vec![no_node(299), pod("ImagePullBackOff")]));
    let is_stuck = |verdict: &RolloutVerdict| {
        matches!(verdict, RolloutVerdict::Stuck(Stuck::Pods { trouble: Trouble::ImagePull, .. }))
    };
    assert!(is_stuck(&verdict), "{verdict:?}");
}

/// Scenario: a pod is being created. Guarantee: moving, not stuck.
#[test]
fn a_container_being_made_is_no_trouble() {
    let seen =
        WorkloadObservation { available: 2, pods: vec![pod("ContainerCreating")], ..complete(3) };
    assert_eq!(
        assess_rollout(&seen),
        RolloutVerdict::Moving(Moving::Starting { available: 2, desired: 3 })
    );
}

/// Scenario: a quota forbids pods. Guarantee: stuck with the API server's own message.
#[test]
fn refused_pods_are_told_in_the_api_servers_words() {
    let seen = WorkloadObservation {
        updated: 1,
        creation_refused: Some("exceeded quota".into()),
        ..complete(3)
    };
    let wanted = Stuck::Refused { message: "exceeded quota".into() };
    assert_eq!(assess_rollout(&seen), RolloutVerdict::Stuck(wanted));
}

fn any_observation() -> impl Strategy<Value = WorkloadObservation> {
    let numbers = (0u32..5, 0u32..5, 0u32..5, 0u32..5, 0u32..5);
    let waiting = prop::option::of(prop::sample::select(vec![
        "ImagePullBackOff".to_owned(),
        "CrashLoopBackOff".to_owned(),
        "ContainerCreating".to_owned(),
    ]));
    let pods = prop::collection::vec(waiting, 0..3);
    (1i64..4, prop::option::of(0i64..4), numbers, any::<bool>(), pods).prop_map(
        |(generation, observed_generation, (w, e, u, r, a), deadline_exceeded, pods)| {
            WorkloadObservation {
                generation,
                observed_generation,
                desired: w,
                existing: e,
                updated: u,
                ready: r,
                available: a,
                deadline_exceeded,
                creation_refused: None,
                pods: pods
                    .into_iter()
                    .map(|waiting| PodFigures { waiting, ..PodFigures::default() })
                    .collect(),
            }
        },
    )
}

proptest! {
    /// Scenario: any figures. Guarantee: complete means observed, all updated, all available, none
    /// left.
    #[test]
    fn complete_is_never_a_lie(seen in any_observation()) {
        let truly = seen.observed_generation.is_some_and(|o| o >= seen.generation)
            && seen.updated >= seen.desired
            && seen.available >= seen.desired
            && seen.existing <= seen.desired;
        prop_assert_eq!(assess_rollout(&seen) == RolloutVerdict::Complete, truly);
    }

    /// Scenario: any figures, then one more pod becomes available. Guarantee: a complete rollout
    /// stays complete.
    #[test]
    fn more_available_pods_never_make_it_worse(seen in any_observation()) {
        let better = WorkloadObservation { available: seen.available + 1, ..seen.clone() };
        if assess_rollout(&seen) == RolloutVerdict::Complete {
            prop_assert_eq!(assess_rollout(&better), RolloutVerdict::Complete);
        }
    }
}
