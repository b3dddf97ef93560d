//! Tests of `circuit_breaker.rs`.

use super::*;

fn circuits(replicas: usize) -> Circuits {
    Circuits::new(replicas, |_| 7)
}

fn send(replica: usize, is_probe: bool) -> Direction {
    Direction::Send { replica, is_probe }
}

/// Returns when the circuits admit an insert again.
fn wait(circuits: &mut Circuits, home: usize, now: Instant) -> Instant {
    match circuits.choose_replica(home, now) {
        Direction::Wait { until: Some(until), .. } => until,
        other => panic!("{other:?} instead of a wait"),
    }
}

/// Scenario: an endpoint fails, is probed, fails again, is probed, accepts. Guarantee: nothing is
/// sent while it is open, exactly one insert probes, each wait is longer than the one before, and a
/// success resets the waits.
#[test]
fn a_breaker_opens_is_probed_by_one_insert_and_closes() {
    let mut now = Instant::now();
    for pace in [Pace::Retry, Pace::Overload, Pace::Repair] {
        let mut circuits = circuits(1);
        let mut waits = Vec::new();
        for attempt in 0..4 {
            assert_eq!(circuits.choose_replica(0, now), send(0, attempt > 0));
            circuits.record_failure(0, false, pace, now, now);
            let until = wait(&mut circuits, 0, now);
            waits.push(until - now);
            let just_before = until - Duration::from_nanos(1);
            assert!(matches!(circuits.choose_replica(0, just_before), Direction::Wait { .. }));
            now = until;
        }
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        assert_eq!(circuits.choose_replica(0, now), send(0, true));
        let others = circuits.choose_replica(0, now + Duration::from_secs(99));
        assert!(matches!(others, Direction::Wait { until: None, .. }), "one probe: {others:?}");
        circuits.record_success(0);
        assert_eq!((circuits.choose_replica(0, now), circuits.open_count()), (send(0, false), 0));
        circuits.record_failure(0, false, pace, now, now);
        assert!(wait(&mut circuits, 0, now) - now <= waits[0].mul_f64(2.0));
    }
}

/// Scenario: inserts that ran together fail together, one of them late, during a probe. Guarantee:
/// the breaker opens once, and only the probe's own answer counts for the probe.
#[test]
fn failures_of_one_time_open_a_breaker_once() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut circuits = circuits(1);
    circuits.record_failure(0, false, Pace::Overload, start, at(1));
    let until = wait(&mut circuits, 0, at(1));
    circuits.record_failure(0, false, Pace::Overload, start, at(2));
    assert_eq!(wait(&mut circuits, 0, at(2)), until);
    assert_eq!(circuits.choose_replica(0, until), send(0, true));
    circuits.record_failure(0, false, Pace::Overload, start, until);
    assert!(matches!(circuits.choose_replica(0, until), Direction::Wait { until: None, .. }));
    circuits.record_failure(0, false, Pace::Overload, until, until);
    assert!(wait(&mut circuits, 0, until) > until);
}

/// Scenario: one of two replicas fails, then the other too, or both share the failure. Guarantee:
/// inserts move to the other at once and return to their own when it may be probed; the table is
/// held back only while neither accepts, and not for a wait under a second.
#[test]
fn inserts_move_to_the_other_replica_and_return() {
    let now = Instant::now();
    let mut circuits = circuits(2);
    circuits.record_failure(0, false, Pace::Overload, now, now);
    assert_eq!(
        (circuits.choose_replica(0, now), circuits.choose_replica(1, now)),
        (send(1, false), send(1, false))
    );
    assert!(!circuits.is_stalled(now) && circuits.is_any_closed() && circuits.open_count() == 1);
    let later = now + Duration::from_secs(2);
    assert_eq!(
        (circuits.choose_replica(0, later), circuits.choose_replica(0, later)),
        (send(0, true), send(1, false))
    );
    circuits.record_failure(1, false, Pace::Retry, later, later);
    assert!(!circuits.is_stalled(later), "a short wait");
    circuits.record_failure(0, false, Pace::Repair, later, later);
    circuits.record_failure(1, false, Pace::Repair, later + Duration::from_millis(1), later);
    circuits.record_success(0);
    circuits.record_success(1);

    circuits.record_failure(0, true, Pace::Overload, later, later);
    assert!(circuits.is_stalled(later) && circuits.open_count() == 2);
    let until = wait(&mut circuits, 1, later);
    assert!(!circuits.is_stalled(until), "its time has come");
    assert!(matches!(circuits.choose_replica(1, until), Direction::Send { is_probe: true, .. }));
}

