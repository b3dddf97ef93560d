//! Logs rules that failed: at most one line a minute for each rule, without the record's content.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_processing::{Counts, Rule, RuleFailure};
use millrace_wire::Signal;

use crate::metrics::rule_label;

/// The minimum time between two log lines of a rule.
const QUIET: Duration = Duration::from_secs(60);

/// Counts failures between two log lines.
#[derive(Debug)]
pub(crate) struct FailureLog {
    rules: Mutex<Vec<FailureCount>>,
}

#[derive(Debug, Default)]
struct FailureCount {
    /// Its step has the error mode `Silent`.
    is_silent: bool,
    /// The failures since the last line.
    failures: u64,
    logged: Option<Instant>,
}

impl FailureLog {
    /// Returns a log for rules, in their order: whether each is silent.
    pub(crate) fn new(silent: impl Iterator<Item = bool>) -> Self {
        let count = |is_silent| FailureCount { is_silent, ..FailureCount::default() };
        Self { rules: Mutex::new(silent.map(count).collect()) }
    }

    /// Logs the failures of a run whose lines are due.
    pub(crate) fn record_run(&self, signal: Signal, rules: &[Rule], counts: &Counts) {
        for (index, count) in counts.rules.iter().enumerate() {
            if let (1.., Some(error), Some(rule)) =
                (count.failed, count.last_error, rules.get(index))
            {
                self.record_failures(signal, (index, rule), count.failed, error);
            }
        }
    }

    /// Logs failures of one rule, if its line is due.
    pub(crate) fn record_failures(
        &self,
        signal: Signal,
        (index, rule): (usize, &Rule),
        failures: u64,
        error: RuleFailure,
    ) {
        let Some(failures) = self.take_due(index, failures, Instant::now()) else { return };
        tracing::warn!(
            signal = signal.as_str(),
            step = rule.step,
            rule = rule_label(rule),
            failures,
            %error,
            "a rule failed on records"
        );
    }

    /// Returns the number to log, if a line is due.
    fn take_due(&self, index: usize, failures: u64, now: Instant) -> Option<u64> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let count = rules.get_mut(index).filter(|count| !count.is_silent)?;
        count.failures = count.failures.saturating_add(failures);
        if count.logged.is_some_and(|logged| now.duration_since(logged) < QUIET) {
            return None;
        }
        count.logged = Some(now);
        Some(std::mem::take(&mut count.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a rule fails each second for two minutes, a silent one too. Guarantee: one line a
    /// minute with all failures since the last; none of the silent rule.
    #[test]
    fn a_failing_rule_is_logged_once_a_minute() {
        let (log, start) = (FailureLog::new([false, true].into_iter()), Instant::now());
        let due = |index| -> Vec<(u64, u64)> {
            (0..=120)
                .filter_map(|second| {
                    let now = start + Duration::from_secs(second);
                    log.take_due(index, 10, now).map(|failures| (second, failures))
                })
                .collect()
        };
        assert_eq!(due(0), [(0, 10), (60, 600), (120, 600)]);
        assert!(due(1).is_empty());
    }
}
