//! Logs records that were excluded for their times: at most one line a minute for each signal.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use millrace_pipeline::mutex::lock;

use millrace_wire::Signal;

/// The minimum time between two log lines of a signal.
const QUIET: Duration = Duration::from_secs(60);

/// Counts excluded records between two log lines.
#[derive(Default)]
pub(crate) struct OutOfRangeLog {
    signals: Mutex<[SignalCount; Signal::ALL.len()]>,
}

#[derive(Default)]
struct SignalCount {
    /// The records since the last line.
    records: u64,
    logged: Option<Instant>,
}

impl OutOfRangeLog {
    /// Records `records` that an edge with the clock `clock_unix_nanos` excluded.
    pub(crate) fn record_rejected(&self, signal: Signal, records: u64, clock_unix_nanos: u64) {
        let Some(records) = self.take_due(signal, records, Instant::now()) else { return };
        tracing::warn!(
            signal = signal.as_str(),
            records,
            clock_unix_seconds = clock_unix_nanos / 1_000_000_000,
            "records were rejected: their timestamps are too far from this edge's clock"
        );
    }

    /// Returns the number to log, if a line is due.
    fn take_due(&self, signal: Signal, records: u64, now: Instant) -> Option<u64> {
        let mut signals = lock(&self.signals);
        let count = &mut signals[signal.index()];
        count.records = count.records.saturating_add(records);
        if count.logged.is_some_and(|logged| now.duration_since(logged) < QUIET) {
            return None;
        }
        count.logged = Some(now);
        Some(std::mem::take(&mut count.records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: records are excluded each second for two minutes, and of another signal once.
    /// Guarantee: one line a minute for each signal; their sum is the number of excluded records.
    #[test]
    fn the_log_says_it_once_a_minute_with_all_since_the_last_time() {
        let (log, start) = (OutOfRangeLog::default(), Instant::now());
        let lines: Vec<(u64, u64)> = (0..=120)
            .filter_map(|second| {
                let now = start + Duration::from_secs(second);
                log.take_due(Signal::Logs, 10, now).map(|records| (second, records))
            })
            .collect();
        assert_eq!(lines, [(0, 10), (60, 600), (120, 600)]);
        assert_eq!(log.take_due(Signal::Traces, 3, start), Some(3));
    }
}