/// Scenario: an insert has no answer for long; then it has one, or never, or a probe is dropped.
/// Guarantee: others go to the other replica or wait until its timeout; a late success closes the
/// breaker; after the timeout, and after a dropped probe, the next insert probes at once.
#[test]
fn a_silent_endpoint_is_left_alone_until_the_time_out() {
    let now = Instant::now();
    let time_out = now + Duration::from_secs(60);
    let mut pair = circuits(2);
    pair.record_silence(0, now, now + Duration::from_secs(5), time_out);
    assert_eq!(pair.choose_replica(0, now + Duration::from_secs(6)), send(1, false));
    pair.record_success(0);
    assert_eq!(pair.choose_replica(0, now + Duration::from_secs(7)), send(0, false));

    let mut single = circuits(1);
    single.record_silence(0, now, now + Duration::from_secs(5), time_out);
    assert!(single.is_stalled(now + Duration::from_secs(6)));
    assert_eq!(wait(&mut single, 0, now + Duration::from_secs(6)), time_out);
    single.record_failure(0, false, Pace::Retry, now, time_out);
    assert_eq!(single.choose_replica(0, time_out), send(0, true));
    single.cancel_probe(0, time_out);
    assert_eq!(single.choose_replica(0, time_out), send(0, true));
}

/// Scenario: an insert has no answer for long, then fails before its timeout; or goes silent while
/// a later one probes, and the probe fails. Guarantee: the failure decides the wait, not the
/// timeout.
#[test]
fn a_silent_insert_that_fails_ends_its_own_wait() {
    let now = Instant::now();
    let after = |seconds| now + Duration::from_secs(seconds);
    let mut single = circuits(1);
    single.record_silence(0, now, after(5), after(60));
    single.record_failure(0, false, Pace::Retry, now, after(6));
    let until = wait(&mut single, 0, after(6));
    assert!(until < after(7), "{:?}", until - now);

    assert_eq!(single.choose_replica(0, until), send(0, true));
    single.record_silence(0, now, until, after(60));
    single.record_failure(0, false, Pace::Retry, until, after(8));
    assert!(wait(&mut single, 0, after(8)) < after(9));
}

/// Scenario: 20,000 random events at two replicas. Guarantee: an insert goes to its own replica
/// whenever that admits it, else to the other; it waits only while neither does; at the end of the
/// wait one does, and a wait without an end has a probe in flight.
#[test]
fn random_events_agree_with_the_model() {
    let mut random = 17_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) % below
    };
    let (mut circuits, mut now) = (circuits(2), Instant::now());
    // The attempts in flight: replica, begin, probe.
    let mut under_way: Vec<(usize, Instant, bool)> = Vec::new();
    for _ in 0..20_000 {
        now += Duration::from_millis(next(400));
        if next(2) == 0 || under_way.is_empty() {
            let home = next(2) as usize;
            let admitted = [0, 1].map(|replica| circuits.0[replica].allows_insert(now));
            match circuits.choose_replica(home, now) {
                Direction::Send { replica, is_probe } => {
                    let expected = if admitted[home] { home } else { 1 - home };
                    assert!(admitted[expected] && replica == expected);
                    under_way.push((replica, now, is_probe));
                }
                Direction::Wait { until, .. } => {
                    assert_eq!(admitted, [false, false]);
                    let Some(until) = until else {
                        assert!(under_way.iter().any(|(_, _, is_probe)| *is_probe));
                        continue;
                    };
                    assert!(until > now);
                    assert!((0..2).any(|replica| circuits.0[replica].allows_insert(until)));
                }
            }
            continue;
        }
        let at = next(under_way.len() as u64) as usize;
        let (replica, started, is_probe) = under_way.swap_remove(at);
        match next(5) {
            0 | 1 => {
                circuits.record_success(replica);
                assert!(circuits.0[replica].allows_insert(now));
            }
            2 => circuits.record_failure(replica, false, Pace::Retry, started, now),
            3 => circuits.record_failure(replica, true, Pace::Overload, started, now),
            _ if is_probe => circuits.cancel_probe(replica, now),
            _ => {
                let until = now + Duration::from_secs(next(3));
                circuits.record_silence(replica, started, now, until);
            }
        }
    }
}
