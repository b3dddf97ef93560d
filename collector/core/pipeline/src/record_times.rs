//! Converts the settings of accepted times into a range around an instant.

use millrace_config::{MessageTimes, RecordTimes};
use millrace_wire::otlp::TimeRange;

const NANOS_PER_HOUR: u64 = 3_600 * 1_000_000_000;

/// The tolerance that a gateway adds to its setting in both directions: a day. Accepted records may
/// have waited in an edge's buffer on disk, and the broker's clock differs.
const SLACK_HOURS: u64 = 24;

/// Returns the times that an edge accepts at `now` by its own clock, in nanoseconds since 1970. It
/// accepts all while that clock is evidently wrong: the gateway checks by the broker's clock.
pub fn edge_times(times: &RecordTimes, now: u64) -> TimeRange {
    let RecordTimes { past_days, future_hours } = *times;
    let past_nanos = hours_to_nanos(u64::from(past_days) * 24);
    TimeRange::around_local_clock(now, past_nanos, hours_to_nanos(future_hours.into()))
}

/// Returns the times that a gateway accepts in a message sent at `sent`.
pub fn message_times(times: &MessageTimes, sent: u64) -> TimeRange {
    let MessageTimes { past_days, future_hours } = *times;
    let past_nanos = hours_to_nanos(u64::from(past_days) * 24 + SLACK_HOURS);
    TimeRange::around(sent, past_nanos, hours_to_nanos(u64::from(future_hours) + SLACK_HOURS))
}

const fn hours_to_nanos(hours: u64) -> u64 {
    hours.saturating_mul(NANOS_PER_HOUR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * NANOS_PER_HOUR;
    /// 28 November 2026.
    const NOW: u64 = 20_785 * DAY;

    /// Scenario: records with the right time, at edges whose clock is right, a day ahead or behind,
    /// a year ahead, and unset, by default settings. Guarantee: a clock that is a day off or unset
    /// costs no record; one a year ahead does.
    #[test]
    fn an_edges_wrong_clock_costs_no_record_unless_it_is_far_ahead() {
        for (clock, is_accepted) in [
            (NOW, true),
            (NOW - DAY, true),
            (NOW + DAY, true),
            (NOW + 29 * DAY, true),
            (NOW + 365 * DAY, false),
            (NOW - 365 * DAY, true),
            (0, true),
        ] {
            let times = edge_times(&RecordTimes::default(), clock);
            assert_eq!(times.contains(NOW), is_accepted, "{clock}");
        }
    }

    /// Scenario: a message sent now, with records of nodes' logs up to over a year old, and of
    /// broken clocks, by default settings. Guarantee: the former are accepted, the latter aren't.
    #[test]
    fn old_logs_are_accepted_by_gateways() {
        for (time, is_accepted) in [
            (NOW, true),
            (NOW - 400 * DAY, true),
            (NOW - 402 * DAY, false),
            (NOW + 3 * DAY, true),
            (NOW + 4 * DAY, false),
            (1, false),
        ] {
            let times = message_times(&MessageTimes::default(), NOW);
            assert_eq!(times.contains(time), is_accepted, "{time}");
        }
    }
}
