//! When targets were asked: how far from their interval, how often not at all, how often twice.
//!
//! A collector chooses for itself at which place in the interval it asks a target. So the place is
//! taken from the earliest of its requests, and lateness counts from there.
//!
//! Limits: it sees requests, not what becomes of their answers.

use std::time::Duration;

/// What requests of all targets came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Punctuality {
    /// Requests that were made.
    pub(super) scrapes: u64,
    /// Intervals without a request.
    pub(super) missed: u64,
    /// Requests beyond the first of an interval.
    pub(super) doubled: u64,
}

/// Compares the times of each target's requests, in microseconds and in order, with the interval;
/// how late each was goes to `late_micros`.
pub(super) fn judge(
    targets: &[Vec<u64>],
    interval: Duration,
    late_micros: &mut Vec<u64>,
) -> Punctuality {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
    let mut sum = Punctuality::default();
    for times in targets {
        let Some(first) = times.first() else { continue };
        // Places relative to the first request, in the middle of whose turn it is.
        let turn = |time: u64| (time - first + interval / 2) / interval;
        let offset =
            |time: u64| (time + interval / 2) as i64 - (first + turn(time) * interval) as i64;
        let earliest = times.iter().map(|time| offset(*time)).min().unwrap_or_default();
        let mut last = None;
        for time in times {
            let now = turn(*time);
            match last {
                Some(last) if last == now => sum.doubled += 1,
                Some(last) => sum.missed += now - last - 1,
                None => {}
            }
            last = Some(now);
            sum.scrapes += 1;
            late_micros.push(u64::try_from(offset(*time) - earliest).unwrap_or_default());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Punctuality, judge};

    /// Scenario: a target that is asked on time, one whose first request was late, one that is left
    /// out once and asked twice once. Guarantee: each is counted as what it is.
    #[test]
    fn requests_are_compared_with_the_interval() {
        let mut late = Vec::new();
        let times = [vec![5, 1005, 2005], vec![300, 1200, 2200], vec![0, 2000, 2300, 3000]];
        let found = judge(&times, Duration::from_millis(1), &mut late);
        assert_eq!(found, Punctuality { scrapes: 10, missed: 1, doubled: 1 });
        assert_eq!(late, [0, 0, 0, 100, 0, 0, 0, 0, 300, 0]);
    }
}
