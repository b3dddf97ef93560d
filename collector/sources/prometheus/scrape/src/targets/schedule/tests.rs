//! Tests of schedules.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use super::Schedule;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Scenario: any target, interval and moment. Guarantee: the next time follows within an
    /// interval; times are an interval apart, regardless of the moment of the call.
    #[test]
    fn each_interval_has_one_place(
        name in ".{0,20}",
        seconds in 1_u64..4000,
        now in 0_u64..4_000_000_000_000_000_000,
    ) {
        let interval = seconds * 1_000_000_000;
        let schedule = Schedule::new(&name, Duration::from_secs(seconds));
        let next = schedule.next(now);
        prop_assert!(next > now && next - now <= interval);
        prop_assert_eq!(schedule.next(next), next + interval);
        prop_assert_eq!(schedule.next(next - 1), next);
        prop_assert_eq!(schedule.count_between(now, next), 0);
        prop_assert_eq!(schedule.count_between(now, next + 3 * interval), 3);
        prop_assert_eq!(schedule.count_between(next, next + 3 * interval + 1), 3);
    }

    /// Scenario: two processes compute a schedule. Guarantee: a target has the same times in both.
    #[test]
    fn a_restart_changes_nothing(name in ".{0,20}", now in any::<u32>()) {
        let places = [0, 1].map(|_| Schedule::new(&name, Duration::from_secs(15)).next(now.into()));
        prop_assert_eq!(places[0], places[1]);
    }
}

/// Scenario: a job has a thousand targets. Guarantee: each tenth of the interval has some 100.
#[test]
fn targets_are_spread_over_the_interval() {
    let mut tenths = [0; 10];
    for number in 0..1000 {
        let name = format!("node 10.0.{}.{}:9100/metrics", number / 256, number % 256);
        let place = Schedule::new(&name, Duration::from_secs(15)).next(15_000_000_000_000);
        tenths[(place - 15_000_000_000_000 - 1) as usize / 1_500_000_000] += 1;
    }
    assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
}
