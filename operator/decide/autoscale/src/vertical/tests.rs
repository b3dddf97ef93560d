//! Tests of private items of `vertical.rs`.

use super::*;

const WRITTEN: Resources = Resources {
    memory_request_bytes: 256 << 20,
    memory_limit_bytes: 512 << 20,
    cpu_request_millicores: 500,
    cpu_limit_millicores: Some(1_000),
};
const POLICY: VerticalPolicy = VerticalPolicy {
    written: WRITTEN,
    memory_min_bytes: 512 << 20,
    memory_max_bytes: 2 << 30,
    cpu_max_millicores: Some(2_000),
};

fn pod(used_mib: u64, limit_mib: u64, busy: f64) -> PodReport {
    PodReport {
        memory_bytes: Some(used_mib << 20),
        memory_limit_bytes: Some(limit_mib << 20),
        busy: Some(busy),
        ..PodReport::default()
    }
}

fn using(millicores: f64, limit: Option<u64>) -> PodReport {
    PodReport {
        cpu_millicores: Some(millicores),
        cpu_limit_millicores: limit,
        busy: limit.map(|limit| millicores / limit as f64),
        ..pod(300, 512, 0.0)
    }
}

/// Decides for one pod every ten seconds; returns the final resources.
fn play(
    policy: &VerticalPolicy,
    state: &mut VerticalState,
    seconds: std::ops::Range<i64>,
    waiting: bool,
    pod: impl Fn(&Resources) -> PodReport,
) -> (Resources, Vec<VerticalReason>) {
    let mut reasons = Vec::new();
    for now in seconds.step_by(10) {
        let pod = pod(&state.resources.unwrap_or(policy.written));
        let (_, reason, next) = decide_resources(policy, &[&pod], waiting, now, state);
        if reason != VerticalReason::Steady {
            reasons.push(reason);
        }
        *state = next;
    }
    (state.resources.unwrap(), reasons)
}

/// Scenario: memory in use comes near the limit, then a pod is OOM-killed. Guarantee: the limit
/// grows at once each time and never past the range, and half of it is requested as written.
#[test]
fn memory_grows_before_and_after_it_runs_out() {
    let (first, _, state) =
        decide_resources(&POLICY, &[&pod(100, 512, 0.1)], false, 0, &VerticalState::default());
    assert_eq!(first, WRITTEN);
    let (grown, reason, state) =
        decide_resources(&POLICY, &[&pod(480, 512, 0.1)], false, 10, &state);
    assert_eq!(reason, VerticalReason::MemoryNearLimit);
    assert_eq!(grown.memory_limit_bytes, 640 << 20);
    assert_eq!(grown.memory_request_bytes, 320 << 20);
    let ended = PodReport { oom_kills: 1, ..pod(100, 640, 0.1) };
    let (grown, reason, mut state) = decide_resources(&POLICY, &[&ended], false, 20, &state);
    assert_eq!(reason, VerticalReason::OutOfMemory);
    assert_eq!(grown.memory_limit_bytes, 960 << 20);
    for kills in 2..20 {
        let ended = PodReport { oom_kills: kills, ..pod(100, 2_048, 0.1) };
        let (resources, _, next) = decide_resources(&POLICY, &[&ended], false, 20, &state);
        assert!(resources.memory_limit_bytes <= 2 << 30);
        state = next;
    }
    assert_eq!(state.resources.unwrap().memory_limit_bytes, 2 << 30);
}

/// Scenario: a pod is OOM-killed repeatedly before it has an earlier growth. Guarantee: no further
/// growth until it has.
#[test]
fn memory_grows_no_further_before_it_has_grown() {
    let low = VerticalState { resources: Some(WRITTEN), ..VerticalState::default() };
    let ended = |kills, limit| PodReport { oom_kills: kills, ..pod(100, limit, 0.1) };
    let mut state = decide_resources(&POLICY, &[&ended(1, 512)], false, 0, &low).2;
    for kills in 2..9 {
        state = decide_resources(&POLICY, &[&ended(kills, 512)], false, 10, &state).2;
    }
    assert_eq!(state.resources.unwrap().memory_limit_bytes, 768 << 20);
    let (grown, _, _) = decide_resources(&POLICY, &[&ended(9, 768)], false, 20, &state);
    assert_eq!(grown.memory_limit_bytes, 1_152 << 20);
}

