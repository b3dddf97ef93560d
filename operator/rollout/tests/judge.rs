//! What the figures of a workload mean, case by case and over all figures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_rollout::{Moving, Observation, PodFigures, Stuck, Trouble, Verdict, judge};
use proptest::prelude::*;

fn complete(pods: u32) -> Observation {
    Observation {
        generation: 2,
        observed_generation: Some(2),
        wanted: pods,
        existing: pods,
        updated: pods,
        ready: pods,
        available: pods,
        ..Observation::default()
    }
}

fn pod(waiting: &str) -> PodFigures {
    PodFigures { name: "p".into(), waiting: Some(waiting.into()), ..PodFigures::default() }
}

/// Scenario: all pods new and available. Guarantee: complete, whatever the number of pods.
#[test]
fn all_pods_new_and_available_is_complete() {
    assert_eq!(judge(&complete(3)), Verdict::Complete);
    assert_eq!(judge(&complete(0)), Verdict::Complete);
}

/// Scenario: perfect figures, but of the spec before. Guarantee: never complete.
#[test]
fn figures_of_an_older_generation_are_never_complete() {
    let stale = Observation { observed_generation: Some(1), ..complete(3) };
    assert_eq!(judge(&stale), Verdict::Moving(Moving::NotSeen));
    let unseen = Observation { observed_generation: None, ..complete(3) };
    assert_eq!(judge(&unseen), Verdict::Moving(Moving::NotSeen));
}

/// Scenario: the new pods are up, one old pod still drains. Guarantee: moving, not complete.
#[test]
fn a_pod_too_many_is_still_moving() {
    let surplus = Observation { existing: 4, ..complete(3) };
    assert_eq!(judge(&surplus), Verdict::Moving(Moving::Ending { surplus: 1 }));
}

/// Scenario: each trouble a pod can have. Guarantee: stuck with the trouble's own name.
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
        (PodFigures { unschedulable: true, ..PodFigures::default() }, Trouble::Unschedulable),
    ];
    for (figures, wanted) in cases {
        let seen = Observation { available: 2, pods: vec![figures], ..complete(3) };
        match judge(&seen) {
            Verdict::Stuck(Stuck::Pods { trouble, count: 1, .. }) => assert_eq!(trouble, wanted),
            other => panic!("{wanted:?}: {other:?}"),
        }
    }
}

/// Scenario: a pod is just being made. Guarantee: that is moving, not stuck.
#[test]
fn a_container_being_made_is_no_trouble() {
    let seen = Observation { available: 2, pods: vec![pod("ContainerCreating")], ..complete(3) };
    assert_eq!(judge(&seen), Verdict::Moving(Moving::Starting { available: 2, wanted: 3 }));
}

/// Scenario: a quota forbids pods. Guarantee: stuck with the API server's own words.
#[test]
fn refused_pods_are_told_in_the_api_servers_words() {
    let seen =
        Observation { updated: 1, creation_refused: Some("exceeded quota".into()), ..complete(3) };
    let wanted = Stuck::Refused { message: "exceeded quota".into() };
    assert_eq!(judge(&seen), Verdict::Stuck(wanted));
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let numbers = (0u32..5, 0u32..5, 0u32..5, 0u32..5, 0u32..5);
    let waiting = prop::option::of(prop::sample::select(vec![
        "ImagePullBackOff".to_owned(),
        "CrashLoopBackOff".to_owned(),
        "ContainerCreating".to_owned(),
    ]));
    let pods = prop::collection::vec(waiting, 0..3);
    (1i64..4, prop::option::of(0i64..4), numbers, any::<bool>(), pods).prop_map(
        |(generation, observed_generation, (w, e, u, r, a), deadline_exceeded, pods)| Observation {
            generation,
            observed_generation,
            wanted: w,
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
        },
    )
}

proptest! {
    /// Scenario: any figures. Guarantee: complete means seen, all updated, all available, none
    /// left.
    #[test]
    fn complete_is_never_a_lie(seen in any_observation()) {
        let truly = seen.observed_generation.is_some_and(|o| o >= seen.generation)
            && seen.updated >= seen.wanted
            && seen.available >= seen.wanted
            && seen.existing <= seen.wanted;
        prop_assert_eq!(judge(&seen) == Verdict::Complete, truly);
    }

    /// Scenario: any figures, then one more pod becomes available. Guarantee: a complete rollout
    /// does not become incomplete by it.
    #[test]
    fn more_available_pods_never_make_it_worse(seen in any_observation()) {
        let better = Observation { available: seen.available + 1, ..seen.clone() };
        if judge(&seen) == Verdict::Complete {
            prop_assert_eq!(judge(&better), Verdict::Complete);
        }
    }
}
