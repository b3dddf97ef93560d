//! Renders the rules of a process and what they did: `/rules`, as JSON. Pure.

use millrace_processing::Rule;
use millrace_wire::Signal;
use prometheus::{Counter, IntCounter};
use serde_json::{Map, Value, json};

use crate::metrics::{RuleCounters, RuleMetrics, rule_label};

/// Returns the document. It has an entry for each rule, with the signals to whose records it has
/// applied so far, or which it was measured on.
pub(crate) fn render_json(rules: &[Rule], metrics: &RuleMetrics) -> String {
    let rules: Vec<Value> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let counts: Map<String, Value> = Signal::ALL
                .into_iter()
                .filter_map(|signal| {
                    let metrics = metrics.signal(signal);
                    let seconds = metrics.times.get(index)?.get();
                    let counters = metrics.rules.get(index)?.get();
                    if counters.is_none() && seconds.is_none() {
                        return None;
                    }
                    let count = |of: fn(&RuleCounters) -> &IntCounter| {
                        counters.map_or(0, |counters| of(counters).get())
                    };
                    let counts = json!({
                        "matched": count(|it| &it.matched),
                        "changed": count(|it| &it.changed),
                        "droppedRecords": count(|it| &it.dropped),
                        "routedRecords": count(|it| &it.routed),
                        "failed": count(|it| &it.failed),
                        "seconds": seconds.map_or(0.0, Counter::get),
                    });
                    Some((signal.as_str().to_owned(), counts))
                })
                .collect();
            json!({
                "step": rule.step, "rule": rule_label(rule), "text": rule.text, "signals": counts,
            })
        })
        .collect();
    let signals: Map<String, Value> = Signal::ALL
        .into_iter()
        .map(|signal| {
            let metrics = metrics.signal(signal);
            let sums =
                json!({"seconds": metrics.seconds.get(), "overLimit": metrics.over_limit.get()});
            (signal.as_str().to_owned(), sums)
        })
        .collect();
    format!("{}\n", json!({"rules": rules, "signals": signals}))
}