/// Scenario: pods at their CPU limit with and without messages waiting, and pods that do not have
/// the decided limit yet. Guarantee: it grows only while messages wait, step by step as pods get
/// it, and stops at the range's end; half of it is requested as written.
#[test]
fn processor_time_grows_only_while_messages_wait() {
    let state = || VerticalState { resources: Some(WRITTEN), ..VerticalState::default() };
    let full = |it: &Resources| {
        let limit = it.cpu_limit_millicores.unwrap();
        using(limit as f64, Some(limit))
    };
    let (calm, _) = play(&POLICY, &mut state(), 0..600, false, full);
    assert_eq!(calm, WRITTEN);
    let (grown, reasons) = play(&POLICY, &mut state(), 0..600, true, full);
    assert_eq!((grown.cpu_limit_millicores, grown.cpu_request_millicores), (Some(2_000), 1_000));
    assert_eq!(reasons, [VerticalReason::CpuAtLimit; 2]);
    let stuck = |_: &Resources| using(1_000.0, Some(1_000));
    let (grown, _) = play(&POLICY, &mut state(), 0..600, true, stuck);
    assert_eq!(grown.cpu_limit_millicores, Some(1_500));
}

/// Scenario: a grown pod uses little CPU time for a day, except for one busy minute after five
/// hours. Guarantee: the limit returns to the written one after six hours of calm, in steps.
#[test]
fn processor_time_goes_back_after_long_calm() {
    let grown = Resources { cpu_limit_millicores: Some(2_000), ..WRITTEN };
    let mut state = VerticalState { resources: Some(grown), ..VerticalState::default() };
    let idle = |it: &Resources| using(300.0, it.cpu_limit_millicores);
    let (_, reasons) = play(&POLICY, &mut state, 0..5 * 3_600, false, idle);
    assert_eq!(reasons, [VerticalReason::Bounds], "what is requested was put in proportion");
    play(&POLICY, &mut state, 18_000..18_060, false, |_| using(1_500.0, Some(2_000)));
    let (later, reasons) = play(&POLICY, &mut state, 18_060..18_060 + 5 * 3_600, false, idle);
    assert_eq!((later.cpu_limit_millicores, reasons), (Some(2_000), vec![]));
    let (end, reasons) = play(&POLICY, &mut state, 36_060..36_060 + 86_400, false, idle);
    assert_eq!(end.cpu_limit_millicores, Some(1_000));
    assert_eq!(reasons, [VerticalReason::CpuIdle]);
}

/// Scenario: pods without a CPU limit use twice their request, for minutes and then for long.
/// Guarantee: the request grows after ten minutes, by what they use, inside the range; no limit is
/// ever set, and the pool's own growth isn't held for it.
#[test]
fn what_is_requested_follows_use_where_there_is_no_limit() {
    let written = Resources { cpu_limit_millicores: None, ..WRITTEN };
    let policy = VerticalPolicy { written, ..POLICY };
    let mut state = VerticalState { resources: Some(written), ..VerticalState::default() };
    let busy = |_: &Resources| using(990.0, None);
    let (early, _) = play(&policy, &mut state, 0..600, false, busy);
    assert_eq!(early.cpu_request_millicores, 500);
    let (later, reasons) = play(&policy, &mut state, 600..3_600, false, busy);
    assert_eq!((later.cpu_request_millicores, later.cpu_limit_millicores), (1_200, None));
    assert_eq!(reasons, [VerticalReason::CpuAboveRequest]);
    assert!(!state.cpu_grew_within(3_600));
    let (most, _) = play(&policy, &mut state, 3_600..9_000, false, |_| using(7_000.0, None));
    assert_eq!(most.cpu_request_millicores, 2_000);
}

/// Scenario: pods whose requests equal their limits, and pods whose don't, with any amounts.
/// Guarantee: equal stays equal and less stays less, so a pod's QoS class stays.
#[test]
fn a_pods_class_of_service_stays() {
    for (request, limit) in [(1u64, 7u64), (3, 7), (6, 7), (7, 7)] {
        let written = Resources {
            memory_request_bytes: request * (100 << 20),
            memory_limit_bytes: limit * (100 << 20),
            cpu_request_millicores: request * 111,
            cpu_limit_millicores: Some(limit * 111),
        };
        let policy = VerticalPolicy { written, memory_max_bytes: 1 << 40, ..POLICY };
        let policy = VerticalPolicy { cpu_max_millicores: Some(64_000), ..policy };
        for nth in 0..200u64 {
            let it = complete_resources(&policy, nth * (67 << 20), nth * 37);
            let memory = it.memory_request_bytes == it.memory_limit_bytes;
            let cpu = Some(it.cpu_request_millicores) == it.cpu_limit_millicores;
            assert_eq!((memory, cpu), (request == limit, request == limit), "{it:?}");
            assert!(it.memory_request_bytes <= it.memory_limit_bytes, "{it:?}");
        }
        assert_eq!(complete_resources(&policy, written.memory_limit_bytes, limit * 111), written);
    }
}
