//! When an open loop's requests are due. The schedule depends on the rate, the session and the
//! seed, never on replies: latency counts from here, so that a server that stalls is charged for
//! every request that it kept waiting (no coordinated omission).

use crate::random::Random;
use crate::workload::Arrivals;

const NANOSECONDS: f64 = 1e9;

/// When the next request is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    AtOnce,
    /// In nanoseconds since the run's start.
    At(u64),
    Never,
}

/// One session's due times, in nanoseconds since the run's start.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: u64,
    /// Of this session.
    per_second: f64,
    gaps: Gaps,
    /// The next one's, from the start.
    seconds: f64,
}

#[derive(Debug)]
enum Gaps {
    /// The next one's number, from the session's place among the others on.
    Even {
        nth: f64,
    },
    Poisson {
        random: Random,
    },
}

impl Schedule {
    /// The part of `session` (of `sessions`) in a rate of `per_second` by all of them.
    pub(crate) fn new(
        per_second: f64,
        arrivals: Arrivals,
        (session, sessions): (u32, u32),
        random: Random,
    ) -> Self {
        let gaps = match arrivals {
            // The step to the first leads to its place.
            Arrivals::Even => Gaps::Even { nth: f64::from(session) / f64::from(sessions) - 1.0 },
            Arrivals::Poisson => Gaps::Poisson { random },
        };
        let per_second = per_second / f64::from(sessions);
        let mut schedule = Self { start: 0, per_second, gaps, seconds: 0.0 };
        schedule.advance();
        schedule
    }

    /// The run begins.
    pub(crate) fn start(&mut self, go: u64) {
        self.start = go;
    }

    /// When the next request is due.
    pub(crate) fn due(&self) -> u64 {
        self.start.saturating_add((self.seconds * NANOSECONDS) as u64)
    }

    /// The next request has been made.
    pub(crate) fn advance(&mut self) {
        match &mut self.gaps {
            // From the start each time, so that roundings don't add up.
            Gaps::Even { nth } => {
                *nth += 1.0;
                self.seconds = *nth / self.per_second;
            }
            // 1 - unit is over 0, so its logarithm is finite.
            Gaps::Poisson { random } => {
                self.seconds += -(1.0 - random.unit()).ln() / self.per_second;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dues(rate: f64, arrivals: Arrivals, place: (u32, u32), count: usize, seed: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(rate, arrivals, place, Random::of(seed, place.0.into()));
        let mut next = || {
            let due = schedule.due();
            schedule.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    proptest! {
        /// Scenario: sessions at equal distances share a rate. Guarantee: all their due times
        /// together are the rate's own, each within a nanosecond or two.
        #[test]
        fn sessions_share_a_rate_evenly(sessions in 1_u32..40, rate in 1.0_f64..1e6) {
            let each = 100;
            let mut all: Vec<u64> = (0..sessions)
                .flat_map(|nth| dues(rate, Arrivals::Even, (nth, sessions), each, 1))
                .collect();
            all.sort_unstable();
            for (nth, due) in all.iter().enumerate() {
                let exact = nth as f64 / rate * NANOSECONDS;
                prop_assert!((*due as f64 - exact).abs() <= 2.0 + exact * 1e-9, "{} {}", due, exact);
            }
        }

        /// Scenario: independent arrivals. Guarantee: never back in time; the mean gap is the
        /// rate's within six standard errors; the same seed gives the same times.
        #[test]
        fn independent_arrivals_keep_the_rate(rate in 1.0_f64..1e5, seed: u64) {
            let count = 4_000;
            let all = dues(rate, Arrivals::Poisson, (0, 1), count, seed);
            prop_assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
            let mean = *all.last().unwrap() as f64 / NANOSECONDS / count as f64 * rate;
            prop_assert!((mean - 1.0).abs() < 6.0 / (count as f64).sqrt(), "{}", mean);
            prop_assert_eq!(all, dues(rate, Arrivals::Poisson, (0, 1), count, seed));
        }
    }
}
