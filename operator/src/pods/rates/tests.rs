//! Tests of the private parts of `pods/rates.rs`.

use super::*;
use crate::pods::ScrapeError;

fn facts(ordinal: u32) -> PodState {
    PodState {
        name: format!("p-{ordinal}"),
        ordinal: Some(ordinal),
        address: Some([10, 0, 0, 1].into()),
        memory_limit_bytes: Some(1_000),
        cpu_limit_millicores: Some(2_000),
        ..PodState::default()
    }
}

fn sample(at: i64, cpu_seconds: f64, inserts: u64, slow_down: u64) -> PodSample {
    PodSample {
        at,
        cpu_seconds,
        inserts,
        insert_retries: [("slow_down".to_owned(), slow_down)].into(),
        resident_bytes: Some(600),
        ..PodSample::default()
    }
}

fn none() -> UsageByPod {
    UsageByPod::new()
}

fn look(samples: Vec<(u32, PodSample)>) -> ScrapeResults {
    samples.into_iter().map(|(pod, sample)| (format!("p-{pod}"), Ok(Arc::new(sample)))).collect()
}

/// Scenario: two samples ten seconds apart. Guarantee: processor time as a share of the limit, and
/// the share of inserts that the sink refused, over both pods.
#[test]
fn rates_come_from_two_looks() {
    let mut rates = PodRates::default();
    let pods = [facts(0), facts(1)];
    rates.record_pods(
        &pods,
        &look(vec![(0, sample(0, 5.0, 10, 0)), (1, sample(0, 5.0, 10, 4))]),
        &none(),
    );
    assert_eq!((rates.pods.len(), rates.pods[0].value.busy), (2, None));
    assert_eq!(rates.sink, None, "nothing is known of a rate after one look");
    rates.record_pods(
        &pods,
        &look(vec![(0, sample(10, 15.0, 20, 0)), (1, sample(10, 25.0, 20, 9))]),
        &none(),
    );
    let busy: Vec<_> = rates.pods.iter().map(|pod| pod.value.busy).collect();
    assert_eq!(busy, [Some(0.5), Some(1.0)]);
    assert_eq!(rates.sink, Some(Aged { observed_at: 10, value: SinkReport { pressure: 0.25 } }));
    // There was no insert since: the sink's figure is unchanged.
    rates.record_pods(&pods, &look(vec![(0, sample(20, 15.0, 20, 0))]), &none());
    assert_eq!(rates.sink.as_ref().map(|sink| sink.observed_at), Some(10));
}

/// Scenario: a pod that answered is recreated and finds no node. Guarantee: it isn't silent: its
/// predecessor's figures are dropped, and those of the others remain.
#[test]
fn a_pod_without_a_node_is_not_silent() {
    let mut rates = PodRates::default();
    let samples = vec![(0, sample(0, 5.0, 10, 0)), (1, sample(0, 5.0, 10, 4))];
    rates.record_pods(&[facts(0), facts(1)], &look(samples), &none());
    let pending = PodState { address: None, ..facts(1) };
    rates.record_pods(&[facts(0), pending], &look(vec![(0, sample(10, 6.0, 11, 0))]), &none());
    let ordinals: Vec<u32> = rates.pods.iter().map(|pod| pod.value.ordinal).collect();
    assert_eq!((ordinals, rates.listed), (vec![0], 2));
}

/// Scenario: a pod stops answering, restarts, and is deleted. Guarantee: its last figures remain
/// with their age; a new process' counters give no rate; a pod that isn't listed is dropped.
#[test]
fn a_pod_that_does_not_answer_keeps_what_it_said_with_its_age() {
    let mut rates = PodRates::default();
    let pods = [facts(0)];
    rates.record_pods(&pods, &look(vec![(0, sample(0, 50.0, 10, 0))]), &none());
    let cause = "silence".to_owned();
    let address = "10.0.0.1".parse().unwrap();
    let away = ScrapeError::Unreachable { pod: "p-0".into(), address, cause };
    rates.record_pods(&pods, &[("p-0".to_owned(), Err(away))].into(), &none());
    assert_eq!((rates.pods.len(), rates.pods[0].observed_at), (1, 0));
    rates.record_pods(&pods, &look(vec![(0, sample(20, 1.0, 2, 0))]), &none());
    assert_eq!((rates.pods[0].observed_at, rates.pods[0].value.busy), (20, None));
    rates.record_pods(&[], &ScrapeResults::new(), &none());
    assert!(rates.pods.is_empty());
}

/// Scenario: a pod was killed for its memory two times, and sampled more often in between.
/// Guarantee: each kill counts once.
#[test]
fn each_end_for_lack_of_memory_counts_once() {
    let mut rates = PodRates::default();
    let mut pod = facts(0);
    for (at, ended, kills) in [(0, None, 0), (1, Some(1), 1), (2, Some(1), 1), (3, Some(3), 2)] {
        pod.out_of_memory_at = ended;
        rates.record_pods(&[pod.clone()], &look(vec![(0, sample(at, 1.0, 0, 0))]), &none());
        assert_eq!(rates.pods[0].value.oom_kills, kills, "{at}");
    }
}

/// Scenario: a partition moves from one pod to another; in one sample both report it. Guarantee: it
/// has no owner in that sample.
#[test]
fn a_partition_that_two_pods_count_has_no_owner() {
    let mut rates = PodRates::default();
    let reads = |at: i64, partitions: &[i32]| PodSample {
        at,
        lag_messages: partitions.iter().map(|it| (("t".to_owned(), *it), 0)).collect(),
        ..PodSample::default()
    };
    let pods = [facts(0), facts(1)];
    rates.record_pods(&pods, &look(vec![(0, reads(1, &[0, 1])), (1, reads(1, &[1, 2]))]), &none());
    assert_eq!(rates.partition_owners(), [(("t", 0), 0), (("t", 2), 1)].into());
}

/// Scenario: a silent pod is measured more than once; then it answers. Guarantee: the measurements
/// count with their own age, nothing older replaces known figures, and the pod's own figures take
/// precedence.
#[test]
fn a_silent_pod_is_told_of_by_the_metrics_api() {
    let mut rates = PodRates::default();
    let pods = [facts(0)];
    let (pod, address) = ("p-0".to_owned(), "10.0.0.1".parse().unwrap());
    let cause = "silence".to_owned();
    let silent: ScrapeResults =
        [(pod.clone(), Err(ScrapeError::Unreachable { pod, address, cause }))].into();
    let metered = |at: i64, memory_bytes: u64| -> UsageByPod {
        [("p-0".to_owned(), PodUsage { at, cpu_millicores: 500.0, memory_bytes })].into()
    };
    rates.record_pods(&pods, &silent, &metered(10, 700));
    rates.record_pods(&pods, &silent, &metered(5, 900));
    let told = rates.pods[0].clone();
    assert_eq!((told.observed_at, told.value.memory_bytes), (10, Some(700)));
    assert_eq!((told.value.busy, told.value.cpu_millicores), (Some(0.25), Some(500.0)));
    assert_eq!(rates.metered, [0].into());
    rates.record_pods(&pods, &look(vec![(0, sample(20, 5.0, 0, 0))]), &metered(21, 900));
    assert_eq!(rates.pods[0].value.memory_bytes, Some(600));
    assert!(rates.metered.is_empty());
}
