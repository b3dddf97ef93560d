//! Tests of what `pods/rates.rs` keeps to itself.

use super::*;
use crate::pods::ScrapeError;

fn facts(ordinal: u32) -> PodState {
    PodState {
        name: format!("p-{ordinal}"),
        ordinal: Some(ordinal),
        memory_limit_bytes: Some(1_000),
        cpu_limit_millicores: Some(2_000),
        ..PodState::default()
    }
}

fn sample(at: i64, cpu_seconds: f64, inserts: u64, slow_down: u64) -> Sample {
    Sample {
        at,
        cpu_seconds,
        inserts,
        insert_retries: [("slow_down".to_owned(), slow_down)].into(),
        resident_bytes: Some(600),
        ..Sample::default()
    }
}

fn none() -> MeteredPods {
    MeteredPods::new()
}

fn look(samples: Vec<(u32, Sample)>) -> Look {
    samples.into_iter().map(|(pod, sample)| (format!("p-{pod}"), Ok(sample))).collect()
}

/// Scenario: two looks ten seconds apart. Guarantee: processor time used as a share of the
/// limit, the share of inserts that the sink refused, over both pods.
#[test]
fn rates_come_from_two_looks() {
    let mut rates = PodRates::default();
    let pods = [facts(0), facts(1)];
    rates.note(&pods, &look(vec![(0, sample(0, 5.0, 10, 0)), (1, sample(0, 5.0, 10, 4))]), &none());
    assert_eq!((rates.pods.len(), rates.pods[0].value.busy), (2, None));
    assert_eq!(rates.sink, None, "nothing is known of a rate after one look");
    rates.note(
        &pods,
        &look(vec![(0, sample(10, 15.0, 20, 0)), (1, sample(10, 25.0, 20, 9))]),
        &none(),
    );
    let busy: Vec<_> = rates.pods.iter().map(|pod| pod.value.busy).collect();
    assert_eq!(busy, [Some(0.5), Some(1.0)]);
    assert_eq!(rates.sink, Some(Aged { seen_at: 10, value: Sink { pressure: 0.25 } }));
    // No insert since: nothing new is known of the sink.
    rates.note(&pods, &look(vec![(0, sample(20, 15.0, 20, 0))]), &none());
    assert_eq!(rates.sink.as_ref().map(|sink| sink.seen_at), Some(10));
}

/// Scenario: a pod stops answering, starts anew, and is gone. Guarantee: what it said stays
/// with its age; a new process' counters make no rate; a pod that isn't listed is forgotten.
#[test]
fn a_pod_that_does_not_answer_keeps_what_it_said_with_its_age() {
    let mut rates = PodRates::default();
    let pods = [facts(0)];
    rates.note(&pods, &look(vec![(0, sample(0, 50.0, 10, 0))]), &none());
    let cause = "silence".to_owned();
    let address = "10.0.0.1".parse().unwrap();
    let away = ScrapeError::Unreachable { pod: "p-0".into(), address, cause };
    rates.note(&pods, &[("p-0".to_owned(), Err(away))].into(), &none());
    assert_eq!((rates.pods.len(), rates.pods[0].seen_at), (1, 0));
    rates.note(&pods, &look(vec![(0, sample(20, 1.0, 2, 0))]), &none());
    assert_eq!((rates.pods[0].seen_at, rates.pods[0].value.busy), (20, None));
    rates.note(&[], &Look::new(), &none());
    assert!(rates.pods.is_empty());
}

/// Scenario: a pod was ended twice for its memory, and looked at in between more often.
/// Guarantee: each end counts once.
#[test]
fn each_end_for_lack_of_memory_counts_once() {
    let mut rates = PodRates::default();
    let mut pod = facts(0);
    for (at, ended, kills) in [(0, None, 0), (1, Some(1), 1), (2, Some(1), 1), (3, Some(3), 2)] {
        pod.out_of_memory_at = ended;
        rates.note(&[pod.clone()], &look(vec![(0, sample(at, 1.0, 0, 0))]), &none());
        assert_eq!(rates.pods[0].value.oom_kills, kills, "{at}");
    }
}

/// Scenario: a partition moves from one pod to another; for one look both count it. Guarantee:
/// it has no owner meanwhile.
#[test]
fn a_partition_that_two_pods_count_has_no_owner() {
    let mut rates = PodRates::default();
    let reads = |at: i64, partitions: &[i32]| Sample {
        at,
        lag_messages: partitions.iter().map(|it| (("t".to_owned(), *it), 0)).collect(),
        ..Sample::default()
    };
    let pods = [facts(0), facts(1)];
    rates.note(&pods, &look(vec![(0, reads(1, &[0, 1])), (1, reads(1, &[1, 2]))]), &none());
    let owners = [(("t".to_owned(), 0), 0), (("t".to_owned(), 2), 1)];
    assert_eq!(rates.owners, owners.into());
}

/// Scenario: a pod that doesn't answer is metered, more than once; then it answers. Guarantee:
/// the metered figures count with their own age, nothing older replaces what is known, and what
/// the pod says of itself wins.
#[test]
fn a_silent_pod_is_told_of_by_the_metrics_api() {
    let mut rates = PodRates::default();
    let pods = [facts(0)];
    let (pod, address) = ("p-0".to_owned(), "10.0.0.1".parse().unwrap());
    let cause = "silence".to_owned();
    let silent: Look =
        [(pod.clone(), Err(ScrapeError::Unreachable { pod, address, cause }))].into();
    let metered = |at: i64, memory_bytes: u64| -> MeteredPods {
        [("p-0".to_owned(), Metered { at, cpu_millicores: 500.0, memory_bytes })].into()
    };
    rates.note(&pods, &silent, &metered(10, 700));
    rates.note(&pods, &silent, &metered(5, 900));
    let told = rates.pods[0].clone();
    assert_eq!((told.seen_at, told.value.memory_bytes), (10, Some(700)));
    assert_eq!((told.value.busy, told.value.cpu_millicores), (Some(0.25), Some(500.0)));
    assert_eq!(rates.metered, [0].into());
    rates.note(&pods, &look(vec![(0, sample(20, 5.0, 0, 0))]), &metered(21, 900));
    assert_eq!(rates.pods[0].value.memory_bytes, Some(600));
    assert!(rates.metered.is_empty());
}
