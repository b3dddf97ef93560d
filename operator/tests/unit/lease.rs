//! Tests of what `lease.rs` keeps to itself.

use super::*;

fn held_by(holder: &str, renewed_second: i64) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(5),
        renew_time: Some(MicroTime(Timestamp::from_second(renewed_second).unwrap())),
        ..LeaseSpec::default()
    }
}

/// Scenario: the holder renews each second. Guarantee: nobody else ever takes the lease.
#[test]
fn a_renewed_lease_is_never_taken() {
    let mut sighting = Sighting::default();
    let start = Instant::now();
    for second in 0..60 {
        let now = start + Duration::from_secs(second);
        let verdict = sighting.judge(&held_by("a", second as i64), "b", now);
        assert_eq!(verdict, Verdict::Wait);
    }
}

/// Scenario: the holder dies. Guarantee: the other waits the whole duration from when it last
/// saw a change, whatever the holder's clock said, then takes over.
#[test]
fn a_dead_holder_is_followed_after_the_duration_on_our_own_clock() {
    let mut sighting = Sighting::default();
    let start = Instant::now();
    let long_ago = held_by("a", 0);
    assert_eq!(sighting.judge(&long_ago, "b", start), Verdict::Wait);
    let almost = start + Duration::from_millis(4999);
    assert_eq!(sighting.judge(&long_ago, "b", almost), Verdict::Wait);
    assert_eq!(sighting.judge(&long_ago, "b", start + Duration::from_secs(5)), Verdict::Take);
}

/// Scenario: a lease given back, and one we held before a restart. Guarantee: taken at once.
#[test]
fn a_free_lease_and_our_own_are_taken_at_once() {
    let mut sighting = Sighting::default();
    let now = Instant::now();
    assert_eq!(sighting.judge(&LeaseSpec::default(), "b", now), Verdict::Take);
    assert_eq!(sighting.judge(&held_by("b", 1), "b", now), Verdict::Take);
    assert_eq!(sighting.judge(&held_by("", 1), "b", now), Verdict::Take);
}

/// Scenario: the default terms. Guarantee: the holder stops before anyone else may start.
#[test]
fn the_holder_gives_up_before_others_may_take_over() {
    let terms = Terms { duration: LEASE_DURATION_DEFAULT };
    assert!(terms.give_up_after() < terms.duration);
    assert!(terms.duration + terms.renew_every() < Duration::from_secs(5));
}
