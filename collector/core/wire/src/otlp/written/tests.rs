//! Tests of the private code of `otlp/written.rs`.

use super::*;

/// Scenario: times around the limits of days, of 32 bits of seconds and of time itself. Guarantee:
/// as many days as a table would have partitions, by date or by seconds.
#[test]
fn days_are_those_of_either_way_of_counting_them() {
    let count = |times: &[u64]| {
        let mut days = Days::default();
        assert!(times.iter().chain(times).all(|&time| days.record_time(time, 100)));
        days.len()
    };
    let wrap = SECONDS_END_NANOS;
    assert_eq!(count(&[0, 1, NANOS_PER_DAY - 1]), 1);
    assert_eq!(count(&[NANOS_PER_DAY, NANOS_PER_DAY - 1, NANOS_PER_DAY + 1]), 2);
    assert_eq!(count(&[wrap - 1, wrap]), 2, "one date, two days by seconds");
    assert_eq!(count(&[i64::MAX as u64, u64::MAX]), 1);
    let mut days = Days::default();
    let noted = (0..200_u64).filter(|day| days.record_time(day * NANOS_PER_DAY, 100)).count();
    assert_eq!((noted, days.len()), (100, 100));
    assert!(
        !days.record_time(150 * NANOS_PER_DAY, 100) && days.record_time(99 * NANOS_PER_DAY, 100)
    );
}

/// Scenario: requests of one and of many days, light and heavy. Guarantee: joined they stay within
/// the limits of one request.
#[test]
fn joined_requests_are_within_the_limits_of_one() {
    let limits = crate::limits::WireLimits::default();
    let request = |days: std::ops::Range<u64>, written_bytes| {
        let mut checked = RequestOutline { written_bytes, ..RequestOutline::default() };
        assert!(days.clone().all(|day| checked.days.record_time(day * NANOS_PER_DAY, 100)));
        checked
    };
    let mut joined = CombinedOutline::default();
    assert!((0..1000).all(|_| joined.try_add(&request(5..7, 1), &limits)));
    assert!(joined.try_add(&request(6..104, 1), &limits));
    assert!(!joined.try_add(&request(50..106, 1), &limits));
    assert!(!joined.try_add(&request(5..6, limits.written_bytes), &limits));
    assert!(joined.try_add(&request(5..6, limits.written_bytes - 1001), &limits));
    joined.clear();
    assert!(joined.try_add(&request(200..300, limits.written_bytes), &limits));
    joined.clear();
    assert!(!joined.try_add(&RequestOutline::unjoinable(1), &limits));
}
