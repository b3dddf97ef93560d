//! Tests of the private parts of `lease.rs`.

use super::*;

fn held_by(holder: &str, renewed_second: i64) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(5),
        renew_time: Some(MicroTime(Timestamp::from_second(renewed_second).unwrap())),
        ..LeaseSpec::default()
    }
}

/// Scenario: the holder renews each second. Guarantee: no other replica ever acquires the lease.
#[test]
fn a_renewed_lease_is_never_taken() {
    let mut sighting = ObservedLease::default();
    let start = Instant::now();
    for second in 0..60 {
        let now = start + Duration::from_secs(second);
        let verdict = sighting.observe_lease(&held_by("a", second as i64), "b", now);
        assert_eq!(verdict, LeaseDecision::Wait);
    }
}

/// Scenario: the holder dies. Guarantee: the other waits the complete duration since it last
/// observed a change, whatever the holder's clock, then takes over.
#[test]
fn a_dead_holder_is_followed_after_the_duration_on_our_own_clock() {
    let mut sighting = ObservedLease::default();
    let start = Instant::now();
    let long_ago = held_by("a", 0);
    assert_eq!(sighting.observe_lease(&long_ago, "b", start), LeaseDecision::Wait);
    let almost = start + Duration::from_millis(4999);
    assert_eq!(sighting.observe_lease(&long_ago, "b", almost), LeaseDecision::Wait);
    assert_eq!(
        sighting.observe_lease(&long_ago, "b", start + Duration::from_secs(5)),
        LeaseDecision::Acquire
    );
}

/// Scenario: a released lease, and one we held before a restart. Guarantee: it is acquired at once.
#[test]
fn a_free_lease_and_our_own_are_taken_at_once() {
    let mut sighting = ObservedLease::default();
    let now = Instant::now();
    assert_eq!(sighting.observe_lease(&LeaseSpec::default(), "b", now), LeaseDecision::Acquire);
    assert_eq!(sighting.observe_lease(&held_by("b", 1), "b", now), LeaseDecision::Acquire);
    assert_eq!(sighting.observe_lease(&held_by("", 1), "b", now), LeaseDecision::Acquire);
}

/// Scenario: the default terms. Guarantee: the holder stops before any other replica may start,
/// which is within 20 s, and survives a stall of the API server of 9 s.
#[test]
fn the_holder_gives_up_before_others_may_take_over() {
    let terms = LeaseTiming { duration: LEASE_DURATION_DEFAULT };
    assert!(terms.give_up_after() < terms.duration);
    assert!(terms.duration + terms.renew_every() < Duration::from_secs(20));
    assert!(terms.give_up_after() - terms.renew_every() >= Duration::from_secs(9));
}
