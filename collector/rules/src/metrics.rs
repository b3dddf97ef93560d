//! Metrics of rules. Series are made when a rule first applies to a record of a signal, so their
//! number is bounded by the rules that are in use.

use std::sync::OnceLock;
use std::time::Duration;

use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_processing::enrich::UnlabeledReason;
use millrace_processing::{Counts, Rule, RuleCounts};
use millrace_wire::Signal;
use prometheus::{Counter, CounterVec, IntCounter, IntCounterVec, Opts};

/// The metrics of a rule set.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    matched: IntCounterVec,
    changed: IntCounterVec,
    failed: IntCounterVec,
    dropped: IntCounterVec,
    routed: IntCounterVec,
    unlabeled: IntCounterVec,
    rule_seconds: CounterVec,
    labels: Vec<(String, String)>,
    signals: [SignalMetrics; 3],
}

/// The metrics of one signal.
#[derive(Debug)]
pub(crate) struct SignalMetrics {
    pub(crate) over_limit: IntCounter,
    pub(crate) seconds: Counter,
    /// By the rule's position.
    pub(crate) rules: Vec<OnceLock<RuleCounters>>,
    /// The estimated seconds, by the rule's position.
    pub(crate) times: Vec<OnceLock<Counter>>,
}

/// The counters of one rule and signal.
#[derive(Debug)]
pub(crate) struct RuleCounters {
    pub(crate) matched: IntCounter,
    pub(crate) changed: IntCounter,
    pub(crate) failed: IntCounter,
    pub(crate) dropped: IntCounter,
    pub(crate) routed: IntCounter,
}

/// Returns the name of a rule in its step, such as `statements[0]`.
pub(crate) fn rule_label(rule: &Rule) -> String {
    format!("{}[{}]", rule.list, rule.index)
}

impl RuleMetrics {
    pub(crate) fn register(telemetry: &Telemetry, rules: &[Rule]) -> Result<Self, TelemetryError> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            telemetry.register(Box::new(metric.clone()))?;
            Ok::<_, TelemetryError>(metric)
        };
        let over_limit = counters(
            "millrace_rules_over_limit_total",
            "Records that rules left unchanged, because they or their request would have become \
             too long or too deep.",
            &["signal"],
        )?;
        let seconds = CounterVec::new(
            Opts::new("millrace_rules_seconds_total", "Time for running rules, in seconds."),
            &["signal"],
        )?;
        telemetry.register(Box::new(seconds.clone()))?;
        let rule_seconds = CounterVec::new(
            Opts::new(
                "millrace_rule_seconds_total",
                "Time of the rule, in seconds, without reading and writing requests: an estimate \
                 from one of 64 objects. Sampling, redaction and enrichment count it at the \
                 step's first rule.",
            ),
            &["signal", "step", "rule"],
        )?;
        telemetry.register(Box::new(rule_seconds.clone()))?;
        Ok(Self {
            matched: counters(
                "millrace_rule_matched_total",
                "Objects on which the rule's condition was true, or on which a rule without a \
                 condition ran.",
                &["signal", "step", "rule"],
            )?,
            changed: counters(
                "millrace_rule_changed_total",
                "Objects that the rule changed.",
                &["signal", "step", "rule"],
            )?,
            failed: counters(
                "millrace_rule_failed_total",
                "Objects on which the rule failed.",
                &["signal", "step", "rule"],
            )?,
            dropped: counters(
                "millrace_records_dropped_total",
                "Records that the rule dropped. Records in are out, buffered, refused or dropped.",
                &["signal", "step", "rule"],
            )?,
            routed: counters(
                "millrace_records_routed_total",
                "Records that the rule sent to another topic.",
                &["signal", "step", "rule"],
            )?,
            unlabeled: counters(
                "millrace_records_unlabeled_total",
                "Records of OTLP clients that got no metadata of a pod, by reason: no_identity, \
                 unknown_pod, shared_address, not_synced.",
                &["signal", "reason"],
            )?,
            rule_seconds,
            labels: rules.iter().map(|rule| (rule.step.clone(), rule_label(rule))).collect(),
            signals: Signal::ALL.map(|signal| SignalMetrics {
                over_limit: over_limit.with_label_values(&[signal.as_str()]),
                seconds: seconds.with_label_values(&[signal.as_str()]),
                rules: rules.iter().map(|_| OnceLock::new()).collect(),
                times: rules.iter().map(|_| OnceLock::new()).collect(),
            }),
        })
    }

    /// Returns the metrics of a signal.
    pub(crate) fn signal(&self, signal: Signal) -> &SignalMetrics {
        &self.signals[signal.index()]
    }

    /// Adds the time of a run, whatever became of its request, and the estimates by rule.
    pub(crate) fn record_time(&self, signal: Signal, time: Duration, counts: &Counts) {
        let metrics = self.signal(signal);
        metrics.seconds.inc_by(time.as_secs_f64());
        let estimates = counts.rules.iter().zip(&metrics.times).zip(&self.labels);
        for ((RuleCounts { nanos, .. }, seconds), (step, rule)) in estimates {
            if *nanos > 0 {
                let labels = [signal.as_str(), step, rule];
                let made = || self.rule_seconds.with_label_values(&labels);
                seconds.get_or_init(made).inc_by(Duration::from_nanos(*nanos).as_secs_f64());
            }
        }
    }

    /// Adds the counters of a run whose result was accepted.
    pub(crate) fn record_run(&self, signal: Signal, counts: &Counts) {
        for (index, count) in counts.rules.iter().enumerate() {
            let RuleCounts { matched, changed, dropped_records, routed_records, failed, .. } =
                *count;
            // A rule may fail on an object before its condition is true.
            if matched | changed | dropped_records | routed_records | failed == 0 {
                continue;
            }
            let Some(counters) = self.counters(signal, index) else { continue };
            counters.matched.inc_by(matched);
            counters.changed.inc_by(changed);
            counters.failed.inc_by(failed);
            counters.dropped.inc_by(dropped_records);
            counters.routed.inc_by(routed_records);
        }
        for reason in UnlabeledReason::ALL {
            let records = counts.unlabeled[reason.index()];
            if records > 0 {
                let labels = [signal.as_str(), reason.as_str()];
                self.unlabeled.with_label_values(&labels).inc_by(records);
            }
        }
        if counts.over_limit > 0 {
            self.signal(signal).over_limit.inc_by(counts.over_limit);
        }
    }

    /// Adds one failure, of a request that was refused for it.
    pub(crate) fn record_failure(&self, signal: Signal, rule: usize) {
        if let Some(counters) = self.counters(signal, rule) {
            counters.failed.inc();
        }
    }

    fn counters(&self, signal: Signal, index: usize) -> Option<&RuleCounters> {
        let (step, rule) = self.labels.get(index)?;
        let labels = [signal.as_str(), step, rule];
        let made = || RuleCounters {
            matched: self.matched.with_label_values(&labels),
            changed: self.changed.with_label_values(&labels),
            failed: self.failed.with_label_values(&labels),
            dropped: self.dropped.with_label_values(&labels),
            routed: self.routed.with_label_values(&labels),
        };
        Some(self.signal(signal).rules.get(index)?.get_or_init(made))
    }
}
